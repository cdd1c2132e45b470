"""`scores:` tables: matched to images one to one, at a declared scale, or refused."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from model_world import PROMPTS, Pictures
from toy_repository import Toy

from fairgate.data import open_dataset
from fairgate.ground.errors import ModelError, ScoresError
from fairgate.models import open_scorer

DAMAGED = Path(__file__).parent / "damaged_codes.parquet"
"""A table with a page of which a byte was changed: a row's code names a text that there is not."""

COSINES = np.random.default_rng(0).uniform(0.1, 0.3, (10, 3)).round(6)


def columns(pictures: Pictures, values: np.ndarray, by: str = "set") -> dict[str, list[object]]:
    index = pictures.index
    keys = {"set_id": list(index.set_id), "member": list(index.member)} if by == "set" else {by: list(index.path)}
    return {**keys, **{prompt: list(values[:, number]) for number, prompt in enumerate(PROMPTS)}}


def write(path: Path, table: dict[str, list[object]], order: list[int] | None = None) -> Path:
    rows = list(zip(*table.values(), strict=True))
    if order is not None:
        rows = [rows[row] for row in order]
    if path.suffix == ".parquet":
        pq.write_table(pa.table({name: [row[k] for row in rows] for k, name in enumerate(table)}), path)
    else:
        with path.open("w", newline="") as handle:
            csv.writer(handle).writerows([tuple(table), *rows])
    return path


