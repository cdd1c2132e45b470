"""Matchers embed as the gate does with the same files, and DINO embeds as its library does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hf_world import save_folder
from model_world import PROMPTS, Pictures
from perceiver_world import PHOTOS, portrait
from PIL import Image
from safetensors.torch import load_file, save_file

from fairgate.builds.steps.pictures import picture
from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer
from fairgate.models.generation import open_model


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: save_folder(kind, tmp_path_factory.mktemp("matchers") / kind) for kind in ("clip", "siglip")}


@pytest.mark.parametrize("kind", ["clip", "siglip", "open_clip"])
def test_vectors_are_those_the_gate_computes(
    kind: str, clips: dict[str, Path], local_dir: Path, pictures: Pictures
) -> None:
    uri = f"open_clip:local-dir:{local_dir.name}" if kind == "open_clip" else f"hf:{kind}"
    base = local_dir.parent if kind == "open_clip" else clips[kind].parent
    scorer = open_scorer(uri, pictures, device="cpu", base=base)
    matcher = open_model("matcher", uri, base=base)
    images, texts = matcher.embed_images([picture(blob) for blob in pictures.blobs]), matcher.embed_texts(PROMPTS)
    np.testing.assert_allclose(images, scorer.image_embeddings(), atol=1e-6)
    np.testing.assert_allclose(texts, scorer.text_embeddings(PROMPTS), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(np.concatenate([images, texts]), axis=1), 1.0, atol=1e-6)
    assert images.dtype == texts.dtype == np.float32
    assert matcher.fingerprint == scorer.fingerprint
    assert dict(matcher.spent) == {"image_tower": len(pictures), "text_tower": len(PROMPTS)}


def test_equal_texts_are_computed_once_and_come_back_in_order(clips: dict[str, Path]) -> None:
    matcher = open_model("matcher", f"hf:{clips['clip']}")
    twice = matcher.embed_texts([*PROMPTS, PROMPTS[0]])
    np.testing.assert_array_equal(twice[:3], matcher.embed_texts(PROMPTS))
    np.testing.assert_array_equal(twice[3], twice[0])
    assert matcher.spent["text_tower"] == 6
    for nothing in (matcher.embed_texts, matcher.embed_images):
        with pytest.raises(ModelError, match="was given to embed"):
            nothing([])


def stock(folder: Path, images: list[Image.Image]) -> Any:
    from transformers import AutoImageProcessor, AutoModel

    with torch.no_grad():
        pixels = AutoImageProcessor.from_pretrained(folder)(images=images, return_tensors="pt")
        hidden = AutoModel.from_pretrained(folder).eval()(**pixels).last_hidden_state[:, 0]
    return torch.nn.functional.normalize(hidden, dim=1)


@pytest.mark.parametrize("kind", ["dino", "dinov2"])
def test_dino_embeds_images_by_its_class_token_and_knows_no_text(kind: str, perceivers: dict[str, Path]) -> None:
    matcher = open_model("matcher", f"hf:{perceivers[kind]}")
    images = [portrait(1), portrait(2, (50, 90))]
    if PHOTOS.is_dir():
        images.append(Image.open(PHOTOS / "1005.jpg").convert("RGB"))
    np.testing.assert_allclose(matcher.embed_images(images), stock(perceivers[kind], images), atol=1e-5)
    with pytest.raises(ModelError, match="embeds images alone") as caught:
        matcher.embed_texts(["a photo of a doctor"])
    assert "CLIP" in str(caught.value.remedy)


def test_a_vit_with_the_pooling_layer_that_dino_lacks_embeds_alike(perceivers: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(perceivers["dino"], tmp_path / "vit"))
    weights = load_file(folder / "model.safetensors")
    weights |= {"pooler.dense.weight": torch.zeros(32, 32), "pooler.dense.bias": torch.zeros(32)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with_pooling, without = (
        open_model("matcher", f"hf:{path}").embed_images([portrait(1)]) for path in (folder, perceivers["dino"])
    )
    np.testing.assert_array_equal(with_pooling, without)


def test_what_is_no_matcher_is_refused(perceivers: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="of type 'sam'"):
        open_model("matcher", f"hf:{perceivers['sam']}")
    with pytest.raises(ModelError, match="the model folder does not exist"):
        open_model("matcher", "hf:nowhere", base=tmp_path)
    with pytest.raises(ModelError, match="does not say which weights"):
        open_model("matcher", "open_clip:ViT-B-32")
    odd = Path(shutil.copytree(perceivers["dinov2"], tmp_path / "dinov2"))
    config = json.loads((odd / "config.json").read_text(encoding="utf-8"))
    (odd / "config.json").write_text(json.dumps(config | {"model_type": ["dinov2"]}), encoding="utf-8")
    with pytest.raises(ModelError, match=r"of type '\['dinov2'\]'"):
        open_model("matcher", f"hf:{odd}")
