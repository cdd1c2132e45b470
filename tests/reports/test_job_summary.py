"""The summary page of a job: suites one after another, and never more than GitHub shows."""

from __future__ import annotations

from pathlib import Path

from example_records import example_record, fairness_check

from fairgate.reports import job_summary
from fairgate.reports.run_comment import MAX_BYTES, append_summary


def test_several_suites_stand_one_after_another(tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    page.write_text("what stood there\n", encoding="utf-8")
    first, second = example_record(), example_record([fairness_check("doctor", 0.99)])
    assert append_summary(first, page) is None
    assert append_summary(second, page) is None
    assert page.read_text(encoding="utf-8") == f"what stood there\n{job_summary(first)}\n{job_summary(second)}\n"


def test_little_room_takes_the_short_form_and_none_takes_nothing(tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    page.write_bytes(b"x" * (MAX_BYTES - 5_000))
    assert append_summary(example_record(), page) is None
    assert 0 < page.stat().st_size - (MAX_BYTES - 5_000) < 5_000
    page.write_bytes(b"x" * (MAX_BYTES - 10))
    assert append_summary(example_record(), page) == "the job summary is full; the report has the rest"
    assert page.stat().st_size == MAX_BYTES - 10


def test_a_page_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    trouble = append_summary(example_record(), tmp_path)
    assert trouble is not None
    assert "the verdict stands" in trouble
