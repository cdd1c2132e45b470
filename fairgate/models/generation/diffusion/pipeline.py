"""A loaded Stable Diffusion (1.x, 2.x, XL, refiner, InstructPix2Pix): its parts, and what each does to a batch.

One class for all of them: what runs the parts is a pipeline of diffusers for each kind of work, or, for what none of
them does, `set_painting` and the diffusion classifier. The safety checker is never loaded: it blackens pictures, more
often for some groups than for others, which would bias the dataset; people review what is released.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import diffusers
import numpy as np
import torch
from diffusers.image_processor import VaeImageProcessor
from numpy.typing import NDArray
from PIL.Image import Image

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import diverged, find_device, naming
from fairgate.models.generation.diffusion.components import Placement, load_component
from fairgate.models.generation.diffusion.files import PipelineFiles
from fairgate.models.generation.diffusion.lora import merge_lora
from fairgate.models.generation.diffusion.schedule import make_scheduler, running_diffusers
from fairgate.models.generation.diffusion.single_file import require_whole
from fairgate.models.generation.offload import current_offload

_SWITCHES = ("force_zeros_for_empty_prompt", "requires_aesthetics_score")  # of SDXL's pipelines
_REMEMBERED = 100
"""Prompts whose embeddings stay on the device: 63 MB of an SDXL's, 24 MB of an SD 1.5's."""
_PIXELS_AT_ONCE = 1 << 20  # of a decoded batch: the VAE's activations are far larger than the UNet's
Work = Literal["", "Img2Img", "Inpaint", "InstructPix2Pix"]
"""What tells the names of diffusers' pipelines apart; the first makes pictures of text alone."""


@dataclass(frozen=True, slots=True)
class Conditioning:
    """The UNet's conditioning of a batch: token states (n, tokens, dim), and for SDXL pooled ones (n, dim)."""

    tokens: torch.Tensor
    pooled: torch.Tensor | None = None

    @property
    def numbers(self) -> NDArray[np.float64]:
        """All of them, as one vector."""
        parts = [part for part in (self.tokens, self.pooled) if part is not None]
        return np.concatenate([part.double().cpu().numpy().ravel() for part in parts])

    def rows(self, rows: list[int]) -> Conditioning:
        return Conditioning(self.tokens[rows], None if self.pooled is None else self.pooled[rows])


def joined(parts: Sequence[Conditioning]) -> Conditioning:
    """Batches one after the other, all of one model."""
    pooled = [part.pooled for part in parts if part.pooled is not None]
    return Conditioning(torch.cat([part.tokens for part in parts]), torch.cat(pooled) if pooled else None)


