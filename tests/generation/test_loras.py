"""A LoRA on a Stable Diffusion is merged as diffusers fuses it, or refused: never passed over."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusion_world import build, difference, generators
from safetensors.torch import load_file, save_file

from fairgate.errors import ModelError
from fairgate.generation import Sampling, model_fingerprint, open_model

RANK, ALPHA = 2, 6
KOHYA = {"unet.": "lora_unet_", "text_encoder.": "lora_te_", "text_encoder_2.": "lora_te2_"}


def kohya(state: dict[str, torch.Tensor], xl: bool) -> dict[str, torch.Tensor]:
    """The same updates as kohya's scripts name them, with alphas of their own."""
    found = {}
    for name, tensor in state.items():
        prefix = next(one for one in KOHYA if name.startswith(one))
        layer, _, end = name.removeprefix(prefix).partition(".lora")
        layer = (KOHYA[prefix] if not (xl and prefix == "text_encoder.") else "lora_te1_") + layer.replace(".", "_")
        found[f"{layer}.lora_{'down' if 'down' in end or 'A' in end else 'up'}.weight"] = tensor
        found[f"{layer}.alpha"] = torch.tensor(float(ALPHA))
    return found


@pytest.fixture(scope="module", params=["sd1", pytest.param("sdxl", marks=pytest.mark.nightly)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A pipeline's folder, LoRA files of random updates for UNet and text encoder, and diffusers' own pipeline."""
    from diffusers.training_utils import _collate_lora_metadata
    from diffusers.utils import convert_state_dict_to_diffusers
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    folder = tmp_path_factory.mktemp(request.param)
    base = build(request.param)
    base.save_pretrained(folder / "base")
    trained = build(request.param)
    torch.manual_seed(1)
    layers = {"unet": ["to_q", "to_v", "to_out.0"], "text_encoder": ["q_proj", "out_proj"]}
    for part, names in layers.items():
        config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=names, init_lora_weights=False)
        getattr(trained, part).add_adapter(config)
    states = {
        f"{part}_lora_layers": convert_state_dict_to_diffusers(get_peft_model_state_dict(getattr(trained, part)))
        for part in layers
    }
    parts = {part: getattr(trained, part) for part in layers}
    type(base).save_lora_weights(folder / "lora", **states, **_collate_lora_metadata(parts))
    state = load_file(folder / "lora" / "pytorch_lora_weights.safetensors")
    save_file(state, folder / "bare.safetensors")
    save_file(kohya(state, request.param == "sdxl"), folder / "kohya.safetensors")
    return {"folder": folder, "state": state, "stock": base}


def painted(uri: str) -> list[Any]:
    how = Sampling(steps=3, guidance=2.0, size=32)
    made: list[Any] = open_model("painter", uri).paint(["a photo of a doctor", "a nurse"], [3, 4], how)
    return made


@pytest.mark.parametrize(("file", "scale"), [("lora", 1.0), ("bare.safetensors", 0.5), ("kohya.safetensors", 1.0)])
def test_pictures_are_those_of_diffusers_with_the_lora_fused(world: dict[str, Any], file: str, scale: float) -> None:
    folder, stock = world["folder"], world["stock"]
    stock.set_progress_bar_config(disable=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # diffusers' own, about numpy 2 and its settings
        stock.load_lora_weights(folder / file)
        stock.fuse_lora(lora_scale=scale)
        try:
            theirs = stock(
                ["a photo of a doctor", "a nurse"],
                num_inference_steps=3,
                guidance_scale=2.0,
                height=32,
                width=32,
                generator=generators(3, 4),
            ).images
        finally:
            stock.unfuse_lora()
            stock.unload_lora_weights()
    ours = painted(f"hf:{folder / 'base'}?lora={folder / file}&lora_scale={scale}")
    assert difference(ours, theirs) <= 1  # a level of 255: sums in another order
    assert difference(ours, painted(f"hf:{folder / 'base'}")) > 1


def test_an_update_of_nothing_paints_what_the_base_paints_under_another_fingerprint(
    world: dict[str, Any], tmp_path: Path
) -> None:
    base = f"hf:{world['folder'] / 'base'}"
    save_file({name: tensor * 0 for name, tensor in world["state"].items()}, tmp_path / "nothing.safetensors")
    with_nothing = f"{base}?lora={tmp_path / 'nothing.safetensors'}"
    assert difference(painted(with_nothing), painted(base)) == 0
    prints = {model_fingerprint("painter", uri) for uri in (base, with_nothing, f"{with_nothing}&lora_scale=2")}
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda s: {n: t for n, t in s.items() if not n.endswith((".up.weight", "lora_B.weight"))}, "one half"),
        (lambda s: s | {"unet.nowhere.lora_A.weight": torch.zeros(2, 8)}, "one half"),
        (
            lambda s: (
                s | {"unet.nowhere.lora_A.weight": torch.zeros(2, 8), "unet.nowhere.lora_B.weight": torch.zeros(8, 2)}
            ),
            "no layer nowhere",
        ),
        (lambda s: s | {"unet.extra.weight": torch.zeros(2)}, "no update of a known layer"),
        (lambda s: {n: t[..., :-1].clone() if "down" in n or "lora_A" in n else t for n, t in s.items()}, "its update"),
        (lambda s: {n: t * float("nan") for n, t in s.items()}, "NaN"),
        (lambda s: s | {"unet.down.lora_magnitude_vector": torch.zeros(2)}, "DoRA"),
        (lambda _: {}, "0 of its 0"),
    ],
)
def test_what_would_not_be_applied_is_refused(world: dict[str, Any], tmp_path: Path, change: Any, problem: str) -> None:
    save_file(change(dict(world["state"])), tmp_path / "odd.safetensors")
    with pytest.raises(ModelError, match=problem):
        painted(f"hf:{world['folder'] / 'base'}?lora={tmp_path / 'odd.safetensors'}")


@pytest.mark.parametrize("options", ["lora_scale=2", "lora=L&lora_scale=0", "lora=L&lora_scale=much"])
def test_a_scale_that_scales_nothing_is_refused(world: dict[str, Any], options: str) -> None:
    with pytest.raises(ModelError, match="lora_scale is"):
        open_model("painter", f"hf:{world['folder'] / 'base'}?{options}")


def test_a_header_that_changes_how_it_is_applied_is_refused(world: dict[str, Any], tmp_path: Path) -> None:
    settings = '{"unet.r": 2, "unet.lora_alpha": 6, "unet.use_rslora": true}'
    save_file(world["state"], tmp_path / "rs.safetensors", metadata={"lora_adapter_metadata": settings})
    with pytest.raises(ModelError, match="use_rslora"):
        painted(f"hf:{world['folder'] / 'base'}?lora={tmp_path / 'rs.safetensors'}")
