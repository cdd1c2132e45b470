"""Further variants of pipelines of diffusers: settings of schedulers, parts and the index, other parts, LoRAs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from differential_models import Layout
from differential_settings import GONE, Edit, changed, every


def elsewhere(edit: Edit, weights: str) -> Edit:
    """An edit of weights, of another file than the layout's."""
    return lambda folder, layout: edit(folder, replace(layout, weights=weights))


def _schedule(**keys: Any) -> Edit:
    return changed("scheduler/scheduler_config.json", **keys)


def _other_scheduler(name: str, **keys: Any) -> Edit:
    entry = changed("model_index.json", scheduler=["diffusers", name])
    return every(entry, _schedule(_class_name=name, **keys))


def _safety_checker(folder: Path, _: Layout) -> None:
    """One that finds every picture unsafe, as the index and its own folders name it."""
    import torch
    from diffusers.pipelines.stable_diffusion import StableDiffusionSafetyChecker
    from transformers import CLIPConfig, CLIPImageProcessor

    small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    vision = {**small, "image_size": 32, "patch_size": 16}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        checker = StableDiffusionSafetyChecker(CLIPConfig(vision_config=vision, text_config=small, projection_dim=8))
    checker.concept_embeds_weights.data.fill_(-2.0)
    checker.save_pretrained(folder / "safety_checker")
    sides = {"height": 32, "width": 32}
    CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=sides).save_pretrained(folder / "feature_extractor")
    named = {"safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"]}
    extractor = ["transformers", "CLIPImageProcessor"]
    changed("model_index.json", **named, feature_extractor=extractor)(folder, _)


def _stray_lora(folder: Path, layout: Layout) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    state = load_file(folder / layout.weights)
    name = next(one for one in sorted(state) if one.endswith("to_q.weight"))
    stem, width = f"unet.{name.removesuffix('.weight')}", state[name].shape
    halves = {f"{stem}.lora_A.weight": torch.ones(2, width[1]), f"{stem}.lora_B.weight": torch.ones(width[0], 2)}
    save_file(halves, folder / "pytorch_lora_weights.safetensors")


def _parted(names: Sequence[str]) -> dict[str, Edit]:
    """Tensors of the other parts of a pipeline, renamed and in half precision."""
    from differential_variants import cast, renamed

    return {
        f"{words} of {name.partition('/')[0]}": elsewhere(edit, name)
        for name in names
        for words, edit in {"renamed last": renamed(-1), "float16": cast("float16")}.items()
    }


_SCHEDULES: dict[str, Edit] = {
    "betas": _schedule(beta_start=0.01, beta_end=0.5),
    "linear betas": _schedule(beta_schedule="linear"),
    "betas of its own": _schedule(trained_betas=[0.01] * 1000),
    "velocity": _schedule(prediction_type="v_prediction"),
    "sample": _schedule(prediction_type="sample"),
    "spacing": _schedule(timestep_spacing="trailing"),
    "offset": _schedule(steps_offset=0),
    "no offset": _schedule(steps_offset=GONE, clip_sample=GONE),
    "clipped": _schedule(clip_sample=True, clip_sample_range=0.1),
    "thresholds": _schedule(thresholding=True, sample_max_value=0.5),
    "to one": _schedule(set_alpha_to_one=True, skip_prk_steps=False),
    "signal of nought": _schedule(rescale_betas_zero_snr=True),
    "Karras": _schedule(use_karras_sigmas=True),
    "trained steps": _schedule(num_train_timesteps=50),
    "a scheduler's own class": _schedule(_class_name="DDIMScheduler"),
    "DDIM": _other_scheduler("DDIMScheduler"),
    "DPM++, Karras": _other_scheduler(
        "DPMSolverMultistepScheduler", use_karras_sigmas=True, algorithm_type="dpmsolver++"
    ),
    "DPM++ with noise": _other_scheduler("DPMSolverMultistepScheduler", algorithm_type="sde-dpmsolver++"),
    "Euler, ancestral": _other_scheduler("EulerAncestralDiscreteScheduler"),
    "LCM": _other_scheduler("LCMScheduler"),
    "UniPC": _other_scheduler("UniPCMultistepScheduler"),
    "flow": _other_scheduler("FlowMatchEulerDiscreteScheduler", shift=3.0),
}
_ENCODER: dict[str, Edit] = {
    "attention mask": changed("text_encoder/config.json", use_attention_mask=True),
    "activation of the texts": changed("text_encoder/config.json", hidden_act="gelu"),
    "fewer layers of the texts": changed("text_encoder/config.json", num_hidden_layers=2),
    "end of the texts": changed("text_encoder/config.json", eos_token_id=2),
    "longest text": changed("tokenizer/tokenizer_config.json", model_max_length=6),
    "longer text": changed("tokenizer/tokenizer_config.json", model_max_length=12),
    "padding token": changed("tokenizer/tokenizer_config.json", pad_token="[UNK]"),
    "padding side": changed("tokenizer/tokenizer_config.json", padding_side="left"),
    "added tokens": changed("tokenizer/added_tokens.json", doctor=5),
}
_VAE: dict[str, Edit] = {
    "scaling factor": changed("vae/config.json", scaling_factor=0.2),
    "no scaling factor": changed("vae/config.json", scaling_factor=GONE),
    "shift": changed("vae/config.json", shift_factor=0.7),
    "moments": changed("vae/config.json", latents_mean=[0.5, -0.2, 0.3, 0.0], latents_std=[0.5, 1.5, 2.0, 1.0]),
    "no upcast": changed("vae/config.json", force_upcast=False),
    "no convolution before": changed("vae/config.json", use_post_quant_conv=False),
    "VAE's activation": changed("vae/config.json", act_fn="relu"),
    "VAE's sample size": changed("vae/config.json", sample_size=64),
}
_INDEX: dict[str, Edit] = {
    "negative prompt": changed("model_index.json", negative_prompt="a hat", prompt="a man"),
    "steps and guidance": changed("model_index.json", num_inference_steps=1, guidance_scale=0.0, guidance_rescale=0.7),
    "zeros": changed("model_index.json", force_zeros_for_empty_prompt=False),
    "watermark": changed("model_index.json", add_watermarker=True),
    "an image encoder": changed("model_index.json", image_encoder=["transformers", "CLIPVisionModelWithProjection"]),
    "another part": changed("model_index.json", prior=["diffusers", "UNet2DConditionModel"]),
    "distilled": changed("model_index.json", is_distilled=True),
    "older library": changed("model_index.json", _diffusers_version="0.1.0"),
    "a LoRA beside it": _stray_lora,
}
_DIFFUSION: dict[str, Edit] = {
    **_SCHEDULES,
    **_ENCODER,
    **_VAE,
    **_INDEX,
    "safety checker": _safety_checker,
    "img2img": changed("model_index.json", _class_name="StableDiffusionImg2ImgPipeline"),
    "sample size": changed("unet/config.json", sample_size=4),
    "sample size, not square": changed("unet/config.json", sample_size=[8, 4]),
    "no sample size": changed("unet/config.json", sample_size=None),
    "centred input": changed("unet/config.json", center_input_sample=True),
    "frequencies": changed("unet/config.json", freq_shift=1, flip_sin_to_cos=False),
    "heads": changed("unet/config.json", attention_head_dim=8),
    "activation": changed("unet/config.json", act_fn="gelu"),
    "upcast attention": changed("unet/config.json", upcast_attention=True),
    "dropout": changed("unet/config.json", dropout=0.5),
    "norms": changed("unet/config.json", norm_eps=0.1),
}
_FLUX: dict[str, Edit] = {
    **{name: _SCHEDULES[name] for name in ("Karras", "trained steps", "DDIM", "a scheduler's own class")},
    **_ENCODER,
    **_VAE,
    **_INDEX,
    "shift of the schedule": _schedule(shift=1.0),
    "dynamic shift": _schedule(use_dynamic_shifting=False),
    "base shift": _schedule(base_shift=3.0, max_shift=4.0),
    "shift to an end": _schedule(shift_terminal=0.3),
    "inverted": _schedule(invert_sigmas=True),
    "exponential": _schedule(use_exponential_sigmas=True),
    "noise in each step": _schedule(stochastic_sampling=True),
    "no guidance": changed("transformer/config.json", guidance_embeds=False),
    "axes": changed("transformer/config.json", axes_dims_rope=[8, 4, 4]),
    "longest text of the T5": changed("tokenizer_2/tokenizer_config.json", model_max_length=4),
    "positions of the T5": changed("text_encoder_2/config.json", relative_attention_num_buckets=16),
}


