"""BLIP's and BLIP-2's heads for matching give what the library gives, and say what each can do."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matching_world import KINDS, QUERIES, save_matcher
from model_world import PROMPTS, Pictures
from peft_world import save_adapter
from PIL import Image

from fairgate.ground.errors import CapabilityError, ModelError
from fairgate.models import EmbeddingCache, Floats, fit_projection, open_scorer, require_capability
from fairgate.models.checkpoints import MATCHERS


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("matchers")
    return {kind: save_matcher(kind, home / kind) for kind in KINDS}


def opened(uri: str, pictures: Pictures, cache: EmbeddingCache | None = None) -> Any:
    return open_scorer(uri, pictures, device="cpu", cache=cache)


def library(kind: str, folder: Path, pictures: Pictures, itm: bool) -> Floats:
    """What the library's own forward pass says of four pictures and each prompt, one pair at a time: (4, prompts)."""
    import torch
    import transformers

    model = getattr(transformers, MATCHERS[kind]).from_pretrained(folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found = np.empty((4, len(PROMPTS)))
    for row, blob in enumerate(pictures.blobs[:4]):
        pixels = processor(images=Image.open(io.BytesIO(blob)), return_tensors="pt")["pixel_values"]
        for column, prompt in enumerate(PROMPTS):
            read = tokenizer([prompt], return_tensors="pt")
            given = {"pixel_values": pixels, "input_ids": read["input_ids"], "attention_mask": read["attention_mask"]}
            with torch.no_grad():
                if kind == "blip":
                    said = model(**given, use_itm_head=itm).itm_score
                else:
                    said = model(**given, use_image_text_matching_head=itm).logits_per_image
            found[row, column] = said[0, 1] - said[0, 0] if itm else said[0, 0]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_match_is_as_likely_as_the_library_says(kind: str, folders: dict[str, Path], pictures: Pictures) -> None:
    odds = library(kind, folders[kind], pictures, itm=True)
    model = opened(f"matching:{folders[kind]}?head=itm", pictures)
    assert np.ptp(odds, axis=0).max() > 0.1  # the pictures matter, a thousand times more than rounding
    np.testing.assert_allclose(model.log_likelihoods(PROMPTS)[:4], odds, atol=1e-5)
    shares = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(model.log_probabilities(PROMPTS)[:4]), shares, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_similarities_are_the_librarys(kind: str, folders: dict[str, Path], pictures: Pictures) -> None:
    cosines = library(kind, folders[kind], pictures, itm=False)
    model = opened(f"matching:{folders[kind]}?head=itc", pictures)
    assert np.ptp(cosines, axis=0).max() > 0.01
    np.testing.assert_allclose(model.similarity([[prompt] for prompt in PROMPTS])[:4], cosines, atol=2e-6)


def test_averaged_prompts_are_compared_with_the_nearest_of_a_pictures_vectors(
    folders: dict[str, Path], pictures: Pictures
) -> None:
    model = opened(f"matching:{folders['blip-2']}?head=itc", pictures)
    texts = model.text_embeddings(PROMPTS).astype(np.float64)
    mean = texts.mean(axis=0) / np.linalg.norm(texts.mean(axis=0))
    vectors = model.image_embeddings().astype(np.float64).reshape(len(pictures), QUERIES, -1) * np.sqrt(QUERIES)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=2), 1, atol=1e-6)
    np.testing.assert_allclose(model.similarity([PROMPTS])[:, 0], (vectors @ mean).max(axis=1), atol=1e-6)


def test_each_head_is_a_model_of_its_own_with_its_own_capability(folders: dict[str, Path], pictures: Pictures) -> None:
    itm, itc = (opened(f"matching:{folders['blip']}?head={head}", pictures) for head in ("itm", "itc"))
    assert itm.fingerprint != itc.fingerprint
    require_capability(itm, "log_probabilities", "the probe")
    require_capability(itc, "similarity", "the probe")
    for model, lacks in ((itm, "similarity"), (itc, "log_probabilities")):
        with pytest.raises(CapabilityError, match=f"lacks the capability '{lacks}'"):
            require_capability(model, lacks, "the probe")


