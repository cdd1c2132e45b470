"""Tables in JSON: an object a row (JSON Lines), and the samples that evaluation frameworks write.

- lmms-eval: `*_samples_TASK.jsonl` (`lmms_eval/loggers/evaluation_tracker.py`). `doc_id` is the row of the task's data,
  from 0, `input` the question as it was put, `filtered_resps` the answers, of which one is read, `target` what is right
- HELM: a run's `scenario_state.json` (`helm/benchmark/runner.py`), whose `request_states` each have an instance with
  its picture and question, and the completions of the model. The first one is read, as its `output_mapping` reads it;
  the target is the first reference that is tagged as correct.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from fairgate.data import json_lines
from fairgate.ground.errors import ScoresError
from fairgate.ground.text import unique_keys

ENDINGS = (".jsonl", ".json")
ID = "id"
"""The column that names images by what a framework calls them."""
_LMMS_EVAL = {ID: "doc_id", "answer": "filtered_resps", "prompt": "input"}
MAX_COLUMNS = 20_000
_MAX_BYTES = 512 << 20
_LONGEST_LINE = 1 << 24
_MAX_CELLS = 32_000_000
_KEYS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class _Nested:
    """A cell that is no text, number or truth value, nor a list of one, in words."""

    what: str


def read_json_table(path: Path, most: int, named: Iterable[str] = ()) -> tuple[Any, dict[str, str], dict[str, str]]:
    """The columns of a file that hold text, numbers or truth values, what a framework calls those that are read, and
    what a column that is left out holds instead, in words, with its first row, from 1.

    A list of one is what is in it. Of the columns `named`, `doc.text` is also the key `text` of the object in `doc`.
    Raises ScoresError for a file that is no table, and for one of more than `most` rows
    or `MAX_COLUMNS`; DatasetError and ValueError for text that is no JSON, or that names a key twice in one object.
    """
    import pyarrow as pa

    if path.stat().st_size > _MAX_BYTES:
        raise ScoresError(f"the table has more than {_MAX_BYTES >> 20:,} MB.", remedy="write it as Parquet")
    columns: dict[str, list[object]] = {}
    count, within = 0, [name for name in named if "." in name]
    for count, row in enumerate(islice(_rows(path), most + 1), 1):
        if (wide := len(columns.keys() | row.keys())) > MAX_COLUMNS:
            problem = f"the table has {wide:,} columns or more; at most {MAX_COLUMNS:,} are read."
            raise ScoresError(problem, remedy="keep the columns of the suite's prompts")
        inner = {name: value for name in within if name not in row and (value := _within(row, name)) is not None}
        for name, value in {**row, **inner}.items():
            columns.setdefault(name, []).extend([None] * (count - 1 - len(columns.get(name, ()))) + [_plain(value)])
        if count > most or len(columns) * count > _MAX_CELLS:
            what = f"{most:,} rows" if count > most else f"{_MAX_CELLS:,} cells"
            raise ScoresError(f"the table has more than {what}.", remedy="write one row an image and question")
    if not count:
        raise ScoresError("the table has no row.", remedy="write an object a row")
    try:
        arrays = {name: _array([*cells, *[None] * (count - len(cells))]) for name, cells in columns.items()}
        table = pa.table({name: array for name, array in arrays.items() if array is not None})
    except UnicodeEncodeError as error:
        raise ScoresError(
            "a text holds half of a character.", remedy="write it in UTF-8, in whole characters"
        ) from error
    samples = {"doc_id", "filtered_resps"} <= columns.keys() and "answer" not in columns
    odd = {name: _odd(columns[name]) for name, array in arrays.items() if array is None}
    usual = {name: own for name, own in _LMMS_EVAL.items() if samples and (name != "prompt" or own not in odd)}
    return table, {name: own for name, own in usual.items() if own in columns}, odd


def _rows(path: Path) -> Iterator[Mapping[str, object]]:
    if path.suffix.lower() == ".jsonl":
        yield from (fields for _, fields in json_lines(path, "the table", _LONGEST_LINE))
        return
    content = json.loads(path.read_bytes(), object_pairs_hook=unique_keys)
    states = content.get("request_states") if isinstance(content, dict) else None
    rows = content if states is None else states
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        problem = "the file is no list of rows, and no `scenario_state.json` of HELM."
        raise ScoresError(problem, remedy="write a list of objects, or an object a line (.jsonl)")
    for number, row in enumerate(rows, 1):
        try:
            read = row if states is None else _request_of_helm(row)
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            problem = f"request {number:,} of `scenario_state.json` is not as HELM writes it."
            raise ScoresError(problem, remedy="keep the file as the run wrote it") from error
        if read is not None:
            yield read


def _request_of_helm(state: Mapping[str, Any]) -> dict[str, object] | None:
    """A row; None for a perturbed instance, which is not the dataset's."""
    instance = state["instance"]
    if instance.get("perturbation") is not None:
        return None
    if state.get("reference_index") is not None or state.get("request_mode") == "calibration":
        problem = "the run asks about each option apart (`multiple_choice_separate`), and has no answers in words."
        raise ScoresError(problem, remedy="run it with `multiple_choice_joint` or as generation")
    media = (instance["input"].get("multimedia_content") or {}).get("media_objects", [])
    pictures = [part["location"] for part in media if part["content_type"].startswith("image/")]
    text = instance["input"].get("text") or "".join(part.get("text") or "" for part in media)
    result = state.get("result") or {}
    completions = result.get("completions") if result.get("success", True) else None
    answer = completions[0]["text"] if completions else None
    mapped = (state.get("output_mapping") or {}).get(answer.strip()) if isinstance(answer, str) else None
    named = pictures[0] if len(pictures) == 1 else instance["id"]
    correct = (part["output"]["text"] for part in instance.get("references") or [] if "correct" in part.get("tags", ()))
    read = {"prompt": text, "answer": answer if mapped is None else mapped, "target": next(correct, None)}
    return {ID: named, "instance": instance["id"], **read}


def _within(value: object, path: str) -> object:
    """What keys, with dots between them, lead to in nested objects; None if there is nothing."""
    for key in path.split("."):
        value = _only(value)
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _only(value: object) -> object:
    """What is in a list of one."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value


def _plain(value: object) -> object:
    value = _only(value)
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, str | int | float | _Nested):
        return value
    keys = f" (with {', '.join(islice(value, _KEYS_SHOWN))})" if isinstance(value, dict) and value else ""
    return _Nested(f"an object{keys}" if isinstance(value, dict) else "a list")


def _odd(cells: list[object]) -> str:
    """What the first nested cell is, or number without a column; else the first of another kind than the first one.
    Rows are from 1."""
    for row, cell in enumerate(cells, 1):
        if isinstance(cell, _Nested):
            return f"{cell.what}, first in row {row:,}"
        if _too_long(cell):
            return f"a whole number of more than 64 bits, first in row {row:,}"
    kinds = [isinstance(cell, bool) for cell in cells if cell is not None]
    return f"mixed values, first in row {1 + kinds.index(not kinds[0]):,}"


def _too_long(cell: object) -> bool:
    return isinstance(cell, int) and cell.bit_length() > 63  # and a sign


def _array(cells: list[Any]) -> Any:
    """A column, or None for one that is left out. Numbers among texts are written as text, as truth values are."""
    import pyarrow as pa

    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int}:
        return None if any(map(_too_long, cells)) else pa.array(cells, pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    if kinds <= {str, int, float} or kinds <= {bool}:
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    return None
