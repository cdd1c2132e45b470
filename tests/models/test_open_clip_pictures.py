"""Pictures for a file of an architecture are prepared as open_clip prepares them for the architecture's own weights."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_world import PROMPTS, Pictures
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer
from fairgate.models.checkpoints import split_options
from fairgate.models.open_clip_parts import PICTURES, architecture_facts, published_pictures

SIZES = [(91, 37), (33, 200), (224, 225), (640, 333), (7, 5)]


def prepared_for(architecture: str, tag: str | None = None) -> dict[str, Any]:
    return published_pictures(architecture, architecture_facts(architecture, None)[1], tag, "open_clip:x")


def test_every_architecture_takes_its_tags_numbers_or_asks_for_a_tag() -> None:
    import open_clip

    asked = []
    for name in open_clip.list_models():
        tags = open_clip.list_pretrained_tags_by_model(name)
        for tag in tags:
            said = open_clip.pretrained.get_pretrained_cfg(name, tag)
            found = {**PICTURES, **prepared_for(name, tag)}
            assert all(list(said[key]) == list(found[key]) for key in ("mean", "std") if key in said)
            assert all(said[key] == found[key] for key in ("interpolation", "resize_mode") if key in said)
        with contextlib.suppress(ModelError):
            prepared_for(name)
            continue
        asked.append(name)
    with pytest.raises(ModelError, match=r"x\?preprocess=openai"):
        prepared_for("ViT-L-14")
    assert "ViT-L-14" in asked
    assert "ViT-B-32" not in asked


@pytest.mark.parametrize("name", ["ViT-B-32", "ViT-B-16-SigLIP2", "MobileCLIP2-S0"])
def test_pictures_of_odd_sizes_are_those_of_open_clips_own_transform_for_a_tag(name: str) -> None:
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2, merge_preprocess_dict

    tag = open_clip.list_pretrained_tags_by_model(name)[0]
    size = open_clip.get_model_config(name)["vision_cfg"].get("image_size", 224)
    settings = {"size": size, **PICTURES, **prepared_for(name)}
    ours = image_transform_v2(PreprocessCfg(**settings), is_train=False)
    said = open_clip.pretrained.get_pretrained_cfg(name, tag)
    keys = ("mean", "std", "interpolation", "resize_mode")
    overlay = {key: said[key] for key in keys if key in said}
    theirs = image_transform_v2(PreprocessCfg(**merge_preprocess_dict({"size": size}, overlay)), is_train=False)
    draw = np.random.default_rng(3)
    for width, height in SIZES:
        picture = Image.fromarray(draw.integers(0, 256, (height, width, 3), dtype=np.uint8))
        torch.testing.assert_close(ours(picture), theirs(picture), atol=0, rtol=0)


def test_a_plus_in_an_option_of_a_uri_is_a_plus() -> None:
    uri = "vlm:models/new?question=A+B or A%2BB, 100%25?"
    _, options = split_options(uri, uri.removeprefix("vlm:"), ("question",))
    assert options == {"question": "A+B or A+B, 100%?"}


def test_a_file_is_embedded_with_the_pictures_of_its_architectures_weights(
    tiny_arch: str, tiny_model: Any, tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2, merge_preprocess_dict

    said = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0), "interpolation": "bilinear", "resize_mode": "squash"}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, tiny_arch, {"planted": {"url": "", **said}})
    torch.save(tiny_model.state_dict(), tmp_path / "net.pt")
    uri = f"open_clip:{tiny_arch}@{tmp_path / 'net.pt'}"
    found = open_scorer(uri, pictures, device="cpu", cache=None, batch_size=4)
    settings = merge_preprocess_dict({"size": tiny_model.visual.image_size}, said)
    transform = image_transform_v2(PreprocessCfg(**settings), is_train=False)
    images = [Image.open(io.BytesIO(blob)).convert("RGB") for blob in pictures.blobs]
    with torch.no_grad():
        embedded = tiny_model.encode_image(torch.stack([transform(image) for image in images]), normalize=True)
        words = tiny_model.encode_text(open_clip.get_tokenizer(tiny_arch)(PROMPTS), normalize=True)
    cosines = found.similarity([[prompt] for prompt in PROMPTS])
    np.testing.assert_allclose(cosines, embedded @ words.T, atol=1e-5)
