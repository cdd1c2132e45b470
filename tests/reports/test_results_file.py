"""results.json: what was written is read back, and nothing else is believed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from example_records import example_record, skew_check

from fairgate.ground.errors import BaselineError
from fairgate.records import RunRecord
from fairgate.records.schemas import schema_file, schema_of, schema_text
from fairgate.reports import read_results, write_results
from fairgate.reports import results as results_module


def _changed(folder: Path, record: RunRecord, **changes: Any) -> Path:
    path = write_results(record, folder)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")
    return path


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    finite = example_record([skew_check("doctor", 0.4)])
    assert read_results(write_results(finite, tmp_path / "new" / "folder")) == finite


def test_a_number_that_is_not_finite_is_null_beside_its_status(tmp_path: Path) -> None:
    record = example_record([skew_check("nurse", 0.78, absent=True)])
    path = write_results(record, tmp_path)
    group = json.loads(path.read_text(encoding="utf-8"))["checks"][0]["groups"][-1]
    assert (group["value"], group["status"]) == (None, "infinite")
    assert record.checks[0].groups[-1].value == -math.inf
    assert read_results(path).checks[0].groups[-1].status == "infinite"


def test_writing_again_replaces_the_file_and_leaves_no_draft(tmp_path: Path, record: RunRecord) -> None:
    write_results(example_record(suite="first"), tmp_path)
    assert read_results(write_results(record, tmp_path)).suite == "occupations"
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_a_failed_write_leaves_the_old_file_whole(
    tmp_path: Path, record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_results(record, tmp_path)

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        write_results(example_record(suite="second"), tmp_path)
    assert read_results(path).suite == "occupations"
    assert [found.name for found in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"suite": "occ', "not valid JSON: Unterminated string"),
        (b"\xff\xfe\x00", "not valid JSON: 'utf-8' codec"),
        (b"[1, 2]", "must hold a JSON object"),
        (b'{"schema_version": 1, "seconds": NaN}', "NaN is not a JSON number"),
        (b'{"schema_version": 1, "seconds": 1e999}', "1e999 is not a JSON number"),
        (b'{"suite": "a", "suite": "b"}', "'suite' is twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b"{}", "schema version None"),
        (b'{"schema_version": 2}', "schema version 2"),
        (b'{"schema_version": true}', "schema version True"),
        (b'{"schema_version": 1}', "not a run record: suite: it is missing"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_what_is_not_a_record_is_refused_with_place_and_remedy(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(content)
    with pytest.raises(BaselineError, match="remedy") as caught:
        read_results(path)
    assert said in caught.value.problem
    assert str(path) in str(caught.value.where)


def test_a_wrong_field_is_named_with_its_place(tmp_path: Path, record: RunRecord) -> None:
    checks = json.loads(record.model_dump_json())["checks"]
    checks[3]["value"] = "0.9"
    with pytest.raises(BaselineError, match=r"checks\[3\]\.value: a number is expected"):
        read_results(_changed(tmp_path, record, checks=checks))


def test_an_unknown_field_is_refused(tmp_path: Path, record: RunRecord) -> None:
    with pytest.raises(BaselineError, match="surprise: there is no such key"):
        read_results(_changed(tmp_path, record, surprise=1))


def test_of_many_faults_the_first_are_named_and_the_rest_counted(tmp_path: Path, record: RunRecord) -> None:
    with pytest.raises(BaselineError, match=r"\(and 2 more\)"):
        read_results(_changed(tmp_path, record, suite=1, seconds="x", command=2, created_at=3, verdict="maybe"))


def test_a_missing_file_a_folder_and_a_huge_file_are_told_apart(
    tmp_path: Path, record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BaselineError, match="No such file"):
        read_results(tmp_path / "results.json")
    with pytest.raises(BaselineError, match=r"name the file: .*results\.json"):
        read_results(tmp_path)
    path = write_results(record, tmp_path)
    monkeypatch.setattr(results_module, "MAX_BYTES", 100)
    with pytest.raises(BaselineError, match=r"cannot be read: it has more than 0 MB"):
        read_results(path)


def test_the_shipped_schema_is_the_one_that_the_record_defines() -> None:
    assert schema_file("results").read_text(encoding="utf-8") == schema_text("results")
    schema = schema_of("results")
    assert schema["$id"] == "urn:fairgate:results:1"
    assert {"verdict", "suite", "dataset", "model", "baseline", "coverage", "checks"} <= set(schema["required"])


def test_a_written_file_has_the_keys_that_the_schema_names(tmp_path: Path, record: RunRecord) -> None:
    written = json.loads(write_results(record, tmp_path).read_text(encoding="utf-8"))
    schema = schema_of("results")
    check = schema["$defs"]["CheckResult"]
    assert set(schema["required"]) <= set(written) == set(schema["properties"])
    assert set(check["required"]) <= set(written["checks"][0]) == set(check["properties"])
