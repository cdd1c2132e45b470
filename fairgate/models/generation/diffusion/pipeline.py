"""A loaded Stable Diffusion (1.x, 2.x, XL, refiner, InstructPix2Pix): its parts, and what each does to a batch.

One class for all of them: the pipelines of diffusers differ in how they run these parts, which is in
`diffusion.paint` and in the roles. The safety checker is never loaded: it blackens pictures, more often for some groups
than for others, which would bias the dataset; people review what is released.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers
from diffusers.image_processor import VaeImageProcessor
from PIL.Image import Image

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import diverged, find_device
from fairgate.models.generation.diffusion.components import Placement, load_component, load_tokenizer
from fairgate.models.generation.diffusion.files import SD, PipelineAddress, PipelineFiles, find_pipeline
from fairgate.models.generation.diffusion.lora import merge_lora
from fairgate.models.generation.diffusion.schedule import Schedule, Schedulers
from fairgate.models.generation.diffusion.single_file import require_whole
from fairgate.models.generation.offload import current_offload

KEPT_BYTES = 64 << 20
"""Of prompts' embeddings that a model keeps on its device: of 105 prompts for an SDXL, of 280 for an SD 1.5."""
_PIXELS_AT_ONCE = 1 << 20  # of a decoded batch: the VAE's activations are far larger than the UNet's
_AESTHETIC, _NOT_AESTHETIC = 6.0, 2.5  # scores that condition the SDXL refiner, of the wanted and the unwanted picture


@dataclass(frozen=True, slots=True)
class Conditioning:
    """The UNet's conditioning of a batch: token states (n, tokens, dim), and for SDXL pooled ones (n, dim)."""

    tokens: torch.Tensor
    pooled: torch.Tensor | None = None
    aesthetic: torch.Tensor | None = None

    @property
    def nbytes(self) -> int:
        return self.tokens.nbytes + (0 if self.pooled is None else self.pooled.nbytes)

    def __add__(self, other: Conditioning) -> Conditioning:
        return joined([self, other])


def joined(parts: Sequence[Conditioning]) -> Conditioning:
    """Batches one after the other, all of one model."""
    pooled = [part.pooled for part in parts if part.pooled is not None]
    aesthetic = [part.aesthetic for part in parts if part.aesthetic is not None]
    return Conditioning(
        torch.cat([part.tokens for part in parts]),
        torch.cat(pooled) if pooled else None,
        torch.cat(aesthetic) if aesthetic else None,
    )