class StableDiffusion:
    """The parts of one pipeline on one device, and its refiner, which has a UNet of its own, and the base's VAE.

    The UNet runs in `dtype` (float32 on a CPU, bfloat16 on a GPU, float16 on one before Ampere); text encoders, VAE,
    latents and schedulers are float32 everywhere. `spent["unet"]` counts evaluations per image. Noise is drawn on the
    CPU in float32, one generator per image, so that it depends neither on the device nor on the batch; prompts are
    embedded one at a time, so that an embedding depends on its prompt alone.
    """

    def __init__(self, found: PipelineFiles, uri: str, device: str, base: StableDiffusion | None = None) -> None:
        where = find_device(device)
        self.uri, self.where, self.files = uri, str(found.folder), found
        self.fingerprint, self.is_xl = found.fingerprint, found.is_xl
        self.device = torch.device(where.name)
        self.dtype = {"fp32": torch.float32, "amp_bf16": torch.bfloat16, "amp_fp16": torch.float16}[where.precision]
        self.placement: Placement = base.placement if base is not None else Placement(self.device, current_offload())
        self.spent: Counter[str] = Counter() if base is None else base.spent
        role = "scheduler/scheduler_config.json"
        place = f"{found.folder}/{role}"
        self._own_scheduler = partial(make_scheduler, found.components["scheduler"][1], found.config(role), place)
        # of the index, which anybody may have written, no more than these
        self._settings = {name: bool(found.index[name]) for name in _SWITCHES if name in found.index}
        self._embed = lru_cache(_REMEMBERED)(self._embedded)
        with naming(self.where, "be loaded"):
            self._load(found, base)
        found.files.require_unchanged()
        second = found.refiner
        self.refiner = None if second is None else StableDiffusion(second, f"hf:{second.address.model}", device, self)

    def _load(self, found: PipelineFiles, base: StableDiffusion | None) -> None:
        """Load the parts; `base` is the model that this one refines, whose VAE and equal text encoder it shares."""
        if found.is_in_file("unet"):
            require_whole(found, self._own_scheduler())
        names = [name for name in ("text_encoder", "text_encoder_2") if name in found.components]
        shared = {
            name: base._encoders[name]
            for name in names
            if base is not None and base.files.of_part(name) == found.of_part(name)
        }
        own = {name: load_component(found, name, torch_dtype=torch.float32) for name in names if name not in shared}
        self._encoders: dict[str, Any] = {name: shared.get(name) or own[name] for name in names}
        self._tokenizers: dict[str, Any] = {}
        for name, encoder in self._encoders.items():
            tokenizer = load_component(found, name.replace("text_encoder", "tokenizer"))
            # some tokenizers name no limit
            tokenizer.model_max_length = min(tokenizer.model_max_length, encoder.config.max_position_embeddings)
            self._tokenizers[name.replace("text_encoder", "tokenizer")] = tokenizer
        self.unet = load_component(found, "unet", torch_dtype=self.dtype)
        sample = self.unet.config.sample_size or 0  # some do not say at what size they were trained
        self.vae: Any = load_component(found, "vae", torch_dtype=torch.float32) if base is None else base.vae
        if "lora" in found.files.paths:
            merge_lora(self.pipeline_for("Img2Img"), found)
        self._encoders |= {name: self.placement.place(encoder) for name, encoder in own.items()}
        self.unet = _counted(self.placement.place(self.unet), self)
        if base is None:
            self.vae = _read_once(self.placement.place(self.vae))
        self.text_encoders, self.tokenizers = list(self._encoders.values()), list(self._tokenizers.values())
        self.vae_factor = 2 ** (len(self.vae.config.block_out_channels) - 1)
        if found.address.vae_tile is not None:
            self._read_in_tiles(found.address.vae_tile)
        self.size = (sample if isinstance(sample, int) else max(sample)) * self.vae_factor
        self.pictures = VaeImageProcessor(vae_scale_factor=self.vae_factor)
        _require_plain(self)

    def _read_in_tiles(self, side: int) -> None:
        """Let the VAE read and make larger pictures in tiles of `side` pixels, which overlap and are blended."""
        if side % self.vae_factor:
            raise ModelError(
                f"vae_tile is {side}, which the VAE cannot halve.",
                where=self.uri,
                remedy=f"give a multiple of {self.vae_factor}",
            )
        self.vae.enable_tiling()
        self.vae.tile_sample_min_size, self.vae.tile_latent_min_size = side, side // self.vae_factor

    @property
    def latent_channels(self) -> int:
        """Of the VAE: 4."""
        return int(self.vae.config.latent_channels)

    def pipeline_for(self, work: Work, scheduler: str | None = None) -> Any:
        """diffusers' pipeline over these very parts, with a scheduler of its own: the model's (None), or one by short
        name that is built from the model's config."""
        kind: Any = getattr(diffusers, f"StableDiffusion{'XL' if self.is_xl else ''}{work}Pipeline")
        parts = dict.fromkeys(("text_encoder", "tokenizer", "safety_checker", "feature_extractor")) | self._encoders
        parts |= {"unet": self.unet, "vae": self.vae, "scheduler": self._own_scheduler(), **self._tokenizers}
        settings = {**self._settings, "requires_safety_checker": False, "add_watermarker": False}
        takes = inspect.signature(kind.__init__).parameters
        with running_diffusers():
            made = kind(**{name: value for name, value in (settings | parts).items() if name in takes})
        if scheduler is not None:
            made.scheduler = make_scheduler(scheduler, made.scheduler.config, self.where)
        made.set_progress_bar_config(disable=True)
        return made

    def scheduler(self, steps: int, name: str | None = None) -> Any:
        """A scheduler as that of a pipeline that paints, set to so many steps."""
        made = self.pipeline_for("", name).scheduler
        with running_diffusers():
            made.set_timesteps(steps, device=self.device)
        return made

    @torch.inference_mode()
    def embed_prompts(self, prompts: Sequence[str]) -> Conditioning:
        """The prompts' conditioning, in order; each is embedded once. Raises ModelError for one that is too long."""
        return joined([self._embed(prompt) for prompt in prompts])

    @torch.inference_mode()
    def embed_negative(self, negative: str | None, count: int) -> Conditioning:
        """The unconditional half of classifier-free guidance: `negative` for every image, or the model's own nothing.

        Nothing is the empty prompt, and zeros for an SDXL that was trained so.
        """
        embedded = self.embed_prompts([negative or ""])
        zeros = self._settings.get("force_zeros_for_empty_prompt", True)
        if negative is None and zeros and embedded.pooled is not None:
            embedded = Conditioning(torch.zeros_like(embedded.tokens), torch.zeros_like(embedded.pooled))
        return joined([embedded] * count)

    def conditioning(self, prompts: Sequence[str], negatives: Sequence[str | None]) -> dict[str, torch.Tensor]:
        """Prompts, and what is unwanted of each picture, embedded, as diffusers' pipelines take them."""
        wanted = self.embed_prompts(prompts)
        unwanted = joined([self.embed_negative(negative, 1) for negative in negatives])
        found = {"prompt_embeds": wanted.tokens, "negative_prompt_embeds": unwanted.tokens}
        if wanted.pooled is not None and unwanted.pooled is not None:
            found |= {"pooled_prompt_embeds": wanted.pooled, "negative_pooled_prompt_embeds": unwanted.pooled}
        return found

    def _embedded(self, prompt: str) -> Conditioning:
        for tokenizer in self.tokenizers:
            if (needed := len(tokenizer(prompt).input_ids)) > tokenizer.model_max_length:
                raise too_long(prompt, needed, tokenizer.model_max_length, self.where)
        found = self.pipeline_for("Img2Img").encode_prompt(
            prompt, device=self.device, num_images_per_prompt=1, do_classifier_free_guidance=False
        )
        return Conditioning(found[0], found[2] if self.is_xl else None)

    def noise(self, generators: Sequence[torch.Generator], size: tuple[int, int]) -> torch.Tensor:
        """Standard normal latents for pictures of (width, height) pixels: one from each generator."""
        width, height = (side // self.vae_factor for side in size)
        shape = (1, self.latent_channels, height, width)
        return torch.cat([torch.randn(shape, generator=generator) for generator in generators]).to(self.device)

    @torch.inference_mode()
    def encode(self, pixels: torch.Tensor) -> torch.Tensor:
        """Latents (n, 4, h/f, w/f) of pixels (n, 3, h, w) in -1..1, as the UNet sees them: the mode of the VAE's
        posterior."""
        mean, deviation = self._moments()
        latents: torch.Tensor = self.vae.encode(pixels.to(self.device, torch.float32)).latent_dist.mode()
        return (latents - mean) * float(self.vae.config.scaling_factor) / deviation

    @torch.inference_mode()
    def decode(self, latents: torch.Tensor) -> list[Image]:
        """RGB pictures of latents, a few at a time. Raises ModelError for latents that are not finite."""
        if not torch.isfinite(latents).all():
            raise diverged("the latents of a picture are NaN or infinite.", self.where)
        mean, spread = self._moments()
        latents = latents.float() * spread / float(self.vae.config.scaling_factor) + mean
        some = max(1, _PIXELS_AT_ONCE // (latents.shape[-1] * latents.shape[-2] * self.vae_factor**2))
        pixels = [self.vae.decode(part, return_dict=False)[0] for part in torch.split(latents, some)]
        return [picture for part in pixels for picture in self.pictures.postprocess(part, output_type="pil")]

    def _moments(self) -> tuple[torch.Tensor | float, torch.Tensor | float]:
        config = self.vae.config
        if not (self.is_xl and config.get("latents_mean") and config.get("latents_std")):
            return 0.0, 1.0
        mean, spread = (torch.tensor(config[name], device=self.device) for name in ("latents_mean", "latents_std"))
        return mean.view(1, -1, 1, 1), spread.view(1, -1, 1, 1)

    @torch.inference_mode()
    def predict(self, latents: torch.Tensor, timestep: torch.Tensor, conditioning: Conditioning) -> torch.Tensor:
        """One UNet evaluation of a batch, (n, 4, h, w) float32; counted in `spent`."""
        more = None
        if conditioning.pooled is not None:  # of an SDXL, which is told the size that is generated, not cropped
            size = [side * self.vae_factor for side in latents.shape[-2:]]
            sizes = torch.tensor([[*size, 0, 0, *size]], dtype=torch.float32, device=self.device)
            more = {"text_embeds": conditioning.pooled, "time_ids": sizes.repeat(len(latents), 1)}
        told = {"encoder_hidden_states": conditioning.tokens, "added_cond_kwargs": more}
        found: torch.Tensor = self.unet(latents, timestep, **told, return_dict=False)[0]
        return found


def _counted(unet: Any, model: StableDiffusion) -> Any:
    """A UNet that takes and gives float32 whatever it computes in, and counts its evaluations per image."""

    def before(_: Any, args: tuple[Any, ...], told: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        model.spent["unet"] += len(args[0])
        dtype = model.dtype
        more: Mapping[str, torch.Tensor] = told.get("added_cond_kwargs") or {}
        told = {**told, "encoder_hidden_states": told["encoder_hidden_states"].to(dtype)}
        told |= {"added_cond_kwargs": {name: value.to(dtype) for name, value in more.items()}} if more else {}
        return (args[0].to(dtype), *args[1:]), told

    unet.register_forward_pre_hook(before, with_kwargs=True)
    unet.register_forward_hook(lambda _, __, found: (found[0].float(),))
    return unet


def _read_once(vae: Any) -> Any:
    """A VAE that reads a picture once, where diffusers' pipelines hand it over for each variant of it."""
    encode, last = vae.encode, list[Any]()

    def encode_once(pixels: torch.Tensor, *args: Any, **options: Any) -> Any:
        if not last or last[0].shape != pixels.shape or not torch.equal(last[0], pixels):
            last[:] = pixels, encode(pixels, *args, **options)
        return last[1]

    vae.encode = encode_once
    return vae


def too_long(prompt: str, tokens: int, limit: int, where: str) -> ModelError:
    """The error for a prompt of more tokens than a model reads."""
    return ModelError(
        f"the prompt has {tokens} tokens, and the model reads {limit}: '{prompt[:80]}'.",
        where=where,
        remedy="shorten the prompt; what is cut off would be missing from the picture without a word",
    )


def _require_plain(model: StableDiffusion) -> None:
    """Raises ModelError for parts that do not fit together, and for a UNet with inputs that these pipelines lack."""
    config, latents = model.unet.config, model.latent_channels
    odd = [name for name in ("time_cond_proj_dim", "encoder_hid_dim_type", "class_embed_type") if config.get(name)]
    if config.get("addition_embed_type") != ("text_time" if model.is_xl else None):
        odd.append("addition_embed_type")
    if config.cross_attention_dim != sum(encoder.config.hidden_size for encoder in model.text_encoders):
        odd.append("cross_attention_dim")
    if config.out_channels != latents or config.in_channels not in {latents, 2 * latents, 2 * latents + 1}:
        odd.append("in_channels or out_channels")
    factor = model.vae.config.scaling_factor
    if not isinstance(factor, int | float) or not 0 < factor < math.inf:
        odd.append(f"scaling_factor: {factor}")
    if odd:
        raise ModelError(
            f"the configs of the UNet and the VAE do not fit a {model.files.pipeline} with these text encoders "
            f"({', '.join(odd)}).",
            where=model.where,
            remedy="use the pipeline that the UNet was trained for",
        )
