"""A Stable Diffusion in one file is judged as the same weights in a folder, or refused with what does not fit."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusion_world import picture
from model_world import Pictures
from nightly import some
from safetensors.torch import load_file, save_file
from single_file_world import save_one_file

from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer

pytestmark = pytest.mark.xdist_group("diffusion")
State = dict[str, Any]
WORDS = ["a photo of doctor", "a photo of nurse"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("files")
    for kind in ("sd1", "sdxl"):
        save_one_file(kind, root)
    return root


def errors(uri: str, root: Path) -> Any:
    data = io.BytesIO()
    picture().save(data, "PNG")
    return open_scorer(uri, Pictures([data.getvalue()]), device="cpu", base=root).errors(WORDS)


@pytest.mark.parametrize("kind", ["sd1", "sdxl"])
def test_a_file_is_judged_as_its_weights_in_a_folder(kind: str, files: Path) -> None:
    whole = errors(f"diffusion:{kind}?samples=2", files)
    np.testing.assert_array_equal(errors(f"diffusion:{kind}.safetensors?config={kind}&samples=2", files), whole)
    assert np.ptp(whole) > 0


def without(name: str) -> Callable[[State], State]:
    return lambda state: {each: value for each, value in state.items() if not each.startswith(name)}


def added(name: str, value: Any) -> Callable[[State], State]:
    return lambda state: {**state, name: value}


EMA, PREDICTION = "model_ema.diffusion_modeltime_embed0weight", "v_pred"
UNKNOWN = "model.diffusion_model.input_blocks.3.1.transformer_blocks.0.attn3.to_q.weight"
TEXT = "cond_stage_model.transformer.text_model"
NORM = "model.diffusion_model.out.0.weight"
REFUSED: dict[str, tuple[Callable[[State], State], str]] = {
    "averaged weights": (added(EMA, torch.ones(2)), f"leaves out {EMA}"),
    "what the model predicts": (added(PREDICTION, torch.zeros(0)), f"leaves out {PREDICTION}"),
    "an unknown layer": (added(UNKNOWN, torch.ones(32, 32)), "attn3"),
    "a layer too few": (without("model.diffusion_model.out.0."), "it lacks tensors of the unet"),
    "of a text encoder": (without(f"{TEXT}.final_layer_norm.weight"), "it has no text_encoder.final_layer_norm.weight"),
    "no text encoder": (without("cond_stage_model."), "be loaded as the folder's text_encoder"),
    "no VAE": (without("first_stage_model."), "be loaded as the folder's vae"),
    "another size": (added(NORM, torch.ones(8)), "conv_norm_out"),
    "NaN": (added(NORM, torch.full((16,), torch.nan)), "NaN or infinite"),
    "another schedule": (added("alphas_cumprod", torch.linspace(1, 0.1, 1000)), "not those of scheduler_config.json"),
}


@pytest.mark.parametrize("case", some(list(REFUSED), 3))
def test_a_tensor_that_is_left_out_lacking_or_unfit_is_an_error(case: str, files: Path, tmp_path: Path) -> None:
    change, problem = REFUSED[case]
    save_file(change(load_file(files / "sd1.safetensors")), tmp_path / "odd.safetensors")
    (tmp_path / "sd1").symlink_to(files / "sd1")
    with pytest.raises(ModelError, match=problem):
        errors("diffusion:odd.safetensors?config=sd1&samples=2", tmp_path)


def test_another_vae_replaces_that_of_the_file(files: Path, tmp_path: Path) -> None:
    (tmp_path / "sd1").symlink_to(files / "sd1")
    (tmp_path / "sd1.safetensors").symlink_to(files / "sd1.safetensors")
    (tmp_path / "vae").symlink_to(files / "sdxl")
    address = "diffusion:sd1.safetensors?config=sd1&samples=2"
    other = errors(f"{address}&vae=vae", tmp_path)
    np.testing.assert_array_equal(other, errors("diffusion:sd1?samples=2&vae=vae", tmp_path))
    assert np.abs(other - errors(address, tmp_path)).max() > 0
    save_file(without("first_stage_model.")(load_file(files / "sd1.safetensors")), tmp_path / "less.safetensors")
    np.testing.assert_array_equal(errors(address.replace("sd1.s", "less.s") + "&vae=vae", tmp_path), other)


def test_what_is_no_such_file_or_folder_is_refused_with_the_uri_to_write(files: Path, tmp_path: Path) -> None:
    for uri, problem in {
        "diffusion:sd1.safetensors": "(?s)is a file.*diffusion:FILE\\?config=FOLDER",
        "diffusion:sd1?config=sd1": "is a folder, and a file is expected",
        "diffusion:absent.safetensors?config=sd1": "the file does not exist",
        "diffusion:sd1/model_index.json?config=sd1": "not a kind of checkpoint",
        "diffusion:sd1?variant=fp16": "unknown or empty: 'variant'",
    }.items():
        with pytest.raises(ModelError, match=problem):
            errors(uri, files)
