"""Pipelines as diffusers calls them: of any class, opened by the library, for the isolated process; and a FLUX, made of
hashed parts, with noise that does not depend on the device."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers
from PIL.Image import Image

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import Device, HashedFiles, naming, naming_folder, require_finite, require_loaded
from fairgate.models.contract import Generating
from fairgate.models.generation.diffusion.components import load_component, load_tokenizer
from fairgate.models.generation.diffusion.files import PipelineFiles
from fairgate.models.generation.diffusion.paint import generators_of, in_fitting_batches, require_finite_latents
from fairgate.models.generation.diffusion.schedule import Schedulers, quiet

_TYPES = {"fp32": torch.float32, "amp_bf16": torch.bfloat16, "amp_fp16": torch.float16}


class PlainPainter:
    """A loaded pipeline. Raises ModelError for parts with tensors that are missing, misshapen or NaN, and for a class
    that is no text-to-image pipeline of diffusers."""

    def __init__(self, settings: Mapping[str, Any], files: HashedFiles, device: Device) -> None:
        self.where, self._side = settings["path"], settings["side"]
        pipeline_class: Any = getattr(diffusers, settings["pipeline"], None)
        takes = _parameters(pipeline_class)
        if not {"prompt", "num_inference_steps"} <= takes or {"image", "mask_image"} & _needed(pipeline_class):
            raise ModelError(
                f"the installed diffusers ({diffusers.__version__}) has no text-to-image pipeline that is called "
                f"{settings['pipeline'][:80]}.",
                where=self.where,
                remedy="install a newer one (`pip install --upgrade diffusers`), or name a text-to-image pipeline",
            )
        self._takes = takes
        with files.closed({role: role for role in files.paths}) as folder, naming_folder(Path(self.where), folder):
            parts = {
                name: _network(folder, name, library, class_name, device, self.where)
                for name, (library, class_name) in settings["components"].items()
            }
            given = {name: part for name, part in parts.items() if part is not None}
            given |= dict.fromkeys(settings["absent"])
            with quiet():
                self.pipeline = pipeline_class.from_pretrained(folder, local_files_only=True, **given)
        self.pipeline = self.pipeline.to(device.name)
        self.pipeline.set_progress_bar_config(disable=True)

    def paint(self, prompts: Sequence[str], seeds: Sequence[int], steps: int, guidance: float) -> list[Any]:
        """A picture of each prompt and seed, (height, width, 3) uint8. Raises ModelError for one that is not finite."""
        more: dict[str, Any] = {"guidance_scale": guidance, "height": self._side, "width": self._side}
        options = {name: value for name, value in more.items() if name in self._takes and value is not None}
        with quiet():
            made = self.pipeline(
                prompt=list(prompts),
                num_inference_steps=steps,
                generator=generators_of(seeds),
                output_type="np",
                **options,
            ).images
        if not np.isfinite(made).all():
            raise ModelError("a picture is not finite.", where=self.where, remedy="check the weights; use --device cpu")
        return list((np.clip(made, 0, 1) * 255).round().astype(np.uint8))


def _parameters(pipeline_class: Any) -> frozenset[str]:
    usable = isinstance(pipeline_class, type) and issubclass(pipeline_class, diffusers.DiffusionPipeline)
    return frozenset(inspect.signature(pipeline_class.__call__).parameters) if usable else frozenset()


def _needed(pipeline_class: Any) -> set[str]:
    parameters = inspect.signature(pipeline_class.__call__).parameters.values()
    return {each.name for each in parameters if each.default is each.empty or each.name == "image"}


def _network(folder: Path, part: str, library: str, name: str, device: Device, where: str) -> Any:
    """One part with its weights, none made up; None for a part without weights, which the pipeline loads itself."""
    model_class: Any = getattr({"diffusers": diffusers, "transformers": transformers}[library], name, None)
    bases = (diffusers.ModelMixin, transformers.PreTrainedModel)
    if not (isinstance(model_class, type) and issubclass(model_class, bases)):
        return None
    opened: Any = model_class
    with quiet(), torch.random.fork_rng(devices=[]):
        model, report = opened.from_pretrained(
            folder / part,
            use_safetensors=True,
            local_files_only=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            torch_dtype=_TYPES[device.precision],
        )
    require_loaded(report, f"{where}/{part}", name)
    require_finite(model.state_dict(), f"{where}/{part}")
    return model.requires_grad_(False).eval()


LONGEST = 512
"""Tokens that the T5 reads, as FluxPipeline's. The CLIP gives one summary of a prompt, of as many as it can read."""
_AT_ONCE = {"cpu": 1, "cuda": 4}  # pictures of 1,024 pixels a side


