"""Text columns as codes: they read as arrays of strings do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from fairgate.data import TextColumn, text_column

WORDS = ["é", "b", "a", "b", "", "zz", "\U0001f600", "\uffee"]


@pytest.fixture(params=["few", "many"], autouse=True)
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few texts take Python's lists, many take Arrow's functions."""
    if request.param == "many":
        monkeypatch.setattr(text_column, "FEW", 2)


def in_chunks(*chunks: list[str | None]) -> TextColumn:
    return TextColumn.of_arrow(pa.chunked_array([pa.array(chunk, pa.string()) for chunk in chunks]))


def test_a_column_reads_as_an_array_of_its_strings() -> None:
    plain = np.array(WORDS, dtype=object)
    for column in (TextColumn.of(WORDS), in_chunks(WORDS[:3], WORDS[3:])):
        assert column.tolist() == list(column) == WORDS
        assert column[1] == "b"
        assert column[np.array([3, 0])].tolist() == ["b", "é"]
        assert np.array_equal(column == "b", plain == "b")
        assert np.array_equal(column != "absent", plain != "absent")
        assert np.array_equal(np.unique(column), np.unique(plain))
        assert np.array_equal(column == TextColumn.of(WORDS[::-1]), plain == plain[::-1])
        assert column.astype(str).dtype.kind == "U"


def test_texts_that_differ_are_in_the_order_of_python_and_of_their_first_rows() -> None:
    column = TextColumn.of(WORDS).take(np.array([5, 6, 7, 0, 5]))
    names, codes = column.sorted()
    assert names.tolist() == ["zz", "é", "\uffee", "\U0001f600"]
    assert codes.tolist() == [0, 3, 2, 1, 0]
    assert column.distinct() == ["zz", "\U0001f600", "\uffee", "é"]
    assert column.repeated() == ["zz"]


def test_null_is_an_empty_text_beside_one_that_is_empty() -> None:
    column = in_chunks(["a", None], ["", "a"])
    assert column.tolist() == ["a", "", "", "a"]
    assert column.sorted()[0].tolist() == ["", "a"]


def test_rows_are_found_by_their_texts() -> None:
    column = TextColumn.of(["a", "b", "c"])
    assert column.rows_of(TextColumn.of(["c", "x", "a", "c"])).tolist() == [2, -1, 0, 2]
    assert column.rows_of(TextColumn.of(["a", "b", "c"])).tolist() == [0, 1, 2]
    assert column.sizes().tolist() == [len(text.encode()) for text in column]


def test_texts_are_joined_row_by_row_and_renamed() -> None:
    pairs = TextColumn.joined([TextColumn.of(["s1", "s1", "s2"]), TextColumn.of(["x", "y", "x"])], "/")
    assert pairs.tolist() == ["s1/x", "s1/y", "s2/x"]
    assert pairs.renamed(lambda text: text[:2]).tolist() == ["s1", "s1", "s2"]


def test_a_text_without_a_place_is_no_place() -> None:
    with pytest.raises(KeyError, match="b"):
        TextColumn.of(["a", "b"]).places({"a": 0})


def test_a_text_that_a_log_would_act_on_is_found() -> None:
    assert TextColumn.of(["a", "b\x1b[2J", "c"]).first_harmful() == "b\x1b[2J"
    assert TextColumn.of(["a", "b", "c"]).first_harmful() is None


@pytest.mark.parametrize("odd", ["b\x1b[2J", "::error::x", " ::error::x", "x##[group]", "b\u202ex", "two\nlines"])
def test_a_text_that_a_log_would_act_on_is_found_among_very_many(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_column, "FEW", 4)
    plain = [f"val-{at}" for at in range(10)]
    assert TextColumn.of(plain).first_harmful() is None
    assert TextColumn.of([*plain, "a:b", "#1"]).first_harmful() is None
    assert TextColumn.of([*plain, odd, "z"]).first_harmful() == odd


def test_an_arrow_column_is_that_of_the_rows_only_if_all_texts_differ_and_are_in_their_order() -> None:
    texts = ["é", "b", "a", "", "zz"]
    rows, plain = TextColumn.of(texts), pa.array(texts, pa.string())
    coded = plain.dictionary_encode()
    for same in (
        [plain],
        [plain[:2], plain[2:]],
        [coded],
        [plain[:2].dictionary_encode(), plain[2:].dictionary_encode()],
    ):
        assert rows.is_row_by_row(pa.chunked_array(same))
    turned = pa.DictionaryArray.from_arrays(coded.indices.take(pa.array([1, 0, 2, 3, 4])), coded.dictionary)
    others = [
        plain[:4],
        plain.take(pa.array([1, 0, 2, 3, 4])),
        pa.array([*texts[:4], None], pa.string()),
        turned,
        coded[:4],
    ]
    for other in others:
        assert not rows.is_row_by_row(pa.chunked_array([other]))
    assert not TextColumn.of(WORDS).is_row_by_row(
        pa.chunked_array([pa.array(WORDS, pa.string())])
    )  # "b" is there twice


@pytest.mark.parametrize("again", [False, True])
def test_very_many_texts_are_told_apart_when_it_matters(again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk has every text once; one may be in two chunks."""
    monkeypatch.setattr(text_column, "FEW", 2)
    texts = ["b", "a", "d", "b" if again else "c"]
    chunks = pa.chunked_array([pa.array(texts[at : at + 2]).dictionary_encode() for at in (0, 2)])

    def column() -> TextColumn:
        return TextColumn.of_arrow(chunks)

    assert column().tolist() == texts
    assert column()[2] == "d"
    assert column().is_row_by_row(pa.chunked_array([pa.array(texts)])) is not again
    assert column().repeated() == (["b"] if again else [])
    names, codes = column().sorted()
    assert names.tolist() == sorted(set(texts))
    assert [names[int(code)] for code in codes] == texts
    assert column().counts().tolist() == ([2, 1, 1] if again else [1, 1, 1, 1])
    assert (column() == "b").tolist() == [text == "b" for text in texts]
