"""A run's report folder is the next run's baseline, as long as both asked the same of the same data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_gate_verdicts import by_item, evaluate, scores
from toy_repository import SUITE, Toy, rows, toy_repository, write_scores_table

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.records import RunRecord
from fairgate.suites import resolve


@pytest.fixture
def baseline(toy: Toy) -> Path:
    publish(toy, "base", model=scores("base"), baseline="none")
    return toy.root / "base"


def publish(toy: Toy, folder: str, **options: str) -> gate.Evaluation:
    prepared = gate.prepare("jobs", toy.root)
    typed = {"mlflow": "off", "cache": "off", "report": str(toy.root / folder), **options}
    settings = resolve(prepared.loaded.suite, typed, environment={})
    return gate.publish(gate.evaluate(prepared, settings, command="pytest"), prepared, settings)


def record(toy: Toy, **options: str) -> RunRecord:
    return evaluate(toy, **options).record


def test_a_report_holds_the_record_the_scores_the_page_and_the_comment(toy: Toy) -> None:
    evaluation = publish(toy, "out")
    names = sorted(path.name for path in (toy.root / "out").iterdir())
    assert names == ["comment.md", "metrics.json", "report.html", "results.json", "scores.parquet"]
    assert evaluation.messages[-1] == f"report: {toy.root / 'out' / 'report.html'}"
    table = pq.read_table(toy.root / "out" / "scores.parquet")
    assert table.num_rows == 2 * 320
    results = json.loads((toy.root / "out" / "results.json").read_text(encoding="utf-8"))
    assert {"verdict", "suite", "dataset", "model", "baseline", "coverage", "checks"} <= set(results)


def test_a_file_baseline_decides_as_the_live_one_does(toy: Toy, baseline: Path) -> None:
    live = by_item(record(toy))
    filed = by_item(record(toy, baseline=f"file:{baseline}"))
    by_json = by_item(record(toy, baseline="file:base/results.json"))
    for item, check in live.items():
        assert filed[item] == by_json[item] == check


def test_nothing_is_written_when_nothing_is_asked_for(toy: Toy) -> None:
    prepared = gate.prepare("jobs", toy.root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off"}, environment={})
    before = sorted(toy.root.rglob("*"))
    published = gate.publish(gate.evaluate(prepared, settings, command="pytest"), prepared, settings)
    assert all(message.startswith("warning: fairness_suites/jobs.yaml") for message in published.messages)
    assert sorted(toy.root.rglob("*")) == before


def test_a_baseline_of_another_dataset_is_an_error_that_names_both(toy: Toy, baseline: Path, tmp_path: Path) -> None:
    other = toy_repository(tmp_path / "other", sets=30)
    result = record(other, baseline=f"file:{baseline}")
    assert result.verdict == "error"
    assert "the baseline was scored on dataset 'toy/v1'" in result.checks[0].reason
    assert "model:URI" in result.checks[0].reason


def test_a_baseline_that_asked_other_questions_is_scored_again_and_says_which(toy: Toy, baseline: Path) -> None:
    toy.write_suite(SUITE.replace("[chef, line cook]", "[line cook, chef]"))
    result = record(toy, baseline=f"file:{baseline}")
    assert result.verdict == "pass"
    assert result.baseline is not None
    assert "metric version of labels differ" in (result.baseline.rescored or "")
    live = by_item(record(toy))
    for item, check in by_item(result).items():
        assert check == live[item]


def test_a_checkpoint_that_is_another_one_now_is_not_scored_in_the_place_of_the_old(toy: Toy, baseline: Path) -> None:
    toy.write_suite(SUITE.replace("[chef, line cook]", "[line cook, chef]"))
    write_scores_table(toy.root / "base.csv", 40, seed=8)
    result = record(toy, baseline=f"file:{baseline}")
    assert result.verdict == "error"
    assert "now holds checkpoint" in result.checks[0].reason
    assert "model:URI" in result.checks[0].reason


def test_a_probe_that_is_compared_nowhere_may_change(toy: Toy, baseline: Path) -> None:
    toy.write_suite(SUITE.replace('"{subject}", ', ""))
    assert record(toy, baseline=f"file:{baseline}").verdict == "pass"


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("results.json", b"{", "results.json"),
        ("results.json", b'{"schema_version": 99}', "schema"),
        ("scores.parquet", b"PAR1", "per-image scores cannot be read"),
    ],
)
def test_a_broken_baseline_is_an_error_that_names_the_file(
    toy: Toy, baseline: Path, file: str, content: bytes, reason: str
) -> None:
    (baseline / file).write_bytes(content)
    result = record(toy, baseline=f"file:{baseline}")
    assert result.verdict == "error"
    assert reason in result.checks[0].reason


@pytest.mark.parametrize("how", ["shortened", "doubled", "renamed", "nan"])
def test_a_baseline_with_missing_doubled_or_broken_scores_is_an_error(toy: Toy, baseline: Path, how: str) -> None:
    path = baseline / "scores.parquet"
    rows = pq.read_table(path).to_pylist()
    if how == "shortened":
        rows.pop()
    elif how == "doubled":
        rows[1] |= {"set_id": rows[0]["set_id"], "member": rows[0]["member"]}
    elif how == "renamed":
        rows[0]["set_id"] = "elsewhere"
    else:
        rows[0]["value"] = float("nan")
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert record(toy, baseline=f"file:{baseline}").verdict == "error"


def test_an_error_run_still_leaves_its_record_and_page(toy: Toy) -> None:
    evaluation = publish(toy, "out", model="scores:none.csv?values=logit")
    assert evaluation.record.verdict == "error"
    assert sorted(path.name for path in (toy.root / "out").iterdir()) == [
        *("comment.md", "metrics.json", "report.html", "results.json")
    ]


def test_a_report_folder_that_cannot_be_written_leaves_the_verdict_and_says_so(toy: Toy) -> None:
    (toy.root / "file").write_text("in the way", encoding="utf-8")
    evaluation = publish(toy, "file/out")
    assert evaluation.record.verdict == "pass"
    assert "the report was not written, the verdict stands" in evaluation.messages[-1]


def test_a_flipped_byte_in_the_kept_scores_is_an_error(toy: Toy, baseline: Path) -> None:
    path = baseline / "scores.parquet"
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    value = columns["value"]
    data = bytearray(path.read_bytes())
    data[(value.dictionary_page_offset or value.data_page_offset) + value.total_compressed_size // 2] ^= 1
    path.write_bytes(data)
    assert record(toy, baseline=f"file:{baseline}").verdict == "error"


def test_scores_of_another_run_beside_the_record_are_an_error(toy: Toy, baseline: Path) -> None:
    publish(toy, "other", model=scores("biased"), baseline="none")
    (toy.root / "other" / "scores.parquet").replace(baseline / "scores.parquet")
    result = record(toy, baseline=f"file:{baseline}")
    assert result.verdict == "error"
    assert "not those that the baseline's results.json was made from" in result.checks[0].reason
    assert "from one run" in result.checks[0].reason


def test_a_renamed_column_in_the_kept_scores_is_an_error(toy: Toy, baseline: Path) -> None:
    path = baseline / "scores.parquet"
    pq.write_table(pq.read_table(path).rename_columns({"probe": "prope"}), path)
    result = record(toy, baseline=f"file:{baseline}")
    assert result.verdict == "error"
    assert "cannot be read" in result.checks[0].reason


def test_a_column_of_another_kind_in_the_kept_scores_is_an_error(toy: Toy, baseline: Path) -> None:
    path = baseline / "scores.parquet"
    rows = [{**row, "probe": row["probe"].encode()} for row in pq.read_table(path).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows), path)
    result = record(toy, baseline=f"file:{baseline}")
    assert result.verdict == "error"
    assert "column 'probe' is of type binary" in result.checks[0].reason


def test_a_baseline_whose_images_were_prepared_by_other_code_is_scored_again(toy: Toy, baseline: Path) -> None:
    results = baseline / "results.json"
    text = results.read_text(encoding="utf-8")
    assert '"preparation": "scores/1"' in text
    results.write_text(text.replace("scores/1", "scores/0"), encoding="utf-8")
    result = record(toy, baseline=f"file:{baseline}")
    assert result.verdict == "pass"
    assert result.baseline is not None
    assert "prepared by version 0 of scores:" in (result.baseline.rescored or "")


def test_a_group_that_the_release_no_longer_shows_is_an_error_and_no_pass(toy: Toy, baseline: Path) -> None:
    light = [row for row in rows(40) if row["skin_tone"] == "light"]
    release(toy, light, attributes={"skin_tone": ["light"], "gender": ["male", "female"]})
    kept = [line for line in SUITE.splitlines() if "skew" not in line]
    toy.write_suite("\n".join(kept))
    result = record(toy, baseline=f"file:{baseline}", model=scores("base"))
    assert result.verdict == "error"
    assert "skin_tone 'dark' was in the baseline's dataset 'toy/v1'" in result.checks[0].reason
    assert "does not show it any more" in result.checks[0].reason


def test_a_subject_that_the_release_no_longer_shows_is_an_error_and_no_pass(toy: Toy, baseline: Path) -> None:
    results = baseline / "results.json"
    text = results.read_text(encoding="utf-8")
    results.write_text(text.replace('"subject": "doctor"', '"subject": "surgeon"'), encoding="utf-8")
    result = record(toy, baseline=f"file:{baseline}")
    assert result.verdict == "error"
    assert "subject 'surgeon' was in the baseline's dataset" in result.checks[0].reason


def release(toy: Toy, kept: list[Mapping[str, object]], attributes: dict[str, list[str]] | None = None) -> None:
    """A second version of the toy's dataset, of some of its rows, with scores for exactly these."""
    write_dataset(
        toy.root / "datasets" / "toy" / "v2",
        iter(kept),
        name="toy",
        version="v2",
        attributes=attributes or {"skin_tone": ["light", "dark"], "gender": ["male", "female"]},
        recipe={"name": "toy"},
        licence="CC0-1.0",
        counterfactual=True,
    )
    wanted = {(row["set_id"], row["member"]) for row in kept}
    table = (toy.root / "base.csv").read_text(encoding="utf-8").splitlines()
    left = [line for line in table[1:] if tuple(line.split(",")[:2]) in wanted]
    (toy.root / "base.csv").write_text("\n".join([table[0], *left]) + "\n", encoding="utf-8")
