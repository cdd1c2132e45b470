"""A baseline that somebody wrote by hand is refused: it says what its scores do not, or belongs to other data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toy_repository import Toy
from trust_world import check, shut

Record = dict[str, Any]


@pytest.fixture
def forge(toy: Toy) -> Callable[[Callable[[Record], object]], str]:
    """Make an honest baseline, change its record, and say why the gate shuts."""
    model = ("--model", "scores:base.csv?values=logit")
    assert check(toy, *model, "--baseline", "none").exit_code in (0, 1)
    (toy.root / "out").rename(toy.root / "kept")
    path = toy.root / "kept" / "results.json"

    def forged(change: Callable[[Record], object]) -> str:
        record = json.loads(path.read_text(encoding="utf-8"))
        change(record)
        path.write_text(json.dumps(record), encoding="utf-8")
        return shut(toy, check(toy, "--baseline", "file:kept"))

    return forged


def fail_a_check(record: Record) -> None:
    record["checks"][0]["verdict"] = "fail"
    record["verdict"] = "pass"


def test_a_pass_over_failing_checks_is_refused(forge: Callable[..., str]) -> None:
    forge(fail_a_check)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["coverage"].update(scored_sets=10**6),
        lambda record: record["coverage"].update(scored_images=-1),
        lambda record: record["checks"].clear(),
        lambda record: record["checks"].append(record["checks"][0]),
        lambda record: record.update(schema_version=2),
        lambda record: record.update(verdict="passed"),
        lambda record: record.update(surprise=1),
        lambda record: record.update(scores_digest="0" * 64),
        lambda record: record.update(scores_digest=None),
        lambda record: record["checks"][0].update(value="0.9"),
    ],
)
def test_a_record_that_contradicts_itself_or_its_scores_is_refused(
    forge: Callable[..., str], change: Callable[[Record], object]
) -> None:
    forge(change)


def test_scores_that_are_not_the_records_are_refused(toy: Toy, forge: Callable[..., str]) -> None:
    other = toy.root / "other"
    assert check(toy, "--model", "scores:biased.csv?values=logit", "--baseline", "none").exit_code == 1
    (toy.root / "out").rename(other)
    (toy.root / "kept" / "scores.parquet").write_bytes((other / "scores.parquet").read_bytes())
    assert "scores" in forge(lambda _: None)


def test_a_record_of_other_data_does_not_choose_which_file_is_read(
    toy: Toy, forge: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.csv"
    secret.write_text("THE-SECRET,b\n1,2\n")

    def other_data(record: Record) -> None:
        record["dataset"]["fingerprint"] = "0" * 64
        record["model"]["uri"] = f"scores:{secret}?values=logit"

    reason = forge(other_data)
    assert "names a file outside of the repository" in reason
    assert "THE-SECRET" not in reason
    assert "THE-SECRET" not in (toy.root / "out" / "report.html").read_text(encoding="utf-8")


def test_a_baseline_that_is_not_there_says_so(toy: Toy) -> None:
    for target in ("file:nowhere", "file:/etc/passwd", "file:../../..", "file:tuned.csv", "file:/dev/null"):
        shut(toy, check(toy, "--baseline", target))


def test_the_files_of_a_forged_baseline_are_left_as_they_are(toy: Toy, forge: Callable[..., str]) -> None:
    before = {path: path.read_bytes() for path in Path(toy.root / "kept").iterdir() if path.name != "results.json"}
    forge(fail_a_check)
    assert {path: path.read_bytes() for path in before} == before