@pytest.mark.parametrize("options", ["", "?head=match"])
def test_a_uri_says_which_head_judges(options: str, folders: dict[str, Path], pictures: Pictures) -> None:
    with pytest.raises(ModelError, match="which head") as caught:
        opened(f"matching:{folders['blip']}{options}", pictures)
    assert f"matching:{folders['blip']}?head=itm" in str(caught.value.remedy)


@pytest.mark.parametrize("head", ["itm", "itc"])
def test_a_text_that_is_too_long_is_refused_and_not_cut(
    head: str, folders: dict[str, Path], pictures: Pictures
) -> None:
    model = opened(f"matching:{folders['blip']}?head={head}", pictures)
    text = "a photo of a doctor " * 13
    with pytest.raises(ModelError, match="has 67 tokens, and 64"):
        model.log_probabilities([text]) if head == "itm" else model.similarity([[text]])


def test_what_was_computed_is_cached(folders: dict[str, Path], pictures: Pictures, cache: EmbeddingCache) -> None:
    uri = f"matching:{folders['blip-2']}?head=itm"
    first = opened(uri, pictures, cache).log_probabilities(PROMPTS)
    read = pictures.handed_out
    np.testing.assert_array_equal(opened(uri, pictures, cache).log_probabilities(PROMPTS), first)
    assert pictures.handed_out == read == len(pictures)


def test_another_tokenizer_is_seen_and_the_checkpoint_also_judged_with_the_old_one(
    folders: dict[str, Path], tmp_path: Path, pictures: Pictures
) -> None:
    other = Path(shutil.copytree(folders["blip-2"], tmp_path / "other"))
    path = other / "tokenizer.json"
    text = path.read_text(encoding="utf-8").replace('"doctor": 6', '"nurse": 6').replace('"nurse": 7', '"doctor": 7')
    path.write_text(text, encoding="utf-8")
    old, new = (opened(f"matching:{folder}?head=itc", pictures) for folder in (folders["blip-2"], other))
    assert old.tokenizer != new.tokenizer
    asked = [["a photo of a doctor"], ["a photo of a chef"]]
    again = new.reading_as(old, tokenizer=True, preprocessing=False)
    np.testing.assert_array_equal(again.similarity(asked), old.similarity(asked))
    assert again.capabilities == {"similarity"}
    assert np.abs(new.similarity(asked) - old.similarity(asked)).max() > 1e-3


def test_an_adapter_is_merged_into_a_matcher(folders: dict[str, Path], tmp_path: Path, pictures: Pictures) -> None:
    from transformers import BlipForImageTextRetrieval

    model = BlipForImageTextRetrieval.from_pretrained(folders["blip"])
    save_adapter(model, tmp_path / "adapter", r=2, target_modules=["query"])
    base = f"matching:{folders['blip']}?head=itm"
    plain, adapted = (opened(uri, pictures) for uri in (base, f"peft:{tmp_path / 'adapter'}?base={base}"))
    assert np.abs(adapted.log_likelihoods(PROMPTS) - plain.log_likelihoods(PROMPTS)).max() > 1e-3
    assert adapted.fingerprint != plain.fingerprint


@pytest.mark.parametrize("kind", KINDS)
def test_a_mitigation_of_its_texts_is_judged_by_similarity_alone(
    kind: str, folders: dict[str, Path], tmp_path: Path, pictures: Pictures
) -> None:
    base = f"matching:{folders[kind]}?head=itc"
    path = tmp_path / "projection.json"
    path.write_text(fit_projection(base, ["a photo of a man"], device="cpu").model_dump_json())
    plain, changed = opened(base, pictures), opened(f"debiased:{path}?model={base}", pictures)
    assert changed.capabilities == {"similarity"}
    assert changed.fingerprint != plain.fingerprint
    asked = [["a photo of a doctor"], ["a photo of a chef"]]
    assert np.abs(changed.similarity(asked) - plain.similarity(asked)).max() > 1e-3
    seen = changed.text_embeddings(["a photo of a doctor"])[0]
    assert abs(float(seen @ plain.text_embeddings(["a photo of a man"])[0])) < 1e-6
