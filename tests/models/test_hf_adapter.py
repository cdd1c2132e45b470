"""Scores of transformers folders are the library's own, and folders that do not fit are refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hf_world import TEXT, letter_tokenizer, save_folder, tiny_tokenizer
from model_world import PROMPTS, Pictures, encoded, picture
from PIL import Image
from safetensors.torch import load_file, save_file

from fairgate.ground.errors import ModelError
from fairgate.models import EmbeddingCache, count_weights, open_scorer


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: save_folder(kind, tmp_path_factory.mktemp("hf") / kind) for kind in ("clip", "siglip")}


@pytest.fixture
def clip_folder(originals: dict[str, Path], tmp_path: Path) -> Path:
    folder = tmp_path / "clip"
    folder.mkdir()
    for path in originals["clip"].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_a_folder_scores_as_the_library_does(
    kind: str, originals: dict[str, Path], pictures: Pictures, cache: EmbeddingCache
) -> None:
    from transformers import AutoImageProcessor, AutoModel

    folder = originals[kind]
    scorer = open_scorer(f"hf:{folder.name}", pictures, device="cpu", cache=cache, base=folder.parent, batch_size=4)
    model = AutoModel.from_pretrained(folder).eval()
    images = [Image.open(io.BytesIO(blob)) for blob in pictures.blobs]
    pixels = AutoImageProcessor.from_pretrained(folder)(images=images, return_tensors="pt")["pixel_values"]
    tokens = tiny_tokenizer()(PROMPTS, padding="max_length", max_length=12, return_tensors="pt")
    tokens = tokens if kind == "clip" else {"input_ids": tokens["input_ids"]}
    tokens = {name: tokens[name] for name in ("input_ids", "attention_mask") if name in tokens}
    with torch.no_grad():
        expected = model(pixel_values=pixels, **tokens)
    np.testing.assert_allclose(scorer.image_embeddings(), expected.image_embeds, atol=1e-5)
    np.testing.assert_allclose(scorer.text_embeddings(PROMPTS), expected.text_embeds, atol=1e-5)
    np.testing.assert_allclose(scorer.logits(PROMPTS), expected.logits_per_image, atol=1e-4)
    assert (scorer.logits(PROMPTS) < 3).all() == (kind == "siglip")  # its bias of -5 is in
    again = open_scorer(f"hf:{folder}", pictures, device="cpu", cache=cache)
    np.testing.assert_array_equal(again.logits(PROMPTS), scorer.logits(PROMPTS))
    assert again.fingerprint == scorer.fingerprint
    assert count_weights(scorer) == sum(value.numel() for value in load_file(folder / "model.safetensors").values())


@pytest.mark.parametrize("kind", ["siglip2", "chinese_clip", "align"])
def test_a_family_with_inputs_of_its_own_scores_as_the_library_does(kind: str, tmp_path: Path) -> None:
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    folder = save_folder(kind, tmp_path / kind)
    shapes = Pictures([encoded(picture(seed, (24 + 16 * seed, 40))) for seed in range(4)])  # NaFlex keeps each one's
    scorer: Any = open_scorer(f"hf:{folder}", shapes, device="cpu", cache=None, batch_size=3)
    model = AutoModel.from_pretrained(folder).eval()
    images = [Image.open(io.BytesIO(blob)) for blob in shapes.blobs]
    pixels = AutoImageProcessor.from_pretrained(folder)(images=images, return_tensors="pt")
    words = AutoTokenizer.from_pretrained(folder)
    naflex = kind == "siglip2"
    tokens = (
        words(PROMPTS, padding="max_length", max_length=64, truncation=True, return_tensors="pt") if naflex else None
    )
    tokens = {"input_ids": tokens["input_ids"]} if tokens else words(PROMPTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = model(**pixels, **tokens)
    np.testing.assert_allclose(scorer.image_embeddings(), expected.image_embeds, atol=1e-5)
    np.testing.assert_allclose(scorer.text_embeddings(PROMPTS), expected.text_embeds, atol=1e-5)
    np.testing.assert_allclose(scorer.logits(PROMPTS), expected.logits_per_image, atol=1e-4)
    assert np.ptp(scorer.logits(PROMPTS), axis=0).min() > 0.01, "pictures make a difference"
    assert np.ptp(scorer.logits(PROMPTS), axis=1).min() > 0.01, "and so do prompts"


def test_a_siglip_2_is_given_lower_case_whether_its_tokenizer_lowers_or_not(tmp_path: Path, pictures: Pictures) -> None:
    """Letters are its pieces here: a capital is an unknown one. As published, fixed sizes have Gemma's tokenizer."""
    folders = {kind: save_folder(kind, tmp_path / kind) for kind in ("siglip2", "siglip")}
    letter_tokenizer("GemmaTokenizer").save_pretrained(folders["siglip"])
    edit(folders["siglip"] / "config.json", text_config={**TEXT, "vocab_size": 32})
    grown = load_file(folders["siglip"] / "model.safetensors")["text_model.embeddings.token_embedding.weight"]
    rewrite(
        folders["siglip"] / "model.safetensors", **{"text_model.embeddings.token_embedding.weight": grown.repeat(2, 1)}
    )
    for folder in folders.values():
        scorer: Any = open_scorer(f"hf:{folder}", pictures, device="cpu", cache=None)
        assert scorer.indistinct([["a Doc"], ["a doc"], ["a dot"]]) == [(0, 1)]
    assert scorer.preparation == "hf/1 lower-cased", "it scored capitals otherwise before"


