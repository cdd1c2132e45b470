"""Learned prompt arrays and calibrated projections: each does what its formula says, and takes planted leanings out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hf_world import save_folder
from model_world import Pictures

from fairgate.ground.errors import ModelError
from fairgate.models import AttributeData, embed_texts, fit_projection, fit_prompt_array, open_scorer
from fairgate.models.checkpoints import find_device
from fairgate.models.debiased import PromptArray
from fairgate.models.prompt_tokens import Lesson, learn_array, prefixed

ROOT = Path(__file__).parents[2]
BASE = ROOT / "build/portraits/checkpoints/base"
ORIGIN = f"open_clip:local-dir:{BASE}"
PAIR = ("a photo of a male doctor", "a photo of a female doctor")

needs_world = pytest.mark.skipif(not BASE.is_dir(), reason="no embedded checkpoints here: run `dvc pull`")


def saved(folder: Path, mitigation: Any, origin: str) -> str:
    file = folder / "mitigation.json"
    file.write_text(mitigation.model_dump_json())
    return f"debiased:{file}?model={origin}"


def array_of(model: Any, array: Any, **about: str) -> PromptArray:
    said = {
        "attribute": "gender",
        "release": "faces@v1",
        "fingerprint": "f",
        "kept": "jobs@v1",
        "kept_fingerprint": "g",
    }
    tokens = tuple(tuple(float(number) for number in token) for token in array)
    return PromptArray(origin=model.fingerprint, prompts=("a boss",), array=tokens, **{**said, **about})


@needs_world
def test_an_array_of_words_is_these_words_in_front_of_the_prompt(pictures: Pictures, tmp_path: Path) -> None:
    plain: Any = open_scorer(ORIGIN, pictures, device="cpu")
    encoder = plain.loaded()
    ids = encoder.tokens(["a photo of a chef"])["ids"][0, 1:4]
    model: Any = open_scorer(
        saved(tmp_path, array_of(plain, encoder.words(ids).tolist()), ORIGIN), pictures, device="cpu"
    )
    np.testing.assert_allclose(
        model.text_embeddings(["a chef", "a doctor"]),
        plain.text_embeddings(["a photo of a chef", "a photo of a doctor"]),
        atol=1e-5,
    )
    np.testing.assert_array_equal(model.image_embeddings(), plain.image_embeddings())
    assert model.fingerprint != plain.fingerprint
    with pytest.raises(ModelError, match="no room for 3 learned tokens"):
        model.text_embeddings(["a photo of a chef " * 5])


def test_an_array_in_front_of_a_clip_of_transformers_changes_texts_and_no_pictures(
    pictures: Pictures, tmp_path: Path
) -> None:
    origin = f"hf:{save_folder('clip', tmp_path / 'clip')}"
    plain: Any = open_scorer(origin, pictures, device="cpu")
    encoder = plain.loaded()
    width = encoder.words.embedding_dim
    word = encoder.words(encoder.tokens(["a"])["ids"][0, 1:2]).tolist()
    model: Any = open_scorer(saved(tmp_path, array_of(plain, word), origin), pictures, device="cpu")
    np.testing.assert_allclose(model.text_embeddings(["chef"]), plain.text_embeddings(["a chef"]), atol=1e-5)
    np.testing.assert_array_equal(model.image_embeddings(), plain.image_embeddings())
    wrong: Any = open_scorer(saved(tmp_path, array_of(plain, [[0.0] * (width + 1)]), origin), pictures, device="cpu")
    with pytest.raises(ModelError, match=rf"Sizes of tensors must match .* {width} but got size 33"):
        wrong.text_embeddings(["a chef"])


def test_a_text_tower_that_takes_no_tokens_is_refused(pictures: Pictures, tmp_path: Path) -> None:
    origin = f"hf:{save_folder('siglip', tmp_path / 'siglip')}"
    plain: Any = open_scorer(origin, pictures, device="cpu")
    model: Any = open_scorer(saved(tmp_path, array_of(plain, [[0.0]]), origin), pictures, device="cpu")
    with pytest.raises(ModelError, match="takes no learned tokens"):
        model.text_embeddings(["a chef"])


def planted(model: Any, seed: int) -> Lesson:
    """Pictures near the text of what they show and near that of one gender, which they go with by nothing else."""
    rng = np.random.default_rng(seed)
    jobs = ("a photo of a doctor", "a photo of a chef", "a photo of a pilot")
    texts = model.text_embeddings([*jobs, "a photo of a male person", "a photo of a female person"]).astype(np.float64)
    job, group = np.arange(120) % 3, np.arange(120) // 3 % 2
    raw = texts[job] + 0.5 * texts[3 + group] + rng.normal(0, 0.03, (120, texts.shape[1]))
    images = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    return Lesson(images, group, jobs, images, jobs, job)


@needs_world
def test_a_learned_array_tells_less_of_the_group_and_still_finds_what_is_shown(pictures: Pictures) -> None:
    plain: Any = open_scorer(ORIGIN, pictures, device="cpu")
    encoder, lesson = plain.loaded(), planted(plain, 0)
    before = encoder.words.weight.detach().clone()
    array = learn_array(encoder, lesson, "x", steps=100, rate=0.02, weight=10.0)
    np.testing.assert_array_equal(encoder.words.weight.detach().numpy(), before.numpy())
    assert not encoder.words._forward_hooks, "nothing is left of the training"
    fresh = planted(plain, 1)  # other pictures of the same planting

    def gap_and_right(texts: np.ndarray) -> tuple[float, float]:
        cosines = fresh.images.astype(np.float64) @ texts.T.astype(np.float64)
        gap = np.abs(cosines[fresh.groups == 0].mean(axis=0) - cosines[fresh.groups == 1].mean(axis=0)).mean()
        return float(gap), float((cosines.argmax(axis=1) == fresh.caption_of).mean())

    told = plain.text_embeddings(list(lesson.prompts))
    learned = replace(encoder, encode_tokens=prefixed(encoder, array.tolist(), "x"))
    now = embed_texts(learned, list(lesson.prompts), find_device("cpu"), "x")
    (gap, right), (less, still) = gap_and_right(told), gap_and_right(now)
    assert gap > 0.05, "planted"
    assert less < gap / 2
    assert min(right, still) > 0.9


def test_an_array_is_refused_on_both_releases_that_it_was_fitted_on(
    local_dir: Path, pictures: Pictures, tmp_path: Path
) -> None:
    origin = f"open_clip:local-dir:{local_dir}"
    plain: Any = open_scorer(origin, pictures, device="cpu")
    width = plain.loaded().words.embedding_dim
    for key, option in {"fingerprint": "--data", "kept_fingerprint": "--keep"}.items():
        about = {key: pictures.fingerprint}
        with pytest.raises(ModelError, match="whose pictures judge here") as caught:
            open_scorer(saved(tmp_path, array_of(plain, [[0.0] * width], **about), origin), pictures)
        assert f"{option} ..." in caught.value.remedy, "the option that named this release"
    pictures.name = "jobs"
    with pytest.raises(ModelError, match="fitted on jobs@v1"):
        open_scorer(saved(tmp_path, array_of(plain, [[0.0] * width]), origin), pictures)


def test_what_teaches_nothing_is_refused(local_dir: Path, pictures: Pictures) -> None:
    model = open_scorer(f"open_clip:local-dir:{local_dir}", pictures, device="cpu")
    one = AttributeData(model, np.zeros(10, dtype=np.int64), "faces@v1", "f")
    with pytest.raises(ModelError, match=r"1 group\(s\), 2 caption\(s\) and 2 prompt\(s\) teach nothing"):
        fit_prompt_array(one, one, attribute="gender", prompts=["a", "b"], captions=["a", "b"])
    other = AttributeData(SimpleNamespace(uri="table:x"), one.codes, "faces@v1", "f")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="no embeddings"):
        fit_prompt_array(other, one, attribute="gender", prompts=["a", "b"], captions=["a", "b"])


@needs_world
def test_a_calibrated_projection_is_chuangs_and_makes_pairs_alike(pictures: Pictures, tmp_path: Path) -> None:
    plain: Any = open_scorer(ORIGIN, pictures, device="cpu")
    named = ["a photo of a male person", "a photo of a female person"]
    mitigation = fit_projection(ORIGIN, named, pairs=[PAIR], strength=1000.0, device="cpu")
    model: Any = open_scorer(saved(tmp_path, mitigation, ORIGIN), pictures, device="cpu")
    spurious, pair = (plain.text_embeddings(list(texts)).astype(np.float64) for texts in (named, PAIR))
    width = spurious.shape[1]
    outside = np.eye(width) - spurious.T @ np.linalg.solve(spurious @ spurious.T, spurious)
    far = (pair[0] - pair[1])[:, None]
    projection = outside @ np.linalg.inv(np.eye(width) + 1000.0 * far @ far.T)  # get_proj_matrix and get_M of debias_vl
    expected = plain.text_embeddings(["a photo of a doctor"]).astype(np.float64) @ projection.T
    np.testing.assert_allclose(
        model.text_embeddings(["a photo of a doctor"]), expected / np.linalg.norm(expected), atol=1e-4
    )
    one, other = model.text_embeddings(list(PAIR)).astype(np.float64)
    uncalibrated: Any = open_scorer(saved(tmp_path, fit_projection(ORIGIN, named), ORIGIN), pictures, device="cpu")
    plain_one, plain_other = uncalibrated.text_embeddings(list(PAIR)).astype(np.float64)
    assert one @ other > 0.999 > plain_one @ plain_other
    np.testing.assert_allclose(model.image_embeddings(), plain.image_embeddings(), atol=1e-6)
    assert "calibrated by 1 pair(s)" in model.note