def _header(**settings: Any) -> Edit:
    """Settings of peft in the header of a LoRA's file."""

    def edit(folder: Path, layout: Layout) -> None:
        from peft import LoraConfig
        from safetensors.torch import load_file, save_file

        path = folder / layout.weights
        layers = {"unet": ["to_q", "to_v"], "text_encoder": ["q_proj", "v_proj"]}
        held = {
            f"{part}.{name}": sorted(value) if isinstance(value, set) else value
            for part, names in layers.items()
            for name, value in LoraConfig(target_modules=names, **settings).to_dict().items()
        }
        save_file(load_file(path), path, metadata={"format": "pt", "lora_adapter_metadata": json.dumps(held)})

    return edit


def _lora_tensors(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Edit:
    def edit(folder: Path, layout: Layout) -> None:
        from safetensors.torch import load_file, save_file

        path = folder / layout.weights
        save_file(change(load_file(path)), path, metadata={"format": "pt"})

    return edit


def _alphas(state: dict[str, Any]) -> dict[str, Any]:
    import torch

    named = [name.removesuffix(".lora_A.weight").removesuffix(".lora.down.weight") for name in state]
    return {**state, **{f"{name}.alpha": torch.tensor(2.0) for name in named if not name.endswith(".weight")}}


def _renamed_prefix(before: str, after: str) -> Edit:
    return _lora_tensors(lambda state: {name.replace(before, after): value for name, value in state.items()})


_LORA: dict[str, Edit] = {
    "alpha in the header": _header(r=4, lora_alpha=16),
    "rank-stabilised": _header(r=4, lora_alpha=16, use_rslora=True),
    "DoRA in the header": _header(r=4, lora_alpha=4, use_dora=True),
    "pattern of alphas": _header(r=4, lora_alpha=4, alpha_pattern={"to_q": 32}),
    "alphas as tensors": _lora_tensors(_alphas),
    "names of peft": _renamed_prefix("unet.", "base_model.model.unet."),
    "for the UNet alone": _lora_tensors(lambda state: {name: one for name, one in state.items() if "unet" in name}),
    "for another encoder": _renamed_prefix("text_encoder.", "text_encoder_2."),
    "for a transformer": _renamed_prefix("unet.", "transformer."),
    "older names": _renamed_prefix(".lora_A.", ".lora.down."),
    "an adapter's config beside it": changed("adapter_config.json", r=64, lora_alpha=1),
}
_PIPELINE_PARTS = ("text_encoder/model.safetensors", "vae/diffusion_pytorch_model.safetensors")


def painters(group: str) -> dict[str, Edit]:
    """The variants of a group of painters, or of LoRAs."""
    if group == "lora":
        return _LORA
    return {**(_FLUX if group == "flux" else _DIFFUSION), **_parted(_PIPELINE_PARTS)}
