"""A loaded FLUX: diffusers' own FluxPipeline, made of hashed parts, with noise that does not depend on the device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import diffusers
import torch
import transformers
from PIL.Image import Image

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import Device, naming
from fairgate.models.contract import Generating
from fairgate.models.generation.diffusion.components import load_component, load_tokenizer
from fairgate.models.generation.diffusion.files import PipelineFiles
from fairgate.models.generation.diffusion.paint import generators_of, in_fitting_batches, require_finite_latents
from fairgate.models.generation.diffusion.schedule import Schedulers, quiet

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
