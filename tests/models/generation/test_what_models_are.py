"""A build's shards depend on the files of its models, however the models are named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from fairgate.ground.errors import ModelError
from fairgate.models.generation import ALIASES
from fairgate.models.generation.registry import model_fingerprint

PARTS = {
    "unet": ("diffusers", "UNet2DConditionModel"),
    "vae": ("diffusers", "AutoencoderKL"),
    "text_encoder_2": ("transformers", "CLIPTextModelWithProjection"),
    "tokenizer_2": ("transformers", "CLIPTokenizer"),
    "scheduler": ("diffusers", "DDIMScheduler"),
}
UNET = "unet/diffusion_pytorch_model"


def put(path: Path, content: str | float = "{}") -> None:
    """A file with a text, or weights of one number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content)
    else:
        save_file({"weight": np.array([content], np.float32)}, path)


def put_pipeline(folder: Path, number: float) -> None:
    """The files of an SDXL, or of a refiner, in two variants."""
    index = {"_class_name": "StableDiffusionXLPipeline", "requires_aesthetics_score": number > 0}
    put(folder / "model_index.json", json.dumps(index | PARTS))
    put(folder / "scheduler" / "scheduler_config.json")
    put(folder / "tokenizer_2" / "vocab.json")
    for part, stem in {
        "unet": UNET,
        "vae": "vae/diffusion_pytorch_model",
        "text_encoder_2": "text_encoder_2/model",
    }.items():
        put(folder / part / "config.json")
        for variant in ("", ".fp16"):
            put(folder / f"{stem}{variant}.safetensors", number)


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An SDXL and a refiner, named `first` and `second` for short, a CLIP, and a bystander beside them."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("first", "second")):
        put_pipeline(Path(name), number)
        monkeypatch.setitem(ALIASES, name, f"hf:{tmp_path / name}")
    for name, content in {"config.json": '{"model_type": "clip"}', "preprocessor_config.json": "{}"}.items():
        put(Path("clip", name), content)
    put(Path("clip", "model.safetensors"), 1.0)
    Path("bystander").write_text("not a model")


@pytest.mark.parametrize("uri", ["first?refiner=second", "hf:first?refiner=second"])
def test_short_names_and_their_options_stand_for_the_models_files_alone(uri: str) -> None:
    found = model_fingerprint("inpainter", uri)
    Path("bystander").write_text("changed")
    assert model_fingerprint("inpainter", uri) == found
    put(Path(f"second/{UNET}.safetensors"), 9.0)
    assert model_fingerprint("inpainter", uri) != found


@pytest.mark.parametrize(
    ("uri", "weights", "unread"),
    [
        ("hf:clip", "clip/model.safetensors", "clip/pytorch_model.bin"),
        ("hf:clip", "clip/preprocessor_config.json", "clip/onnx/model.onnx"),
        ("first", f"first/{UNET}.safetensors", f"first/{UNET}.fp16.safetensors"),
        ("first", "first/scheduler/scheduler_config.json", "first/v1-5-pruned.safetensors"),
        (
            "first?vae=second",
            "second/vae/diffusion_pytorch_model.safetensors",
            "first/safety_checker/model.safetensors",
        ),
        ("first?vae=second", "first/model_index.json", "first/vae/diffusion_pytorch_model.safetensors"),
    ],
)
def test_a_model_is_the_files_that_are_loaded_and_not_what_lies_beside_them(
    uri: str, weights: str, unread: str
) -> None:
    role = "matcher" if "clip" in uri else "painter"
    found = model_fingerprint(role, uri)
    put(Path(unread), 7.0)
    put(Path(unread).with_name("README.md"), "a model card")
    assert model_fingerprint(role, uri) == found
    changed = json.dumps(json.loads(Path(weights).read_text()) | {"more": 1}) if weights.endswith("json") else 8.0
    put(Path(weights), changed)
    assert model_fingerprint(role, uri) != found


def test_a_model_is_another_one_with_a_refiner() -> None:
    assert model_fingerprint("inpainter", "first") == model_fingerprint("painter", "hf:first")
    assert model_fingerprint("inpainter", "first") != model_fingerprint("inpainter", "first?refiner=second")


@pytest.mark.parametrize("uri", ["first?refiner=nowhere", "hf:", "third", "open_clip:", "portraits:"])
def test_a_model_that_is_not_there_is_an_error_that_names_it(uri: str) -> None:
    with pytest.raises(ModelError, match=r"nowhere|name a model|does not exist|no model"):
        model_fingerprint("painter", uri)


def test_an_option_that_there_is_not_is_told_before_a_model_is_fetched() -> None:
    with pytest.raises(ModelError, match="unknown or empty: 'variant'"):
        model_fingerprint("painter", "sdxl?variant=fp16")
