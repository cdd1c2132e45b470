"""LoRAs of a FLUX in the layouts of diffusers' and kohya's scripts, and Stable Diffusions in one file, tiny."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from differential_models import Layout, save_row
from differential_painting import _LEVEL, SIDE, _paint, _painted


def _of_diffusers() -> dict[str, Any]:
    import torch

    layers = ("transformer_blocks.0.attn.to_q", "single_transformer_blocks.0.attn.to_v")
    halves = {f"transformer.{layer}.lora_{half}.weight": half for layer in layers for half in "AB"}
    return {name: torch.randn((4, 32) if half == "A" else (32, 4)) * 0.5 for name, half in halves.items()}


def _of_kohya() -> dict[str, Any]:
    import torch

    found: dict[str, Any] = {}
    for name, outputs in {"img_attn_qkv": 96, "img_attn_proj": 32}.items():
        key = f"lora_unet_double_blocks_0_{name}"
        found[f"{key}.lora_down.weight"] = torch.randn(4, 32) * 0.5
        found[f"{key}.lora_up.weight"] = torch.randn(outputs, 4) * 0.5
        found[f"{key}.alpha"] = torch.tensor(8.0)
    return found


def _layout(make: Any) -> Layout:
    def save(root: Path) -> str:
        import torch
        from safetensors.torch import save_file

        uri = save_row("diffusion-flux", "")(root)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
            (root / "lora").mkdir()
            save_file(make(), root / "lora" / "pytorch_lora_weights.safetensors")
        return f"{uri}&lora=lora"

    library = _paint("flux", lora=True, height=SIDE, width=SIDE)
    return Layout(save, "lora", "pytorch_lora_weights.safetensors", library, _painted, near=_LEVEL, group="flux")


def _one_file(kind: str) -> Layout:
    from single_file_world import save_one_file

    library = _paint(kind, file=f"{kind}.safetensors")
    return Layout(partial(save_one_file, kind), kind, "", library, _painted, near=_LEVEL)


def lora_rows() -> dict[str, Layout]:
    """By what the file is."""
    return {
        "a LoRA of black-forest-labs/FLUX.1-dev by diffusers": _layout(_of_diffusers),
        "a LoRA of black-forest-labs/FLUX.1-dev by kohya": _layout(_of_kohya),
        "v1-5-pruned-emaonly.safetensors with configs": _one_file("sd1"),
        "sd_xl_base_1.0.safetensors with configs": _one_file("sdxl"),
    }