def test_a_picture_of_more_patches_than_memory_is_refused(tmp_path: Path, pictures: Pictures) -> None:
    folder = save_folder("siglip2", tmp_path / "siglip2")
    edit(folder / "preprocessor_config.json", max_num_patches=10**9)
    with pytest.raises(ModelError, match=r"max_num_patches.*at most 8,192 is built"):
        open_scorer(f"hf:{folder}", pictures, device="cpu", cache=None)
    edit(folder / "preprocessor_config.json", max_num_patches=8000, patch_size=512)
    with pytest.raises(ModelError, match="sets 'patch_size' to 512; at most 64"):
        open_scorer(f"hf:{folder}", pictures, device="cpu", cache=None).log_probabilities(PROMPTS)


def test_towers_that_do_not_meet_are_an_error(tmp_path: Path, pictures: Pictures) -> None:
    folder = save_folder("align", tmp_path / "align")
    edit(folder / "config.json", projection_dim=8)
    weights = load_file(folder / "model.safetensors")
    rewrite(
        folder / "model.safetensors",
        **{
            name: weights[f"text_projection.{name[16:]}"][:8]
            for name in ("text_projection.weight", "text_projection.bias")
        },
    )
    with pytest.raises(ModelError, match="pictures have 12 dimensions and texts 8"):
        open_scorer(f"hf:{folder}", pictures, device="cpu", cache=None).log_probabilities(PROMPTS)


def test_a_flava_scores_as_its_contrastive_pretraining_does(tmp_path: Path, pictures: Pictures) -> None:
    from transformers import AutoImageProcessor, AutoTokenizer, FlavaForPreTraining

    folder = save_folder("flava", tmp_path / "flava")
    scorer: Any = open_scorer(f"hf:{folder}", pictures, device="cpu", batch_size=4)
    model = FlavaForPreTraining.from_pretrained(folder).eval()
    images = [Image.open(io.BytesIO(blob)) for blob in pictures.blobs]
    pixels = AutoImageProcessor.from_pretrained(folder)(images=images, return_tensors="pt")["pixel_values"]
    words = AutoTokenizer.from_pretrained(folder)
    expected = []
    with torch.no_grad():
        for prompt in PROMPTS:  # it pairs each image with a text
            given = words([prompt] * len(images), return_tensors="pt")
            given = {name: given[name] for name in ("input_ids", "attention_mask")}
            hidden = torch.ones(len(images), 4, dtype=torch.long)
            out = model(
                pixel_values=pixels, bool_masked_pos=torch.zeros_like(hidden).bool(), **given, return_loss=False
            )
            expected.append(out.contrastive_logits_per_image[:, 0])
    np.testing.assert_allclose(scorer.logits(PROMPTS), torch.stack(expected, dim=1), atol=1e-4)


