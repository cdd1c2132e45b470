"""Two towers in ONNX give onnxruntime's own vectors, from two files or one, with texts and pictures as the URI says."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hf_world import tiny_tokenizer
from model_world import Pictures
from PIL import Image

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from onnx_world import SHOWN, SIDE, TOKENS, point_outside, save_onnx, tower_weights, towers_model

from fairgate.ground.errors import ModelError
from fairgate.models import local_paths, open_scorer

pytestmark = pytest.mark.usefixtures("sessions_here")
PROMPTS = ["a photo of a doctor", "a photo of a nurse", "person"]
HOW = f"processor=words&length={TOKENS}&logit_scale=5&logit_bias=-1&{SHOWN}"
APART, ONE = f"onnx:v.onnx?text=t.onnx&{HOW}", f"onnx:both.onnx?text=both.onnx&{HOW}"


@pytest.fixture
def towers(tmp_path: Path) -> Path:
    """Two towers, both in one file, and a tokenizer."""
    save_onnx(tmp_path / "v.onnx", towers_model("image"))
    save_onnx(tmp_path / "t.onnx", towers_model("text"))
    save_onnx(tmp_path / "both.onnx", towers_model("image", "text"))
    tiny_tokenizer().save_pretrained(tmp_path / "words")
    return tmp_path


def opened(uri: str, pictures: Pictures, base: Path) -> Any:
    return open_scorer(uri, pictures, device="cpu", base=base, batch_size=4)


def cosines(pictures: Pictures) -> np.ndarray:
    """What the towers make of pictures and PROMPTS, computed apart: (pictures, prompts)."""
    tables, rows = tower_weights(), []
    for blob in pictures.blobs:
        image = Image.open(io.BytesIO(blob)).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        rows.append(((np.asarray(image, np.float32) / 255 - [0.5, 0.4, 0.3]) / 0.25).mean(axis=(0, 1)))
    ids = tiny_tokenizer()(PROMPTS)["input_ids"]
    vectors = np.stack(rows) @ tables["colours"], np.stack([tables["words"][each].sum(axis=0) for each in ids])
    images, texts = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in vectors)
    return images @ texts.T


@pytest.mark.parametrize("uri", [APART, ONE], ids=["two-files", "one-file"])
def test_similarities_and_probabilities_are_those_of_the_two_graphs(uri: str, towers: Path, pictures: Pictures) -> None:
    scorer, expected = opened(uri, pictures, towers), cosines(pictures)
    np.testing.assert_allclose(scorer.similarity([[prompt] for prompt in PROMPTS]), expected, atol=1e-5)
    np.testing.assert_allclose(scorer.logits(PROMPTS), 5 * expected - 1, atol=1e-4)
    assert (scorer.device, scorer.preparation, scorer.logit_scale) == ("cpu", "onnx/1", 5.0)
    assert expected.std() > 1e-2  # pictures and texts matter


def test_a_fixed_batch_and_a_fixed_length_of_texts_are_kept(towers: Path, pictures: Pictures) -> None:
    save_onnx(towers / "t.onnx", towers_model("text", batch=2, length=TOKENS))
    scorer = opened(APART.replace(f"&length={TOKENS}", ""), pictures, towers)
    np.testing.assert_allclose(scorer.similarity([[each] for each in PROMPTS]), cosines(pictures), atol=1e-5)


def test_every_file_is_named_hashed_and_part_of_the_fingerprint(towers: Path, pictures: Pictures) -> None:
    model = towers_model("text")
    tensor = next(each for each in model.graph.initializer if each.name == "words")
    (towers / "t.bin").write_bytes(tensor.raw_data)
    point_outside(tensor, "t.bin")
    save_onnx(towers / "outside.onnx", model)
    uri = f"{APART.replace('t.onnx', 'outside.onnx')}&text_data=t.bin"
    assert set(local_paths(uri)) == {Path(name) for name in ("v.onnx", "outside.onnx", "t.bin", "words")}
    scorer = opened(uri, pictures, towers)
    np.testing.assert_allclose(scorer.similarity([[each] for each in PROMPTS]), cosines(pictures), atol=1e-5)
    found = [scorer.fingerprint]
    (towers / "t.bin").write_bytes(tower_weights(1)["words"].tobytes())
    found.append(opened(uri, pictures, towers).fingerprint)
    found += [opened(text, pictures, towers).fingerprint for text in (APART, APART.replace("scale=5", "scale=6"))]
    save_onnx(towers / "v.onnx", towers_model("image", seed=1))
    found.append(opened(APART, pictures, towers).fingerprint)
    assert len(set(found)) == len(found)


def test_texts_are_judged_with_the_baselines_tokenizer(towers: Path, pictures: Pictures) -> None:
    before = opened(APART, pictures, towers)
    path = towers / "words" / "tokenizer.json"
    tiny_tokenizer().save_pretrained(towers / "other")
    text = path.read_text(encoding="utf-8").replace('"doctor":6', '"doctor":7').replace('"nurse":7', '"nurse":6')
    text = text.replace('"doctor": 6', '"doctor": 7').replace('"nurse": 7', '"nurse": 6')
    (towers / "other" / "tokenizer.json").write_text(text, encoding="utf-8")
    after = opened(APART.replace("processor=words", "processor=other"), pictures, towers)
    assert (after.tokenizer != before.tokenizer, after.preprocessing == before.preprocessing) == (True, True)
    asked = [[prompt] for prompt in PROMPTS]
    np.testing.assert_array_equal(after.similarity(asked)[:, [1, 0]], before.similarity(asked)[:, [0, 1]])
    mixed = after.reading_as(before, tokenizer=True, preprocessing=False)
    np.testing.assert_array_equal(mixed.similarity(asked), before.similarity(asked))


REFUSED = {
    "no tokenizer": (APART.replace("processor=words&", ""), "what cuts texts into tokens", "&processor=FOLDER"),
    "no scale": (APART.replace("&logit_scale=5", ""), "what multiplies cosines", "&logit_scale=100"),
    "a scale of 0": (APART.replace("scale=5", "scale=0"), "logit_scale is '0'", "another number"),
    "labels": (f"{APART}&labels=labels.txt", "labels= is no option of two towers", "leave it out"),
    "no text tower": (
        f"onnx:v.onnx?labels=labels.txt&length=3&{SHOWN}",
        "length= is no option of a classifier",
        "&text=FILE",
    ),
    "towers exchanged": (APART.replace("v.onnx?text=t.onnx", "t.onnx?text=v.onnx"), "not an image tower", "pictures"),
    "a picture for a text": (APART.replace("text=t.onnx", "text=other.onnx"), "not a text tower", "input_ids"),
    "no such output": (f"{APART}&text_output=hidden", "no output 'hidden'", "&text_output=text_embeds"),
    "another length": (
        APART.replace("text=t.onnx", "text=fixed.onnx").replace(f"length={TOKENS}", "length=7"),
        "texts of 7 tokens",
        "&length=77",
    ),
    "no length": (APART.replace(f"&length={TOKENS}", ""), "how many tokens a text has", "&length=77"),
    "a folder without a tokenizer": (APART.replace("processor=words", "processor=empty"), "no tokenizer", "save"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_is_open_or_does_not_fit_is_refused_with_what_to_write(
    case: str, towers: Path, pictures: Pictures
) -> None:
    uri, problem, remedy = REFUSED[case]
    (towers / "empty").mkdir()
    save_onnx(towers / "other.onnx", towers_model("text", more="token_type_ids"))
    save_onnx(towers / "fixed.onnx", towers_model("text", length=TOKENS))
    with pytest.raises(ModelError, match=problem) as caught:
        opened(uri, pictures, towers).log_probabilities(PROMPTS)
    assert remedy in str(caught.value.remedy)
