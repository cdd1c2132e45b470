"""Painters in the differential test: the pictures of diffusers' own pipelines of the same seeds, steps and guidance.

Pictures are 8-bit: they are equal if no colour of a pixel differs by more than one level; of edits, which
are resized, by more than two.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from differential_models import Images, Layout, Numbers, save_row
from family_rows import ROWS
from flux_world import SIDE
from model_world import Pictures
from PIL import Image

from fairgate.models import Editing, Generating, generation_seed

HOW = Generating(steps=4, seed=3, guidance=5.0)
EDIT = Editing(strength=0.7, seed=3, steps=6, guidance=5.0)
WORDS = [f"a photo of {who}" for who in ("doctor", "nurse", "chef", "man", "woman", "person", "face", "hat")]
_LEVEL = 1.01 / 255
_INDEX = Pictures([b""] * len(WORDS)).index
_NAMES = [(str(one), str(member)) for one, member in zip(_INDEX.set_id, _INDEX.member, strict=True)]


def _generators(seeds: Sequence[int]) -> Any:
    import torch

    return [torch.Generator().manual_seed(seed) for seed in seeds]


def _shown(pictures: Sequence[Image.Image]) -> Numbers:
    return np.stack([np.asarray(one.convert("RGB"), dtype=np.float64) / 255 for one in pictures])


def _read(source: Any) -> list[Image.Image]:
    return [Image.open(io.BytesIO(data)) for _, blobs in source.image_batches(8) for data in blobs]


def _painted(model: Any) -> Numbers:
    return _shown(_read(model.generate(WORDS, HOW)))


def _edited(model: Any) -> Numbers:
    return _shown([one.resize((32, 32)) for one in _read(model.edit(WORDS[0], EDIT))])


def _paint(folder: str, lora: bool = False, file: str = "", **asked: Any) -> Callable[[Path, Images], Numbers]:
    def library(root: Path, _: Images) -> Numbers:
        import diffusers

        pipeline: Any = diffusers.DiffusionPipeline.from_pretrained(root / folder)
        if file:
            pipeline = type(pipeline).from_single_file(str(root / file), config=str(root / folder))
        pipeline.set_progress_bar_config(disable=True)
        if lora:
            pipeline.load_lora_weights(root / "lora")
        noise = _generators([generation_seed(*names, HOW.seed) for names in _NAMES])
        settings = {"num_inference_steps": HOW.steps, "guidance_scale": HOW.guidance, **asked}
        return _shown(pipeline(prompt=WORDS, generator=noise, **settings).images)

    return library


def _edit(folder: str) -> Callable[[Path, Images], Numbers]:
    def library(root: Path, images: Images) -> Numbers:
        from diffusers import AutoPipelineForImage2Image

        from fairgate.models.generation.diffusion.paint import working_size
        from fairgate.models.made_pictures import editing_seed

        pipeline: Any = AutoPipelineForImage2Image.from_pretrained(root / folder)
        pipeline.set_progress_bar_config(disable=True)
        made, sample = [], pipeline.unet.config.sample_size
        side = (sample if isinstance(sample, int) else max(sample)) * pipeline.vae_scale_factor
        for image, names in zip(images, _NAMES, strict=True):
            size = working_size(image.size, pipeline.vae_scale_factor, side)
            shown = image.resize(size, Image.Resampling.LANCZOS)
            settings = {"strength": EDIT.strength, "num_inference_steps": EDIT.steps, "guidance_scale": EDIT.guidance}
            noise = _generators([editing_seed(*names, EDIT.seed)])
            (edit,) = pipeline(prompt=WORDS[0], image=shown, generator=noise, **settings).images
            made.append(edit.resize(image.size, Image.Resampling.LANCZOS).resize((32, 32)))
        return _shown(made)

    return library


def _save_lora(root: Path) -> str:
    """A LoRA for a pipeline's UNet and text encoder, as diffusers saves it."""
    import torch
    from diffusers import StableDiffusionPipeline
    from diffusers.utils import convert_state_dict_to_diffusers
    from peft import LoraConfig, get_peft_model_state_dict

    uri = ROWS["diffusion"].save("sd1", root)
    pipeline: Any = StableDiffusionPipeline.from_pretrained(root / "diffusion-sd1")
    states = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        for name, layers in {"unet": ["to_q", "to_v"], "text_encoder": ["q_proj", "v_proj"]}.items():
            part = getattr(pipeline, name)
            part.add_adapter(LoraConfig(r=4, lora_alpha=4, target_modules=layers, init_lora_weights=False))
            for parameter in (one for one in part.parameters() if one.requires_grad):
                parameter.data.normal_(std=0.3)
            states[f"{name}_lora_layers"] = convert_state_dict_to_diffusers(get_peft_model_state_dict(part))
    StableDiffusionPipeline.save_lora_weights(root / "lora", **states)
    return f"{uri}&lora=lora"


_UNET: dict[str, Any] = {"weights": "unet/diffusion_pytorch_model.safetensors", "config": "unet/config.json"}
_PAINTER: dict[str, Any] = {**_UNET, "pictures": "", "near": _LEVEL, "group": "diffusion"}
_EDITS: dict[str, Any] = {**_PAINTER, "near": 2 * _LEVEL, "brief": True}
PAINTING: dict[str, Layout] = {
    **{
        f"diffusion {kind}": Layout(
            save_row("diffusion", kind),
            f"diffusion-{kind}",
            library=_paint(f"diffusion-{kind}"),
            ours=_painted,
            **_PAINTER,
            brief=kind != "sd1",
        )
        for kind in ("sd1", "sd2", "sdxl")
    },
    "diffusion sd1, edits": Layout(
        save_row("diffusion", "sd1"), "diffusion-sd1", library=_edit("diffusion-sd1"), ours=_edited, **_EDITS
    ),
    "diffusion sd1 with a LoRA": Layout(
        _save_lora,
        "lora",
        "pytorch_lora_weights.safetensors",
        _paint("diffusion-sd1", lora=True),
        _painted,
        config="",
        pictures="",
        near=_LEVEL,
        shards=False,
        group="lora",
    ),
    "flux": Layout(
        save_row("diffusion-flux", ""),
        "flux",
        "transformer/diffusion_pytorch_model.safetensors",
        _paint("flux", height=SIDE, width=SIDE),
        _painted,
        config="transformer/config.json",
        pictures="",
        near=_LEVEL,
        group="flux",
    ),
}