class StableDiffusion:
    """The parts of one pipeline on one device.

    The UNet runs in `dtype` (float32 on a CPU, bfloat16 on a GPU, float16 on one before Ampere); text encoders, VAE,
    latents and schedulers are float32 everywhere. `spent["unet"]` counts evaluations per image. Noise is drawn on the
    CPU in float32, one generator per image, so that it depends neither on the device nor on the batch; prompts are
    embedded one at a time, so that an embedding depends on its prompt alone.
    """

    def __init__(self, found: PipelineFiles, uri: str, device: str, kin: StableDiffusion | None = None) -> None:
        where = find_device(device)
        self.uri, self.where, self.files = uri, str(found.folder), found.files
        self.fingerprint = found.fingerprint
        self.pipeline, self.is_xl, self.is_refiner = found.pipeline, found.is_xl, found.is_refiner
        self.device = torch.device(where.name)
        self.dtype = {"fp32": torch.float32, "amp_bf16": torch.bfloat16, "amp_fp16": torch.float16}[where.precision]
        self.placement: Placement = kin.placement if kin is not None else Placement(self.device, current_offload())
        self.spent: Counter[str] = Counter()
        self.refiner: StableDiffusion | None = None
        self._zero_negative = self.is_xl and bool(found.settings.get("force_zeros_for_empty_prompt", True))
        self._schedulers = Schedulers(found.folder / "scheduler", found.components["scheduler"], found.pipeline in SD)
        self._texts: OrderedDict[str, Conditioning] = OrderedDict()
        self._load(found, kin)
        found.files.require_unchanged()

    def _load(self, found: PipelineFiles, kin: StableDiffusion | None) -> None:
        """Load the parts; `kin` is the base that this one refines, whose VAE and equal text encoder it shares."""
        if found.is_in_file("unet"):
            require_whole(found, self._schedulers.make())
        names, variant = found.components, found.address.variant
        readers = [name for name in ("text_encoder", "text_encoder_2") if name in names]
        cutters = [name.replace("text_encoder", "tokenizer") for name in readers]
        self.tokenizers = [load_tokenizer(names[name], found, name) for name in cutters]
        shared = {} if kin is None else {name: one for name in readers if (one := kin.same(name, found)) is not None}
        own = {
            name: load_component(getattr(transformers, names[name]), found, name, variant).float()
            for name in readers
            if name not in shared
        }
        self.unet = _unet_or_vae(found, "unet", self.dtype, variant)
        merge_lora(found, {"unet": self.unet, **shared, **own})
        self.unet = self.placement.place(self.unet)
        self._readers = {name: shared[name] if name in shared else self.placement.place(own[name]) for name in readers}
        self.text_encoders = list(self._readers.values())
        if kin is None:
            own_variant = variant if found.vae.parent == found.folder else None  # one from elsewhere has its own names
            self.vae = self.placement.place(_unet_or_vae(found, "vae", torch.float32, own_variant))
        else:
            self.vae = kin.vae
        self.vae_factor = 2 ** (len(self.vae.config.block_out_channels) - 1)
        if found.address.vae_tile is not None:
            self._read_in_tiles(found.address.vae_tile)
        sample = self.unet.config.sample_size or 0  # some do not say at what size they were trained
        self.size = (sample if isinstance(sample, int) else max(sample)) * self.vae_factor
        self.pictures = VaeImageProcessor(vae_scale_factor=self.vae_factor)
        self.masks = VaeImageProcessor(
            vae_scale_factor=self.vae_factor, do_normalize=False, do_binarize=True, do_convert_grayscale=True
        )
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

    def same(self, reader: str, found: PipelineFiles) -> Any:
        """This model's text encoder of a name, where another pipeline's has the very same files; else None."""
        ours, theirs = (
            {role: found for role, found in hashes.items() if role.startswith(f"{reader}/")}
            for hashes in (self.files.hashes, found.files.hashes)
        )
        return self._readers.get(reader) if ours == theirs else None

    @property
    def latent_channels(self) -> int:
        """Of the VAE: 4."""
        return int(self.vae.config.latent_channels)

    def schedule(self, steps: int, name: str | None = None) -> Schedule:
        """A scheduler of its own for one batch: the model's (None) or one by short name, set to so many steps."""
        return Schedule(self._schedulers.make(name), steps, self.device)

    @torch.inference_mode()
    def embed_prompts(self, prompts: Sequence[str]) -> Conditioning:
        """The prompts' conditioning, in order; each is embedded once. Raises ModelError for one that is too long."""
        for prompt in dict.fromkeys(prompts):
            if prompt not in self._texts:
                self._texts[prompt] = self._embed(prompt)
            self._texts.move_to_end(prompt)
        batch = joined([self._texts[prompt] for prompt in prompts])
        while len(self._texts) * batch.nbytes // len(prompts) > KEPT_BYTES:  # all are padded to one length
            self._texts.popitem(last=False)
        return replace(batch, aesthetic=self._score(_AESTHETIC, len(prompts)))

    @torch.inference_mode()
    def embed_negative(self, negative: str | None, count: int) -> Conditioning:
        """The unconditional half of classifier-free guidance: `negative` for every image, or the model's own nothing.

        Nothing is the empty prompt, and zeros for an SDXL that was trained so.
        """
        one = self.embed_prompts([negative or ""])
        if negative is None and self._zero_negative and one.pooled is not None:
            one = replace(one, tokens=torch.zeros_like(one.tokens), pooled=torch.zeros_like(one.pooled))
        one = replace(one, aesthetic=self._score(_NOT_AESTHETIC, 1))
        return joined([one] * count)

    def _score(self, score: float, count: int) -> torch.Tensor | None:
        return torch.full((count, 1), score, device=self.device) if self.is_refiner else None

    def _embed(self, prompt: str) -> Conditioning:
        states, pooled = [], None
        for tokenizer, encoder in zip(self.tokenizers, self.text_encoders, strict=True):
            ids, mask = self._cut(tokenizer, encoder, prompt)
            out = encoder(ids, attention_mask=mask, output_hidden_states=self.is_xl)
            states.append(out.hidden_states[-2] if self.is_xl else out[0])
            pooled = out[0] if self.is_xl and out[0].ndim == 2 else pooled
        if self.is_xl and pooled is None:
            raise ModelError(
                "no text encoder gives the pooled embedding that an SDXL needs.",
                where=self.where,
                remedy="text_encoder_2 is to be a CLIPTextModelWithProjection; save the whole pipeline again",
            )
        return Conditioning(torch.cat(states, dim=-1), pooled)

    def _cut(self, tokenizer: Any, encoder: Any, prompt: str) -> tuple[torch.Tensor, torch.Tensor | None]:
        length = min(int(tokenizer.model_max_length), int(encoder.config.max_position_embeddings))
        needed = len(tokenizer(prompt).input_ids)
        if needed > length:
            raise too_long(prompt, needed, length, self.where)
        tokens = tokenizer(prompt, padding="max_length", max_length=length, truncation=True, return_tensors="pt")
        masked = not self.is_xl and getattr(encoder.config, "use_attention_mask", False)
        return tokens.input_ids.to(self.device), tokens.attention_mask.to(self.device) if masked else None

    def noise(self, generators: Sequence[torch.Generator], size: tuple[int, int]) -> torch.Tensor:
        """Standard normal latents for pictures of (width, height) pixels: one from each generator."""
        width, height = (side // self.vae_factor for side in size)
        shape = (1, self.latent_channels, height, width)
        return torch.cat([torch.randn(shape, generator=generator) for generator in generators]).to(self.device)

    @torch.inference_mode()
    def encode(
        self, pixels: torch.Tensor, generators: Sequence[torch.Generator] = (), *, scaled: bool = True
    ) -> torch.Tensor:
        """Latents (n, 4, h/f, w/f) of pixels (n, 3, h, w) in -1..1.

        Drawn from the VAE's posterior, one for each generator (of one picture there may be several draws); its mode
        where there is none. `scaled`: times the VAE's factor, as the UNet sees them (InstructPix2Pix takes its picture
        unscaled).
        """
        found = [self.vae.encode(one).latent_dist for one in torch.split(pixels.to(self.device, torch.float32), 1)]
        latents = torch.cat([posterior.mode() for posterior in found])
        if generators:
            spread = torch.cat([posterior.std for posterior in found])
            shape = latents.shape[1:]
            drawn = torch.stack([torch.randn(shape, generator=generator) for generator in generators])
            latents = latents + spread * drawn.to(self.device)
        if not scaled:
            return latents
        mean, deviation = self._moments()
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
        if conditioning.pooled is not None:
            sizes = self._sizes(latents, conditioning.aesthetic)
            more = {"text_embeds": conditioning.pooled.to(self.dtype), "time_ids": sizes.to(self.dtype)}
        found: torch.Tensor = self.unet(
            latents.to(self.dtype),
            timestep,
            encoder_hidden_states=conditioning.tokens.to(self.dtype),
            added_cond_kwargs=more,
            return_dict=False,
        )[0]
        self.spent["unet"] += len(latents)
        return found.float()

    def _sizes(self, latents: torch.Tensor, aesthetic: torch.Tensor | None) -> torch.Tensor:
        """An SDXL's conditioning on the picture's size: the size that is generated, not cropped."""
        height, width = (side * self.vae_factor for side in latents.shape[-2:])
        first = torch.tensor([[height, width, 0, 0]], dtype=torch.float32, device=self.device).repeat(len(latents), 1)
        return torch.cat([first, first[:, :2] if aesthetic is None else aesthetic], dim=1)


def too_long(prompt: str, tokens: int, limit: int, where: str) -> ModelError:
    """The error for a prompt of more tokens than a model reads."""
    return ModelError(
        f"the prompt has {tokens} tokens, and the model reads {limit}: '{prompt[:80]}'.",
        where=where,
        remedy="shorten the prompt; what is cut off would be missing from the picture without a word",
    )


def _unet_or_vae(found: PipelineFiles, name: str, dtype: torch.dtype, variant: str | None) -> Any:
    """A UNet or VAE of diffusers. Raises ModelError: tensors missing, misshapen, made up or NaN."""
    model_class = getattr(diffusers, found.components[name])
    return load_component(model_class, found, name, variant, low_cpu_mem_usage=True, torch_dtype=dtype)


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
    if odd:
        raise ModelError(
            f"the UNet's config does not fit a {model.pipeline} with these text encoders and VAE ({', '.join(odd)}).",
            where=f"{model.where}/unet/config.json",
            remedy="use the pipeline that the UNet was trained for",
        )


def load_stable_diffusion(uri: str, found: PipelineFiles, device: str, base: Path) -> StableDiffusion:
    """Load a pipeline, and the refiner that its address names. Raises ModelError, DeviceError.

    A refiner keeps its own UNet and scheduler; pictures are decoded by the base's VAE, whose latents both share.
    """
    address = found.address
    second = find_pipeline(PipelineAddress(address.refiner, variant=address.variant), base) if address.refiner else None
    refines = second is None or (second.is_refiner and second.is_xl and second.channels == 4)
    if second is not None and (not refines or found.is_refiner or not found.is_xl):
        raise ModelError(
            f"{second.folder} ({second.pipeline}) cannot refine what {found.folder} ({found.pipeline}) makes.",
            where=uri,
            remedy="the base is to be an SDXL model, and the refiner SDXL's (requires_aesthetics_score in its "
            "model_index.json): hf:BASE?refiner=stabilityai/stable-diffusion-xl-refiner-1.0",
        )
    model = StableDiffusion(found, uri, device)
    if second is not None:
        model.refiner = StableDiffusion(second, f"hf:{address.refiner}", device, kin=model)
        model.refiner.spent = model.spent
        model.fingerprint = digest({"base": model.fingerprint, "refiner": model.refiner.fingerprint})
    return model
