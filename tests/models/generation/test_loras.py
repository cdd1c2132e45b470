"""A LoRA on a Stable Diffusion is merged as diffusers fuses it, or refused: never passed over."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusion_world import build, difference, generators
from safetensors.torch import load_file, save_file

from fairgate.ground.errors import ModelError
from fairgate.models.generation import Sampling, model_fingerprint, open_model

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
    layers = {
        "unet": ["to_q", "to_v", "to_out.0", "ff.net.2", "conv1"],
        "text_encoder": ["q_proj", "out_proj", "fc1", "fc2"],
    }
    for part, names in layers.items():
        config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=names, init_lora_weights=False)
        getattr(trained, part).add_adapter(config)
    every = {
        f"{part}.{name}": one
        for part in layers
        for name, one in convert_state_dict_to_diffusers(get_peft_model_state_dict(getattr(trained, part))).items()
    }
    for part, names in layers.items():  # attention alone: next to it, diffusers does not read what else it writes
        getattr(trained, part).peft_config["default"].target_modules = names[:-2]
    states = {
        f"{part}_lora_layers": {
            name.removeprefix(f"{part}."): one
            for name, one in every.items()
            if name.startswith(f"{part}.") and ".lora_A" not in name and ".lora_B" not in name
        }
        for part in layers
    }
    parts = {part: getattr(trained, part) for part in layers}
    type(base).save_lora_weights(folder / "lora", **states, **_collate_lora_metadata(parts))
    state = load_file(folder / "lora" / "pytorch_lora_weights.safetensors")
    save_file(state, folder / "bare.safetensors")
    save_file(kohya(every, request.param == "sdxl"), folder / "kohya.safetensors")
    return {"folder": folder, "state": state, "whole": every, "stock": base}


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


def first_renamed(state: dict[str, torch.Tensor], part: str, old: str, new: str) -> dict[str, torch.Tensor]:
    """The updates, the first layer's of a part under other names."""
    layer = next(name for name in state if name.startswith(part)).partition(".lora")[0]
    return {(name.replace(old, new) if name.startswith(layer) else name): one.clone() for name, one in state.items()}


def alphas(state: dict[str, torch.Tensor], alpha: Callable[[int], int]) -> dict[str, torch.Tensor]:
    """As kohya's scripts write it, with other alphas."""
    found = kohya(state, False)
    names = [name for name in found if name.endswith(".alpha")]
    return found | {name: torch.tensor(float(alpha(place))) for place, name in enumerate(names)}


def test_what_diffusers_leaves_out_of_a_file_is_refused(world: dict[str, Any], tmp_path: Path) -> None:
    """Its own scripts write a UNet's convolutions next to attention under names of which it reads one kind."""
    save_file(world["whole"], tmp_path / "mixed.safetensors")
    with pytest.raises(ModelError, match="tensors are in the pipeline, and the file has"):
        painted(f"hf:{world['folder'] / 'base'}?lora={tmp_path / 'mixed.safetensors'}")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda s: {n: t for n, t in s.items() if not n.endswith((".up.weight", "lora_B.weight"))}, "IndexError"),
        (
            lambda s: s | {"unet.nowhere.lora_A.weight": torch.zeros(2, 8)},
            "60 tensors are in the pipeline, and the file has 61",
        ),
        (
            lambda s: (
                s | {"unet.nowhere.lora_A.weight": torch.zeros(2, 8), "unet.nowhere.lora_B.weight": torch.zeros(8, 2)}
            ),
            "60 tensors are in the pipeline, and the file has 62",
        ),
        (lambda s: s | {"unet.extra.weight": torch.zeros(2)}, "Invalid LoRA checkpoint"),
        (
            lambda s: {n: t[..., :-1].clone() if "down" in n or "lora_A" in n else t for n, t in s.items()},
            "size mismatch",
        ),
        (lambda s: {n: t * float("nan") for n, t in s.items()}, "NaN"),
        (lambda s: s | {"unet.down.lora_magnitude_vector": torch.zeros(2)}, "the file has 61"),
        (lambda _: {}, "does not fit the pipeline"),
        (lambda s: first_renamed(s, "unet", "lora.", "lora_"), "half of an update is missing|the file has"),
        (lambda s: s | first_renamed(s, "unet", ".to_out.0.lora.", ".to_out_lora."), "the file has 62"),
        (
            lambda s: s | {n.replace("text_encoder.", "text_encoder.text_model."): t.clone() for n, t in s.items()},
            "the file has 72",
        ),
        (lambda s: alphas(s, lambda place: place), "different alphas"),
        (lambda s: {n: t for n, t in kohya(s, False).items() if "out_0.alpha" not in n}, "have none"),
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


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"use_dora": True}, "does not fit the pipeline"),
        ({"lora_bias": True}, "lora_bias"),
        ({"r": 4}, "size mismatch"),
        ({"target_modules": ["to_q"]}, "inconsistency"),
        ({"exclude_modules": ["to_q"]}, "inconsistency"),
        ({"target_modules": ["to_q", "to_v", "to_out.0", "conv1"]}, "inconsistency"),
        (None, "does not fit the pipeline"),
    ],
)
def test_a_header_that_changes_how_it_is_applied_is_refused(
    world: dict[str, Any], tmp_path: Path, changes: dict[str, Any] | None, problem: str
) -> None:
    settings = {"r": 2, "lora_alpha": 6, "target_modules": ["to_q", "to_v", "to_out.0"]}
    own = {} if changes is None else {f"unet.{name}": value for name, value in (settings | changes).items()}
    save_file(world["state"], tmp_path / "other.safetensors", metadata={"lora_adapter_metadata": json.dumps(own)})
    with pytest.raises(ModelError, match=problem):
        painted(f"hf:{world['folder'] / 'base'}?lora={tmp_path / 'other.safetensors'}")


def test_a_header_next_to_alphas_is_refused_as_by_diffusers(world: dict[str, Any], tmp_path: Path) -> None:
    save_file(kohya(world["state"], False), tmp_path / "both.safetensors", metadata={"lora_adapter_metadata": "{}"})
    with pytest.raises(ModelError, match="does not fit the pipeline"):
        painted(f"hf:{world['folder'] / 'base'}?lora={tmp_path / 'both.safetensors'}")
