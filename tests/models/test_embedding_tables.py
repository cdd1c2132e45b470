"""`embeddings:` tables: two towers that someone else computed, matched to images and prompts or refused."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from model_world import PROMPTS, Pictures

from fairgate.ground.errors import ScoresError
from fairgate.models import open_scorer

RNG = np.random.default_rng(0)
IMAGES, TEXTS = RNG.normal(size=(10, 4)).round(6), RNG.normal(size=(3, 4)).round(6)
DIMENSIONS = ["0", "1", "2", "3"]


def write(folder: Path, name: str, keys: dict[str, Sequence[object]], vectors: np.ndarray, names: list[str]) -> None:
    table = {**keys, **{column: vectors[:, at].tolist() for at, column in enumerate(names)}}
    folder.mkdir(exist_ok=True)
    if name.endswith(".parquet"):
        pq.write_table(pa.table({key: list(column) for key, column in table.items()}), folder / name)
        return
    with (folder / name).open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([tuple(table), *zip(*table.values(), strict=True)])


def tables(
    folder: Path, pictures: Pictures, kind: str = ".csv", *, texts: np.ndarray = TEXTS, names: list[str] = DIMENSIONS
) -> None:
    index = pictures.index
    keys = {"set_id": list(index.set_id), "member": list(index.member)}
    write(folder, f"images{kind}", keys, IMAGES, DIMENSIONS)
    write(folder, f"texts{kind}", {"text": list(PROMPTS)}, texts, names)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_cosines_and_probabilities_are_those_of_the_tables(kind: str, tmp_path: Path, pictures: Pictures) -> None:
    tables(tmp_path / "alip", pictures, kind)
    model = open_scorer("embeddings:alip?logit_scale=100", pictures, base=tmp_path)
    cosines = unit(IMAGES) @ unit(TEXTS).T
    np.testing.assert_allclose(model.similarity([[prompt] for prompt in PROMPTS]), cosines, atol=1e-12)
    np.testing.assert_allclose(model.similarity([PROMPTS])[:, 0], unit(IMAGES) @ unit(unit(TEXTS).mean(axis=0)))
    odds = np.exp(100 * cosines)
    np.testing.assert_allclose(np.exp(model.log_probabilities(PROMPTS)), odds / odds.sum(axis=1, keepdims=True))
    assert (model.precision, model.device) == ("precomputed", "none")


def test_the_order_of_the_columns_is_not_that_of_the_dimensions(tmp_path: Path, pictures: Pictures) -> None:
    tables(tmp_path / "one", pictures)
    tables(tmp_path / "other", pictures, texts=TEXTS[:, ::-1], names=DIMENSIONS[::-1])
    one, other = (open_scorer(f"embeddings:{name}", pictures, base=tmp_path) for name in ("one", "other"))
    np.testing.assert_array_equal(one.similarity([PROMPTS]), other.similarity([PROMPTS]))
    assert one.fingerprint != other.fingerprint


def test_texts_of_one_vector_are_not_told_apart(tmp_path: Path, pictures: Pictures) -> None:
    tables(tmp_path / "same", pictures, texts=np.array([TEXTS[0], 2 * TEXTS[0], TEXTS[2]]))
    model = open_scorer("embeddings:same", pictures, base=tmp_path)
    assert model.indistinct([[prompt] for prompt in PROMPTS]) == [(0, 1)]


@pytest.mark.parametrize(
    ("break_it", "problem", "remedy"),
    [
        (
            lambda folder: (folder / "texts.csv").unlink(),
            "no tables of texts",
            "name a folder with texts.parquet or texts.csv",
        ),
        (
            lambda folder: (folder / "images.parquet").write_bytes(b""),
            "two tables of images",
            "one of them",
        ),
        (
            lambda folder: write(folder, "texts.csv", {"text": list(PROMPTS)}, TEXTS, ["0", "1", "2", "x"]),
            "images and texts have other dimensions: '3', 'x'",
            "name the columns of the dimensions alike",
        ),
        (
            lambda folder: write(folder, "texts.csv", {"text": list(PROMPTS)}, 0 * TEXTS, DIMENSIONS),
            "3 embeddings are all zeros",
            "compute these embeddings again",
        ),
        (
            lambda folder: write(folder, "texts.csv", {"prompt": list(PROMPTS)}, TEXTS, DIMENSIONS),
            "no column holds the texts",
            "add the column `text`",
        ),
        (
            lambda folder: write(folder, "texts.csv", {"text": [PROMPTS[0]] * 3}, TEXTS, DIMENSIONS),
            "texts are more than once in the table",
            "keep one row a text",
        ),
    ],
)
def test_tables_that_do_not_fit_are_refused(
    break_it: object, problem: str, remedy: str, tmp_path: Path, pictures: Pictures
) -> None:
    tables(tmp_path / "t", pictures)
    break_it(tmp_path / "t")  # type: ignore[operator]
    with pytest.raises(ScoresError) as refused:
        open_scorer("embeddings:t", pictures, base=tmp_path)
    assert problem in refused.value.problem
    assert remedy in str(refused.value.remedy)


def test_a_prompt_without_a_row_and_a_missing_scale_are_refused(tmp_path: Path, pictures: Pictures) -> None:
    tables(tmp_path / "t", pictures)
    model = open_scorer("embeddings:t", pictures, base=tmp_path)
    with pytest.raises(ScoresError, match="no row for the prompt 'a photo of nobody'"):
        model.similarity([["a photo of nobody"]])
    with pytest.raises(ScoresError, match=r"append \?logit_scale=100"):
        model.log_probabilities(PROMPTS)


def test_a_row_that_is_there_twice_counts_once_and_is_told(tmp_path: Path, pictures: Pictures) -> None:
    tables(tmp_path / "t", pictures)
    whole = open_scorer("embeddings:t", pictures, base=tmp_path)
    rows = (tmp_path / "t" / "images.csv").read_text(encoding="utf-8")
    (tmp_path / "t" / "images.csv").write_text(rows + rows.splitlines()[1], encoding="utf-8")
    again = open_scorer("embeddings:t", pictures, base=tmp_path)
    assert again.repeats.tolist() == [1, *[0] * 9]
    np.testing.assert_array_equal(again.similarity([PROMPTS]), whole.similarity([PROMPTS]))