@pytest.mark.parametrize("name", ["scores.csv", "scores.parquet"])
@pytest.mark.parametrize("by", ["set", "image", "file", "path"])
def test_rows_in_any_order_find_their_images(name: str, by: str, tmp_path: Path, pictures: Pictures) -> None:
    write(tmp_path / name, columns(pictures, COSINES, by), order=[3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
    scorer = open_scorer(f"scores:{name}?values=cosine&logit_scale=100", pictures, cache=None, base=tmp_path)
    np.testing.assert_array_equal(scorer.similarity([[prompt] for prompt in PROMPTS]), COSINES)
    np.testing.assert_allclose(scorer.logits(PROMPTS), 100 * COSINES)
    assert (scorer.precision, scorer.device) == ("precomputed", "none")


@pytest.mark.parametrize("separator", [";", "\t"])
def test_semicolons_and_tabs_separate_columns_too(separator: str, tmp_path: Path, pictures: Pictures) -> None:
    table = write(tmp_path / "s.csv", columns(pictures, COSINES))
    lines = table.read_text().replace(",", separator).splitlines(keepends=True)
    table.write_text(
        "".join(
            [
                f'"of, two{separator}\n lines, indeed"{separator}{lines[0]}',
                *(f"x{separator}{line}" for line in lines[1:]),
            ]
        )
    )
    scorer = open_scorer("scores:s.csv?values=cosine", pictures, cache=None, base=tmp_path)
    np.testing.assert_array_equal(scorer.similarity([[prompt] for prompt in PROMPTS]), COSINES)


def test_a_header_of_two_separators_and_decimal_commas_name_their_remedy(tmp_path: Path, pictures: Pictures) -> None:
    table = write(tmp_path / "s.csv", columns(pictures, COSINES))
    table.write_text(table.read_text().replace(",", ";").replace("0.", "0,"))
    scorer = open_scorer("scores:s.csv?values=cosine", pictures, cache=None, base=tmp_path)
    with pytest.raises(ScoresError, match="decimals with a point"):
        scorer.similarity([PROMPTS])
    (tmp_path / "two.csv").write_text("set_id,member;score\n")
    with pytest.raises(ScoresError, match="commas and semicolons cut the header") as caught:
        open_scorer("scores:two.csv?values=cosine", pictures, cache=None, base=tmp_path)
    assert "quote the names" in (caught.value.remedy or "")


def test_logits_are_used_as_they_are(tmp_path: Path, pictures: Pictures) -> None:
    write(tmp_path / "s.csv", columns(pictures, 100 * COSINES))
    scorer = open_scorer("scores:s.csv?values=logit", pictures, cache=None, base=tmp_path)
    np.testing.assert_allclose(scorer.logits(PROMPTS[:2]), 100 * COSINES[:, :2])
    odds = np.exp(100 * COSINES)
    np.testing.assert_allclose(np.exp(scorer.log_probabilities(PROMPTS)), odds / odds.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(scorer.similarity([PROMPTS])[:, 0], 100 * COSINES.mean(axis=1))
    scaled = open_scorer("scores:s.csv?values=logit&logit_scale=100", pictures, cache=None, base=tmp_path)
    np.testing.assert_allclose(scaled.similarity([PROMPTS])[:, 0], COSINES.mean(axis=1))
    assert scaled.fingerprint != scorer.fingerprint


def test_probabilities_are_renormalised_over_the_prompts_asked(tmp_path: Path, pictures: Pictures) -> None:
    probabilities = np.tile([0.5, 0.3, 0.2], (10, 1))
    probabilities[4] = [0.0, 0.4, 0.6]
    write(tmp_path / "s.csv", columns(pictures, probabilities))
    scorer = open_scorer("scores:s.csv?values=probability", pictures, cache=None, base=tmp_path)
    found = np.exp(scorer.log_probabilities(PROMPTS[:2]))
    np.testing.assert_allclose(found[0], [0.625, 0.375])
    np.testing.assert_allclose(found[4], [0.0, 1.0], atol=1e-300)
    assert np.isfinite(scorer.logits(PROMPTS)).all()
    with pytest.raises(ScoresError, match=r"1 image has probability 0 .* '0002/dark'"):
        scorer.log_probabilities(PROMPTS[:1])


def test_extreme_logits_do_not_overflow(tmp_path: Path, pictures: Pictures) -> None:
    write(tmp_path / "s.csv", columns(pictures, np.tile([5000.0, 0.0, -5000.0], (10, 1))))
    scorer = open_scorer("scores:s.csv?values=logit", pictures, cache=None, base=tmp_path)
    np.testing.assert_array_equal(scorer.log_probabilities(PROMPTS)[0], [0.0, -5000.0, -10000.0])


def test_an_ensemble_ranks_images_as_averaged_embeddings_do(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    images, texts = (
        x / np.linalg.norm(x, axis=1, keepdims=True) for x in (random.normal(size=(10, 8)), random.normal(size=(3, 8)))
    )
    pictures = Pictures([bytes([row]) for row in range(10)])
    write(tmp_path / "s.csv", columns(pictures, images @ texts.T))
    scorer = open_scorer("scores:s.csv?values=cosine", pictures, cache=None, base=tmp_path)
    mean = texts.mean(axis=0)
    found = scorer.similarity([PROMPTS])[:, 0]
    np.testing.assert_allclose(found / np.linalg.norm(mean), images @ (mean / np.linalg.norm(mean)))


@pytest.mark.parametrize(
    ("query", "problem", "remedy"),
    [
        ("", "scale of the scores is not declared", r"\?values=cosine"),
        ("?values=percent", "'percent' is not a scale", "100 x cosine is a logit"),
        ("?value=cosine", "unknown or empty: 'value'", "did you mean 'values'"),
        ("?values=cosine&logit_scale=-3", "logit_scale is '-3', not a number from 1e-06", "another number"),
        ("?values=cosine&logit_scale=big", "logit_scale is 'big', not a number", "another number"),
    ],
)
def test_the_scale_must_be_declared(query: str, problem: str, remedy: str, tmp_path: Path, pictures: Pictures) -> None:
    write(tmp_path / "s.csv", columns(pictures, COSINES))
    with pytest.raises((ScoresError, ModelError), match=problem) as caught:
        open_scorer(f"scores:s.csv{query}", pictures, cache=None, base=tmp_path)
    assert caught.match(remedy)


def test_texts_are_told_apart_by_the_images_of_a_part_and_not_by_other_rows(tmp_path: Path, pictures: Pictures) -> None:
    table = columns(pictures, COSINES)
    table[PROMPTS[1]] = [table[PROMPTS[0]][row] + (row < 4) for row in range(10)]
    whole = open_scorer(f"scores:{write(tmp_path / 'scores.csv', table)}?values=logit", pictures)
    part = SimpleNamespace(folder=pictures.folder, index=pictures.index, release=pictures, rows=np.arange(4, 10))
    some = open_scorer(whole.uri, part)
    prompts = [[prompt] for prompt in PROMPTS[:2]]
    assert (whole.indistinct(prompts), some.indistinct(prompts)) == ([], [(0, 1)])


def test_cosines_without_a_scale_rank_and_refuse_to_be_logits(tmp_path: Path, pictures: Pictures) -> None:
    write(tmp_path / "s.csv", columns(pictures, COSINES))
    scorer = open_scorer("scores:s.csv?values=cosine", pictures, cache=None, base=tmp_path)
    assert scorer.similarity([PROMPTS]).shape == (10, 1)
    with pytest.raises(ScoresError, match="logit_scale=100"):
        scorer.log_probabilities(PROMPTS)


def test_an_unknown_prompt_is_named_with_the_nearest_one(tmp_path: Path, pictures: Pictures) -> None:
    write(tmp_path / "s.csv", columns(pictures, COSINES))
    scorer = open_scorer("scores:s.csv?values=cosine", pictures, cache=None, base=tmp_path)
    with pytest.raises(ScoresError, match="no column for the prompt 'a photo of a docter'") as caught:
        scorer.similarity([["a photo of a docter"]])
    assert caught.match("did you mean 'a photo of a doctor'")


def test_missing_images_are_named(tmp_path: Path, pictures: Pictures) -> None:
    write(tmp_path / "s.csv", columns(pictures, COSINES), order=list(range(9)))
    with pytest.raises(ScoresError, match="lacks 1 of the dataset's images, by `set_id` and `member`: '0004/light'"):
        open_scorer("scores:s.csv?values=cosine", pictures, cache=None, base=tmp_path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_image_with_two_rows_is_named_and_the_same_row_again_counts_once(
    kind: str, tmp_path: Path, pictures: Pictures
) -> None:
    order, uri = [3, 0, *range(10), 3, 3], f"scores:s.{kind}?values=cosine"
    write(tmp_path / f"s.{kind}", columns(pictures, COSINES), order=order)
    scorer = open_scorer(uri, pictures, cache=None, base=tmp_path)
    np.testing.assert_allclose(scorer.similarity([[PROMPTS[0]], [PROMPTS[1]]]), COSINES[:, :2])
    assert scorer.repeats.tolist() == [1, 0, 0, 3, 0, 0, 0, 0, 0, 0]
    table = {name: [values[row] for row in order] for name, values in columns(pictures, COSINES).items()}
    table[PROMPTS[0]][1] += 0.001
    write(tmp_path / f"s.{kind}", table)
    problem = "more than once in the table, by `set_id` and `member`: '0000/dark'"
    with pytest.raises(ScoresError, match=problem):
        open_scorer(uri, pictures, cache=None, base=tmp_path)


def test_images_that_the_dataset_does_not_have_are_named(tmp_path: Path, pictures: Pictures) -> None:
    write(tmp_path / "s.csv", columns(pictures, COSINES, "file"))
    fewer = Pictures(pictures.blobs[:6])
    with pytest.raises(ScoresError, match="names 4 images that the dataset does not have") as caught:
        open_scorer("scores:s.csv?values=cosine", fewer, cache=None, base=tmp_path)
    assert caught.match("'val/6.png', 'val/7.png', 'val/8.png' and 1 more")


def test_paths_that_are_not_distinct_cannot_be_matched(tmp_path: Path, pictures: Pictures) -> None:
    write(tmp_path / "s.csv", columns(pictures, COSINES, "file"))
    pictures.index.path[:] = "val/0.png"
    with pytest.raises(ScoresError, match="match by `set_id` and `member`"):
        open_scorer("scores:s.csv?values=cosine", pictures, cache=None, base=tmp_path)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), ""])
def test_a_score_that_is_not_finite_is_named(bad: object, tmp_path: Path, pictures: Pictures) -> None:
    table = columns(pictures, COSINES)
    table[PROMPTS[1]][7] = bad
    write(tmp_path / "s.csv", table)
    scorer = open_scorer("scores:s.csv?values=cosine", pictures, cache=None, base=tmp_path)
    assert np.isfinite(scorer.similarity([PROMPTS[:1]])).all()
    with pytest.raises(ScoresError, match="'a photo of a nurse' is empty, NaN or infinite for 1 image: '0003/light'"):
        scorer.similarity([PROMPTS])


@pytest.mark.parametrize(("values", "factor"), [("probability", 10.0), ("cosine", 100.0)])
def test_scores_outside_their_scale_are_named(values: str, factor: float, tmp_path: Path, pictures: Pictures) -> None:
    write(tmp_path / "s.csv", columns(pictures, factor * COSINES))
    scorer = open_scorer(f"scores:s.csv?values={values}", pictures, cache=None, base=tmp_path)
    with pytest.raises(ScoresError, match=r"is outside \[") as caught:
        scorer.similarity([PROMPTS])
    assert caught.match("100 x cosine is a logit")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("s.csv", b"", "the file is empty"),
        ("s.csv", b"a,b\n1,2\n", "no column says which image"),
        ("s.csv", b"file,x,x\na,1,2\n", "column 'x' is twice"),
        ("s.csv", b"file,x\na,1,2\n", "the table cannot be read"),
        ("s.csv", b"\xff\xfe\x00f", "the file is text in UTF-16"),
        ("s.parquet", b"PAR1 no", "the table cannot be read"),
    ],
)
def test_a_table_that_cannot_be_read_is_an_error(
    name: str, content: bytes, problem: str, tmp_path: Path, pictures: Pictures
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ScoresError, match=problem):
        open_scorer(f"scores:{name}?values=cosine", pictures, cache=None, base=tmp_path)


def test_a_missing_table_names_its_nearest_neighbour(tmp_path: Path, pictures: Pictures) -> None:
    write(tmp_path / "before.csv", columns(pictures, COSINES))
    with pytest.raises(ScoresError, match=r"did you mean 'before\.csv'"):
        open_scorer("scores:befor.csv?values=cosine", pictures, cache=None, base=tmp_path)


def test_a_column_of_words_is_not_a_prompt(tmp_path: Path, pictures: Pictures) -> None:
    write(tmp_path / "s.csv", {**columns(pictures, COSINES), "verdict": ["yes"] * 10})
    scorer = open_scorer("scores:s.csv?values=cosine", pictures, cache=None, base=tmp_path)
    with pytest.raises(ScoresError, match=r"'verdict' does not hold numbers \(such as 'yes'\)"):
        scorer.similarity([["verdict"]])


def test_a_table_whose_codes_name_texts_that_there_are_not_is_refused(toy: Toy) -> None:
    source = open_dataset("toy", toy.root / "datasets")
    with pytest.raises(ScoresError, match=r"cannot be read .*out of bounds"):
        open_scorer(f"scores:{DAMAGED}?values=logit", source)
