"""A checkpoint whose image tower is that of another one takes its embeddings of pictures from the cache."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_world import PROMPTS, Pictures, save_local_dir
from test_hf_adapter import save_folder

from fairgate.models import EmbeddingCache, open_scorer

Change = Callable[[Path], None]


def uri_of(kind: str, folder: Path) -> str:
    return f"open_clip:local-dir:{folder}" if kind == "open_clip" else f"hf:{folder}"


def weights_of(folder: Path) -> Path:
    return next(path for path in folder.iterdir() if path.suffix == ".safetensors")


def changed(folder: Path, tensor: str) -> None:
    """Add to a tensor of a saved model."""
    from safetensors.torch import load_file, save_file

    state = load_file(weights_of(folder))
    state[tensor] = state[tensor] + 0.05 * torch.randn(state[tensor].shape, generator=torch.Generator().manual_seed(1))
    save_file(state, weights_of(folder), metadata={"format": "pt"})


def rewritten(folder: Path, file: str, *keys: str, value: object) -> None:
    """Set a key of a JSON file."""
    path = folder / file
    content = json.loads(path.read_text())
    inner: Any = content
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(content))


OPEN_CLIP, PROCESSOR = "open_clip_config.json", "preprocessor_config.json"
MEAN = [0.4, 0.5, 0.5]
TEXTS = {
    "open_clip": "ln_final.weight",
    "clip": "text_model.final_layer_norm.weight",
    "siglip": "text_model.head.weight",
}
SEEN: dict[str, Change] = {
    "open_clip weights": lambda folder: changed(folder, "visual.proj"),
    "open_clip activation": lambda folder: rewritten(folder, OPEN_CLIP, "model_cfg", "quick_gelu", value=True),
    "open_clip mean": lambda folder: rewritten(folder, OPEN_CLIP, "preprocess_cfg", "mean", value=MEAN),
    "clip weights": lambda folder: changed(folder, "visual_projection.weight"),
    "clip activation": lambda folder: rewritten(folder, "config.json", "vision_config", "hidden_act", value="gelu"),
    "clip mean": lambda folder: rewritten(folder, PROCESSOR, "image_mean", value=MEAN),
}


@pytest.fixture
def saved(tmp_path: Path, tiny_model: Any) -> Callable[[str, str], Path]:
    def save(kind: str, name: str) -> Path:
        if kind == "open_clip":
            return save_local_dir(tmp_path / name, copy.deepcopy(tiny_model))
        return save_folder(kind, tmp_path / name)

    return save


def logits(uri: str, pictures: Pictures, cache: EmbeddingCache | None) -> tuple[np.ndarray, int]:
    """Of a checkpoint, and how many pictures were embedded for them."""
    model: Any = open_scorer(uri, pictures, device="cpu", cache=cache)
    encoder, embedded = model.loaded(), []

    def encode_images(batch: Any) -> Any:
        embedded.append(len(batch))
        return encoder.encode_images(batch)

    model._network = replace(encoder, encode_images=encode_images)
    return model.logits(PROMPTS), sum(embedded)


@pytest.mark.parametrize("kind", sorted(TEXTS))
def test_a_checkpoint_with_another_text_tower_embeds_no_picture(
    kind: str, saved: Callable[[str, str], Path], pictures: Pictures, cache: EmbeddingCache
) -> None:
    base, tuned = saved(kind, "base"), saved(kind, "tuned")
    changed(tuned, TEXTS[kind])
    of_base, embedded = logits(uri_of(kind, base), pictures, cache)
    assert embedded == len(pictures)
    of_tuned, embedded = logits(uri_of(kind, tuned), pictures, cache)
    assert embedded == 0
    assert len(list((cache.folder / "contents").rglob("*.safetensors"))) == 1, "the pictures' digests are there once"
    assert not np.array_equal(of_base, of_tuned)
    np.testing.assert_array_equal(of_tuned, logits(uri_of(kind, tuned), pictures, None)[0])
    np.testing.assert_array_equal(of_tuned, logits(uri_of(kind, tuned), pictures, cache)[0])


def test_a_step_that_null_turns_off_is_another_preprocessing_and_no_picture_of_the_cache(
    saved: Callable[[str, str], Path], pictures: Pictures, cache: EmbeddingCache
) -> None:
    base, tuned = saved("clip", "base"), saved("clip", "tuned")
    for folder in (base, tuned):
        config = json.loads((folder / PROCESSOR).read_text())
        del config["do_rescale"]  # as in the configs of the first CLIPs
        (folder / PROCESSOR).write_text(json.dumps(config))
    rewritten(tuned, PROCESSOR, "do_rescale", value=None)
    opened = [open_scorer(uri_of("clip", folder), pictures, device="cpu", cache=cache) for folder in (base, tuned)]
    of_base, of_tuned = (model.logits(PROMPTS) for model in opened)
    assert not np.array_equal(of_base, of_tuned)
    assert opened[0].preprocessing != opened[1].preprocessing


@pytest.mark.parametrize("what", sorted(SEEN))
def test_what_changes_the_embedding_of_a_picture_is_computed(
    what: str, saved: Callable[[str, str], Path], pictures: Pictures, cache: EmbeddingCache
) -> None:
    kind = what.split(maxsplit=1)[0]
    base, tuned = saved(kind, "base"), saved(kind, "tuned")
    SEEN[what](tuned)
    of_base, _ = logits(uri_of(kind, base), pictures, cache)
    of_tuned, embedded = logits(uri_of(kind, tuned), pictures, cache)
    assert embedded == len(pictures)
    assert not np.array_equal(of_base, of_tuned)