def test_shards_score_as_the_whole_does(originals: dict[str, Path], clip_folder: Path, pictures: Pictures) -> None:
    whole = load_file(clip_folder / "model.safetensors")
    names = sorted(whole)
    halves = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for name, members in halves.items():
        save_file({member: whole[member] for member in members}, clip_folder / name, metadata={"format": "pt"})
    weight_map = {member: name for name, members in halves.items() for member in members}
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (clip_folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (clip_folder / "model.safetensors").unlink()
    sharded = open_scorer(f"hf:{clip_folder}", pictures, device="cpu", cache=None).logits(PROMPTS)
    np.testing.assert_array_equal(
        sharded, open_scorer(f"hf:{originals['clip']}", pictures, device="cpu", cache=None).logits(PROMPTS)
    )
    (clip_folder / "model-2.safetensors").unlink()
    with pytest.raises(ModelError, match="the file does not exist"):
        open_scorer(f"hf:{clip_folder}", pictures, device="cpu", cache=None)


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def rewrite(path: Path, **tensors: torch.Tensor | None) -> None:
    kept = {**load_file(path), **tensors}
    save_file({name: value for name, value in kept.items() if value is not None}, path, metadata={"format": "pt"})


def test_an_index_that_names_no_shards_is_an_error(clip_folder: Path, pictures: Pictures) -> None:
    (clip_folder / "model.safetensors").unlink()
    for names in ([], ["model.safetensors"], {}, {"a": "../model.safetensors"}, None):
        (clip_folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
        with pytest.raises(ModelError, match="does not name safetensors shards"):
            open_scorer(f"hf:{clip_folder}", pictures, device="cpu", cache=None)


def test_weights_that_do_not_fit_are_refused_and_never_made_up(clip_folder: Path, pictures: Pictures) -> None:
    weights = clip_folder / "model.safetensors"
    whole = weights.read_bytes()
    bias = "text_model.final_layer_norm.bias"
    cases: list[tuple[dict[str, torch.Tensor | None], str]] = [
        ({bias: None}, f"1 tensors are missing: {bias}"),
        ({"head.weight": torch.zeros(2)}, "1 are not of this architecture: head.weight"),
        ({"text_projection.weight": torch.zeros(16, 8)}, r"\(expected \(16, 32\), found \(16, 8\)\)"),
        ({bias: torch.full((32,), float("nan"))}, f"NaN or infinite weights: {bias}"),
    ]
    for change, problem in cases:
        weights.write_bytes(whole)
        rewrite(weights, **change)
        with pytest.raises(ModelError, match=problem) as caught:
            open_scorer(f"hf:{clip_folder}", pictures, device="cpu", cache=None).logits(PROMPTS)
        assert str(clip_folder) in str(caught.value.where)


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("config.json", {"auto_map": {"AutoModel": "mine.Model"}}, "names code of its own"),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["mine.T", None]}}, "names code of its own"),
        ("config.json", {"model_type": "resnet"}, "of type 'resnet'"),
        ("config.json", {"text_config": [{}]}, "cannot be loaded"),
        ("tokenizer.json", {"model": {"type": "BPE", "merges": [1]}}, "cannot be loaded"),
        ("config.json", {"transformers_weights": "other.safetensors"}, "other weights than the model.s own"),
        ("config.json", None, "holds no config.json"),
        ("preprocessor_config.json", None, "how images are prepared"),
        ("tokenizer.json", None, "holds no tokenizer"),
        ("model.safetensors", None, "only pickled weights .pytorch_model.bin."),
        ("preprocessor_config.json", {"image_processor_type": "Unheard"}, "prepared by a Unheard, which fairgate does"),
        (
            "preprocessor_config.json",
            {"image_processor_type": "BitFeatureExtractor"},
            "cannot be loaded",
        ),
    ],
)
def test_a_folder_that_cannot_be_trusted_or_read_is_an_error(
    name: str, change: dict[str, Any] | None, problem: str, clip_folder: Path, pictures: Pictures
) -> None:
    (clip_folder / "pytorch_model.bin").write_bytes(b"pickle")
    if change is None:
        (clip_folder / name).unlink()
    else:
        edit(clip_folder / name, **change)
    with pytest.raises(ModelError, match=problem) as caught:
        open_scorer(f"hf:{clip_folder}", pictures, device="cpu", cache=None).logits(PROMPTS)
    assert caught.value.remedy


def test_a_missing_folder_and_truncated_weights_are_errors(clip_folder: Path, pictures: Pictures) -> None:
    with pytest.raises(ModelError, match="did you mean 'clip'"):
        open_scorer("hf:clipp", pictures, device="cpu", cache=None, base=clip_folder.parent)
    weights = clip_folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelError, match="truncated or damaged"):
        open_scorer(f"hf:{clip_folder}", pictures, device="cpu", cache=None)