class FluxPainter:
    """Pictures of `side` pixels a side. The transformer and the T5 run in half precision on a GPU; noise is drawn in
    float32 on the CPU, one generator a picture, and decoded in float32."""

    def __init__(self, found: PipelineFiles, side: int, device: Device, uri: str) -> None:
        self.uri, self.side, self.where = uri, side, str(found.folder)
        self._device = torch.device(device.name)
        dtype = {"fp32": torch.float32, "amp_bf16": torch.bfloat16, "amp_fp16": torch.float16}[device.precision]
        names = found.components
        half: dict[str, Any] = {"low_cpu_mem_usage": True, "torch_dtype": dtype}
        parts = {
            "transformer": load_component(diffusers.FluxTransformer2DModel, found, "transformer", **half),
            "vae": load_component(diffusers.AutoencoderKL, found, "vae").float(),
            "text_encoder": load_component(transformers.CLIPTextModel, found, "text_encoder").to(dtype),
            "text_encoder_2": load_component(transformers.T5EncoderModel, found, "text_encoder_2").to(dtype),
        }
        found.files.require_unchanged()
        parts = {name: part.to(self._device) for name, part in parts.items()}
        self._vae = parts["vae"]
        tokenizers = {name: load_tokenizer(names[name], found, name) for name in ("tokenizer", "tokenizer_2")}
        scheduler = Schedulers(found.folder / "scheduler", names["scheduler"], classic=False).make()
        with quiet(), naming(uri, "be loaded"):
            self._pipeline = diffusers.FluxPipeline(**parts, **tokenizers, scheduler=scheduler)
            self._pipeline.set_progress_bar_config(disable=True)
        self._factor = int(self._pipeline.vae_scale_factor)
        self._require_plain()

    @property
    def rows(self) -> int:
        """Pictures of one batch."""
        return max(1, _AT_ONCE[self._device.type] * 1024**2 // self.side**2)

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int], how: Generating) -> Sequence[Image]:
        """A picture of each prompt and seed. Raises ModelError for a prompt that is too long and for latents that are
        not finite, DeviceError for too little memory."""
        for prompt in dict.fromkeys(prompts):
            self._require_short(prompt)
        with naming(self.uri, "paint"):
            return in_fitting_batches(partial(self._paint, how), prompts, seeds, self._device)

    def _paint(self, how: Generating, prompts: list[str], seeds: Sequence[int]) -> list[Image]:
        pipeline, side = self._pipeline, self.side // self._factor
        shape = (1, self._vae.config.latent_channels, side, side)
        noise = torch.cat([torch.randn(shape, generator=generator) for generator in generators_of(seeds)])
        packed = pipeline._pack_latents(noise, len(seeds), shape[1], side, side)
        with quiet():
            latents = pipeline(
                prompt=prompts,
                height=self.side,
                width=self.side,
                num_inference_steps=how.steps,
                guidance_scale=how.guidance,
                latents=packed,
                max_sequence_length=LONGEST,
                output_type="latent",
            ).images
        require_finite_latents(latents, self.where)
        return self._decoded(pipeline._unpack_latents(latents.float(), self.side, self.side, self._factor))

    @torch.inference_mode()
    def _decoded(self, latents: torch.Tensor) -> list[Image]:
        config = self._vae.config
        latents = latents / config.scaling_factor + config.shift_factor
        pixels = [self._vae.decode(one, return_dict=False)[0] for one in torch.split(latents, 1)]
        return [made for one in pixels for made in self._pipeline.image_processor.postprocess(one, output_type="pil")]

    def _require_short(self, prompt: str) -> None:
        needed = len(self._pipeline.tokenizer_2(prompt).input_ids)
        if needed > LONGEST:
            raise ModelError(
                f"the prompt has {needed} tokens, and the model reads {LONGEST}: '{prompt[:80]}'.",
                where=self.where,
                remedy="shorten the prompt; what is cut off would be missing from the picture without a word",
            )

    def _require_plain(self) -> None:
        """Raises ModelError for parts that do not fit together."""
        parts, config = self._pipeline.components, self._pipeline.transformer.config
        odd = [
            name
            for name, found, wanted in (
                ("in_channels", config.in_channels, 4 * self._vae.config.latent_channels),
                ("joint_attention_dim", config.joint_attention_dim, parts["text_encoder_2"].config.d_model),
                ("pooled_projection_dim", config.pooled_projection_dim, parts["text_encoder"].config.hidden_size),
            )
            if found != wanted
        ]
        if odd:
            raise ModelError(
                f"the transformer's config does not fit these text encoders and VAE ({', '.join(odd)}).",
                where=f"{self.where}/transformer/config.json",
                remedy="use the pipeline that the transformer was trained for",
            )
