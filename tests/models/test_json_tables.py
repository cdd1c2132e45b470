"""Tables in JSON: an object a line, columns by other names, and images by any name that the dataset has for them."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_world import PROMPTS, Pictures

from fairgate.ground.errors import ScoresError
from fairgate.models import open_scorer

NAMES = [f"val/{row}.png" for row in range(10)]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def opened(uri: str, pictures: Pictures, root: Path) -> Any:
    return open_scorer(uri, pictures, cache=None, base=root)


def test_json_lines_hold_scores_as_csv_does(tmp_path: Path, pictures: Pictures) -> None:
    rows = [{"file": name, PROMPTS[0]: row / 10, PROMPTS[1]: 1 - row / 10} for row, name in enumerate(NAMES)]
    lines(tmp_path / "s.jsonl", rows[::-1])
    scorer = opened("scores:s.jsonl?values=probability", pictures, tmp_path)
    np.testing.assert_allclose(np.exp(scorer.log_probabilities(PROMPTS[:2]))[3], [0.3, 0.7])


def test_a_column_is_read_by_the_name_that_the_address_gives_it(tmp_path: Path, pictures: Pictures) -> None:
    lines(tmp_path / "s.jsonl", [{"key": name, "guess": "Man", "p": [0.5]} for name in NAMES])
    mapped = opened("labels:s.jsonl?id=key&gender=guess&gender_confidence=p", pictures, tmp_path)
    read = mapped.predict("gender")
    assert read.labels.tolist() == ["Man"] * 10
    assert read.confidence.tolist() == [0.5] * 10
    assert mapped.fingerprint != opened("labels:s.jsonl?id=key", pictures, tmp_path).fingerprint
    scored = opened("scores:s.jsonl?values=probability&id=key&a man=p", pictures, tmp_path)
    assert scored.similarity([["a man"]])[:, 0].tolist() == [0.5] * 10


@pytest.mark.parametrize(
    "named",
    [
        NAMES,
        [f"{row // 2:04d}/{'light' if row % 2 else 'dark'}" for row in range(10)],
        list(range(10)),
        [f"/data/run 7/{name}" for name in NAMES],
    ],
    ids=["paths", "sets and members", "rows", "ends of paths"],
)
def test_images_are_found_by_any_name_that_the_dataset_has(
    named: list[object], tmp_path: Path, pictures: Pictures
) -> None:
    rows = [{"id": name, "answer": f"Answer {row}."} for row, name in enumerate(named)]
    lines(tmp_path / "a.jsonl", rows[::-1])
    answers = opened("answers:a.jsonl", pictures, tmp_path).answer(["Who?"] * 10, 8)
    assert answers.tolist() == [f"Answer {row}." for row in range(10)]


def test_images_that_are_left_out_or_foreign_are_named(tmp_path: Path, pictures: Pictures) -> None:
    lines(tmp_path / "a.jsonl", [{"id": row, "answer": "x"} for row in range(9)])
    with pytest.raises(ScoresError, match="lacks the answers of 1 image: '9'"):
        opened("answers:a.jsonl", pictures, tmp_path).answer(["Who?"] * 10, 8)
    with pytest.raises(ScoresError, match="lacks 1 of the dataset's images, by `id`: '9'"):
        opened("numbers:a.jsonl", pictures, tmp_path)
    with pytest.raises(ScoresError, match="lacks 1 of the dataset's images, by its names: '9'"):
        opened("labels:a.jsonl", pictures, tmp_path).predict("answer")
    lines(tmp_path / "a.jsonl", [{"id": row, "answer": "x"} for row in range(1, 11)])
    with pytest.raises(ScoresError, match="names 1 image that the dataset does not have, by `id`: '10'"):
        opened("answers:a.jsonl", pictures, tmp_path)


def test_paths_that_differ_in_their_folders_alone_are_answered_with_the_way_to_import_again(
    tmp_path: Path, pictures: Pictures
) -> None:
    names = [f"cache/{name.rpartition('/')[2]}" for name in NAMES]
    lines(tmp_path / "a.jsonl", [{"id": name, "answer": "x"} for name in names])
    with pytest.raises(ScoresError, match=r"import the labels again with '[^/']+' in the column of files"):
        opened("answers:a.jsonl", pictures, tmp_path)


def test_questions_in_other_words_are_read_if_the_address_says_so(tmp_path: Path, pictures: Pictures) -> None:
    rows = [{"id": row, "prompt": f"{row}: Who?", "answer": "x"} for row in range(10)]
    lines(tmp_path / "a.jsonl", rows)
    with pytest.raises(ScoresError, match=r"lacks the answers to 'Who\?'"):
        opened("answers:a.jsonl", pictures, tmp_path).answer(["Who?"] * 10, 8)
    model = opened("answers:a.jsonl?prompt=none", pictures, tmp_path)
    assert model.answer(["Who?"] * 10, 8).tolist() == ["x"] * 10
    with pytest.raises(ScoresError, match="several questions are asked"):
        model.answer(["Where?"] * 10, 8)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"id": 0, "answer": "x"}\n{"id": ', "line 2 is no JSON, from character 8 on"),
        ("[1]\n", "line 1 is no object"),
        ('{"id": 0, "answer": "x"}\n' * 1200, "more than 1,010 rows"),
        ('{"id": 0, "answer": "x"}\n{"id": 1, "answer": ["x", "y"]}\n', "'answer' holds a list, first in row 2"),
        ('{"id": 0, "reply": "x"}\n', "no column holds the answers"),
        ('{"id": 0, "answer": "x"}\n{"id": NaN, "answer": "x"}\n', "names no image in 1 of 2 rows, first in row 2"),
        ('{"id": 0, "answer": NaN}\n{"id": 1, "answer": "x"}\n', "holds null in 1 of 2 rows, first in row 1"),
        ("\n\n", "the table has no row"),
        ('{"id": 0, "answer": null}\n{"id": 1, "answer": "x"}\n', "holds null in 1 of 2 rows"),
        (
            '{"id": 99999999999999999999999, "answer": "x"}\n',
            "'id' holds a whole number of more than 64 bits, first in row 1",
        ),
        ('{"answer": "x"}\n', "no column says which image"),
        ('{"id": 0, "answer": "x", "answer": "y"}\n', "line 1: the key 'answer' is twice in one object"),
        ('{"id": 0, "answer": "x", "more": [{"a": 1, "a": 2}]}\n', "the key 'a' is twice"),
        (json.dumps(dict.fromkeys(map(str, range(20_001)))), "has 20,001 columns or more; at most 20,000"),
    ],
)
def test_a_file_that_is_no_table_is_refused(text: str, problem: str, tmp_path: Path, pictures: Pictures) -> None:
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(ScoresError, match=problem) as caught:
        opened("answers:a.jsonl", pictures, tmp_path)
    assert "a.jsonl" in str(caught.value.where)
    assert "UTF-8 CSV" not in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("name", "content", "problem", "remedy"),
    [
        ("a.csv", gzip.compress(b"file,answer\n", mtime=0), "compressed by gzip", "gunzip"),
        ("a.xlsx", b"PK\x03\x04...", "a ZIP archive or a spreadsheet", "CSV in UTF-8"),
        ("a.jsonl", '{"id": 0}\n'.encode("utf-16"), "text in UTF-16", "UTF-8"),
        ("a.csv", "file,answer\na,\u00e9\n".encode("latin-1"), "byte 0xe9 at 14 is no UTF-8", "UTF-8 CSV"),
        ("a.csv", b"file,answer\na,Yes, I would\n", "a row has 3 cells and the first line 2", "in double quotes"),
        ("a.json", b'{"id": 0}\n{"id": 1}\n', "no JSON, from line 2 on", ".jsonl"),
    ],
)
def test_a_table_in_another_form_is_told_its_form(
    name: str, content: bytes, problem: str, remedy: str, tmp_path: Path, pictures: Pictures
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ScoresError, match=problem) as caught:
        opened(f"answers:{name}", pictures, tmp_path)
    assert remedy in str(caught.value.remedy)
    assert name in str(caught.value.where)


def test_an_option_without_a_value_is_told_so(tmp_path: Path, pictures: Pictures) -> None:
    lines(tmp_path / "a.jsonl", [{"id": 0, "answer": "x"}])
    with pytest.raises(ScoresError, match="unknown or empty: 'answer'") as caught:
        opened("answers:a.jsonl?answer", pictures, tmp_path)
    assert caught.value.remedy == "write answer=VALUE"


def test_json_under_the_name_of_a_csv_is_told_so(tmp_path: Path, pictures: Pictures) -> None:
    (tmp_path / "a.csv").write_text('{"id": 0, "answer": "x"}\n', encoding="utf-8")
    with pytest.raises(ScoresError, match=r"holds JSON, and its name ends in '\.csv'") as caught:
        opened("answers:a.csv", pictures, tmp_path)
    assert ".jsonl" in str(caught.value.remedy)


def test_names_of_many_slashes_are_matched_in_no_time(tmp_path: Path, pictures: Pictures) -> None:
    """Each would take 4,000 joins of 4,000 parts, were every end of it tried: minutes for these."""
    lines(tmp_path / "a.jsonl", [{"id": "/" * 4000 + str(row), "answer": "x"} for row in range(1000)])
    start = time.process_time()
    with pytest.raises(ScoresError, match="that the dataset does not have"):
        opened("answers:a.jsonl", pictures, tmp_path)
    assert time.process_time() - start < 5


def test_a_key_of_a_nested_object_is_read_by_a_path_with_dots(tmp_path: Path, pictures: Pictures) -> None:
    rows = [{"id": row, "doc": [{"reply": {"text": f"Answer {row}."}}]} for row in range(10)]
    lines(tmp_path / "a.jsonl", rows)
    assert (
        opened("answers:a.jsonl?answer=doc.reply.text", pictures, tmp_path).answer(["Who?"] * 10, 8)[3] == "Answer 3."
    )
    with pytest.raises(ScoresError, match=r"no column 'doc\.text'"):
        opened("answers:a.jsonl?answer=doc.text", pictures, tmp_path)
    with pytest.raises(ScoresError, match=r"'doc' holds an object \(with reply\)") as caught:
        opened("answers:a.jsonl?answer=doc", pictures, tmp_path)
    assert "as doc.KEY" in str(caught.value.remedy)


@pytest.mark.parametrize("column", ["doc_id", "filtered_resps"])
@pytest.mark.parametrize(("digits", "problem"), [(20, "of more than 64 bits, first in row 7"), (5000, "thousands of")])
def test_a_number_that_no_column_holds_is_told_with_its_file_column_and_row(
    column: str, digits: int, problem: str, tmp_path: Path, pictures: Pictures
) -> None:
    rows = [{"doc_id": row, "filtered_resps": [row]} | ({column: "LONG"} if row == 6 else {}) for row in range(10)]
    (tmp_path / "a.json").write_text(json.dumps(rows).replace('"LONG"', "9" * digits), encoding="utf-8")
    with pytest.raises(ScoresError, match=f"a whole number (has )?{problem}") as e:
        opened("answers:a.json", pictures, tmp_path)
    assert e.value.where == str(tmp_path / "a.json")


def test_a_whole_number_beside_fractions_is_a_fraction_however_long(tmp_path: Path, pictures: Pictures) -> None:
    rows = [{"file": name, PROMPTS[0]: [2**70, 0.5, -3][row % 3], PROMPTS[1]: 0.5} for row, name in enumerate(NAMES)]
    lines(tmp_path / "s.jsonl", rows)
    scorer = opened("scores:s.jsonl?values=logit", pictures, tmp_path)
    assert scorer.log_probabilities(PROMPTS[:2])[0].tolist() == [0.0, 0.5 - 2.0**70]


def test_a_list_of_rows_that_names_a_column_twice_is_refused(tmp_path: Path, pictures: Pictures) -> None:
    (tmp_path / "a.json").write_text('[{"id": 0, "answer": "x", "id": 1}]', encoding="utf-8")
    with pytest.raises(ScoresError, match="the key 'id' is twice in one object"):
        opened("answers:a.json", pictures, tmp_path)


@pytest.mark.parametrize("number", ["1e101", "-1e200"])
def test_scores_whose_squares_overflow_are_refused(number: str, tmp_path: Path, pictures: Pictures) -> None:
    rows = [f'{{"id": {row}, "a man": {number if row == 3 else 0.5}}}' for row in range(10)]
    (tmp_path / "s.jsonl").write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(ScoresError, match=r"larger than 1e\+100 in size for 1 image: '3'"):
        opened("scores:s.jsonl?values=logit", pictures, tmp_path).similarity([["a man"]])


@pytest.mark.parametrize("number", ["NaN", "Infinity", "null"])
def test_a_number_that_is_none_is_refused_where_it_is(number: str, tmp_path: Path, pictures: Pictures) -> None:
    rows = [f'{{"id": {row}, "a man": {number if row == 3 else 0.5}}}' for row in range(10)]
    (tmp_path / "s.jsonl").write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(ScoresError, match="NaN or infinite for 1 image: '3'"):
        opened("scores:s.jsonl?values=cosine", pictures, tmp_path).similarity([["a man"]])


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("1e", "does not hold numbers (such as '1e')"),
        ("\ud800", "a text holds half of a character"),
    ],
)
def test_a_cell_that_no_column_can_hold_is_told_in_words(
    cell: object, problem: str, tmp_path: Path, pictures: Pictures
) -> None:
    lines(
        tmp_path / "s.jsonl", [{"file": name, "a": 0.5 if row else cell} for row, name in enumerate(NAMES[::-1])][::-1]
    )
    with pytest.raises(ScoresError) as caught:
        opened("scores:s.jsonl?values=probability", pictures, tmp_path).log_probabilities(["a", "a"])
    assert problem in str(caught.value)


def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path: Path, pictures: Pictures) -> None:
    lines(tmp_path / "a.jsonl", [{"doc": row, "answer": "x"} for row in range(10)])
    with pytest.raises(ScoresError, match="no column 'doc_id', which `id` is to be read from") as caught:
        opened("answers:a.jsonl?id=doc_id", pictures, tmp_path)
    assert caught.value.remedy == "did you mean 'doc'?"
    with pytest.raises(ScoresError, match="unknown or empty: 'question'"):
        opened("answers:a.jsonl?question=doc", pictures, tmp_path)


def test_a_column_of_objects_is_told_with_its_keys_and_is_not_called_missing(
    tmp_path: Path, pictures: Pictures
) -> None:
    nested = {"gender": {"label": "male", "p": 0.3}, PROMPTS[0]: {"logit": 1.0}, PROMPTS[1]: 0.2}
    lines(tmp_path / "s.jsonl", [{"file": name, **nested} for name in NAMES])
    with pytest.raises(ScoresError, match=r"column 'gender' holds an object \(with label, p\), first in row 1"):
        opened("labels:s.jsonl", pictures, tmp_path).predict("gender")
    with pytest.raises(ScoresError, match=r"holds an object \(with logit\), first in row 1"):
        opened("scores:s.jsonl?values=logit", pictures, tmp_path).log_probabilities(PROMPTS[:2])


@pytest.mark.parametrize("name", ["answer", "target"])
def test_the_column_that_names_images_is_read_as_nothing_else(name: str, tmp_path: Path, pictures: Pictures) -> None:
    lines(tmp_path / "s.jsonl", [{"id": image, "answer": "yes"} for image in NAMES])
    with pytest.raises(ScoresError, match="no column says which image a row belongs to"):
        opened(f"answers:s.jsonl?{name}=id", pictures, tmp_path).answer(["Who?"] * 10, 9)


@pytest.mark.parametrize(
    ("file", "content", "problem", "remedy"),
    [
        ("s.csv", b"file,gender\n1,male,x\n", "a row has 3 cells and the first line 2: 1,male,x", "double quotes"),
        ("s.parquet", b"file,gender\n" * 9, "it is no Parquet file, or a part of one", "ending .csv"),
        ("s.csv", "file,gender\n1,mäle\n".encode("latin-1"), "byte 0xe4 at 15 is no UTF-8", "save it as UTF-8 CSV"),
        ("s.jsonl", b'{"file": 1, "a": ' + b"9" * 5000 + b"}", "line 1: a whole number has thousands", "object a line"),
    ],
    ids=["ragged", "no Parquet", "Latin-1", "digits"],
)
def test_a_table_that_cannot_be_read_is_told_in_plain_words(
    file: str, content: bytes, problem: str, remedy: str, tmp_path: Path, pictures: Pictures
) -> None:
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ScoresError, match=problem) as caught:
        opened(f"labels:{file}", pictures, tmp_path).predict("gender")
    assert remedy in (caught.value.remedy or "")
    assert not {"magic", "parse", "Exceeds"} & set(caught.value.problem.split())
