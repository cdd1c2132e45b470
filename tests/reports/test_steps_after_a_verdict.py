"""What to do next, in the terminal and the comment."""

from __future__ import annotations

from pathlib import Path

import pytest
import situations
import yaml

from fairgate.records import NeededApproval, WorstSet
from fairgate.reports import render_comment, terminal_summary
from fairgate.reports.next_steps import next_steps
from fairgate.reports.run_remarks import remarks


@pytest.mark.parametrize(("failed", "written", "more"), [(8, 8, 0), (12, 12, 0), (14, 12, 2)])
def test_every_failed_check_gets_its_waiver_and_of_many_the_rest_is_counted(
    failed: int, written: int, more: int
) -> None:
    checks = [situations.bounded(id=f"check-{at}") for at in range(failed)]
    (accept,) = [step for step in next_steps(situations.photographs(*checks)) if step.lines]
    waivers = yaml.safe_load("\n".join(accept.lines))["waivers"]
    assert [waiver["check"] for waiver in waivers] == [f"check-{at}" for at in range(written)]
    assert (f"# and {more} more" in accept.lines[-1]) == bool(more)


def test_a_waiver_in_a_comment_is_fenced_as_yaml_and_a_command_as_a_shells() -> None:
    text = render_comment(situations.by_title()["Accuracy of one group fell"])
    assert "```yaml\nwaivers:\n" in text
    assert "```sh\nfairgate audit" in text


def test_an_interval_that_reaches_over_a_bound_wants_more_images_of_the_groups_it_is_of() -> None:
    over = situations.by_title()["A bound inside of the interval"]
    assert [step.what for step in next_steps(over)] == [
        "to settle by-group: score more images (the bound is inside the interval)"
    ]
    groups = [situations.group("Black", None, 0.74, "inconclusive"), situations.group("White", None, 0.9, "pass")]
    check = situations.bounded(groups=groups, value=0.9, worst_group="White", verdict="inconclusive")
    (step,) = next_steps(situations.photographs(check))
    assert step.what == "to settle by-group: score more images (the bound is inside the interval of Black)"


@pytest.mark.parametrize(
    ("needed", "said"),
    [
        (900, "score about 900 images per group"),
        (
            2_645,
            "these images can decide a margin of 0.063 (merge it first); 0.02 takes about 2,645 images per group",
        ),
    ],
)
def test_of_many_more_images_than_there_are_the_margin_is_named_that_those_can_decide(needed: int, said: str) -> None:
    groups = [situations.group("Black", 0.82, 0.81, "inconclusive"), situations.group("White", 0.82, 0.82, "pass")]
    fields = {"verdict": "inconclusive", "delta": -0.01, "groups": groups, "worst_group": "Black"}
    check = situations.bounded(**situations.COMPARED, **fields, sets_needed=needed, margin_decided=0.0621)
    steps = [step.what for step in next_steps(situations.photographs(check))]
    assert any(step.startswith(f"to settle by-group: {said}") for step in steps), steps


def test_a_table_that_a_change_edits_is_compared_with_the_one_in_git_and_its_rows_are_looked_at() -> None:
    record = situations.by_title()["Accuracy of one group fell"]
    uri = "answers:runs/new.jsonl?answer=text"
    model = record.model.model_copy(update={"uri": uri, "precision": "precomputed"})
    baseline = record.baseline.model_copy(update={"uri": uri, "commit": "0123456789abcdef"})  # type: ignore[union-attr]
    dataset = record.dataset.model_copy(update={"pictures": False})
    worst = [WorstSet(set_id="q7", subject="job", spread=None, members=[])]
    checks = [check.model_copy(update={"worst_sets": worst}) for check in record.checks]
    what = "this change edits runs/new.jsonl, a table in git that main has"
    edits = [NeededApproval(kind="table", what=what, before="a", now="b")]
    parts = {"model": model, "baseline": baseline, "dataset": dataset, "checks": checks, "needs_approval": edits}
    look, compare, *_ = next_steps(record.model_copy(update=parts))
    assert look.what.startswith("look at the rows of the worst image")
    assert compare.lines == (
        "git show 0123456789ab:./runs/new.jsonl > before-new.jsonl",
        "fairgate audit occupations --model 'answers:before-new.jsonl?answer=text' --model "
        "'answers:runs/new.jsonl?answer=text'",
    )
    in_dvc = [edits[0].model_copy(update={"what": what.replace("git", "DVC")})]
    for without in (
        {"model": model.model_copy(update={"precision": "fp32"})},
        {"needs_approval": []},  # git ignores the table
        {"needs_approval": in_dvc},
    ):
        steps = next_steps(record.model_copy(update=parts | without))
        assert not any("git show" in line for step in steps for line in step.lines)


def test_a_comment_too_short_for_lines_to_copy_names_the_report_that_has_them() -> None:
    checks = [situations.bounded(id=f"check-{at}") for at in range(14)]
    text = render_comment(situations.photographs(*checks), max_chars=3_000)
    assert "waivers:" not in text
    assert "(report.html has the lines.)" in text


def test_without_a_report_the_terminal_says_how_to_get_one_and_not_where_it_would_be() -> None:
    record = situations.by_title()["Accuracy of one group fell"]
    worst = [WorstSet(set_id="q7", subject="job", spread=None, members=[])]
    record = record.model_copy(
        update={"checks": [check.model_copy(update={"worst_sets": worst}) for check in record.checks]}
    )
    without, written = "\n".join(terminal_summary(record)), "\n".join(terminal_summary(record, report=Path("out")))
    assert "next: run again with `--fairness-report fairness-report`, and look at the worst image" in without
    assert "report.html" not in without
    assert "look at the worst image in report.html: q7" in written


def test_where_gaps_have_signs_the_change_is_said_to_be_of_their_size() -> None:
    fields = {"metric": "answer_gap", "value": 0.017, "baseline": -0.05, "delta": -0.033, "verdict": "pass"}
    gap = situations.bounded(**(situations.COMPARED | fields))
    (noted,) = [remark.text for remark in remarks(situations.photographs(gap)) if "size" in remark.text]
    assert noted == "by-group: the change is of a gap's size, without its sign"
    level = gap.model_copy(update={"baseline": 0.05})
    assert not [remark for remark in remarks(situations.photographs(level)) if "size" in remark.text]


def test_of_a_painter_the_painted_pictures_are_looked_at() -> None:
    failed = situations.by_title()["A group is below its bound"]
    painter = failed.model_copy(update={"probes": {"labels": "generation:0"}})
    looked = "look at the pictures that it painted in report.html: by group as they were read, before and after"
    assert next_steps(painter)[0].what == looked
    assert not any("painted" in step.what for step in next_steps(failed))
