"""Terminal, JUnit and GitHub: short forms of the same record."""

from __future__ import annotations

import io
import re

import pytest
from example_records import (
    HOSTILE,
    example_checks,
    example_record,
    failed_computation,
    fairness_check,
    gap_check,
    photographs_record,
    skew_check,
)
from rich.console import Console

from fairgate.records import Coverage, MemberResult, RunRecord
from fairgate.reports import (
    baseline_table,
    fitted,
    github_annotations,
    junit_properties,
    render_comment,
    render_html,
    sentence,
    terminal_summary,
    terminal_table,
)


def _printed(record: RunRecord, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(terminal_table(record, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_fits_a_hundred_columns_and_nothing_is_cut(record: RunRecord) -> None:
    shown = _printed(record)
    assert max(map(len, shown.splitlines())) <= 100
    assert "…" not in shown
    assert "[−0.331, −0.289]" in shown
    assert "Δ 0.040" in shown


def test_in_eighty_columns_nothing_is_cut_either(record: RunRecord) -> None:
    shown, whole = _printed(record, 80), _printed(record)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    for word in re.findall(r"[≥≤Δ] [0-9.]+|[✗!?✓] \w+|\[[−0-9][^]]+\]", whole):
        assert word in shown, f"a bound, a verdict or an interval that is not whole: {word}"
    for p in re.findall(r"(<?[0-9.]+) +[✗!?✓]", whole):
        assert f"adj. p {p}" in shown


@pytest.mark.parametrize("width", range(30, 110, 7))
def test_no_line_breaks_within_an_interval_two_values_or_a_margin(width: int) -> None:
    text = "✗ accuracy of dark fell by 0.120 (0.820 to 0.700), is 0.500 [0.470, 0.530]; margin 0.020; too few"
    lines = fitted(text, width)
    for whole in ("(0.820 to 0.700)", "[0.470, 0.530]", "margin 0.020"):
        assert any(whole in line for line in lines), lines
    assert " ".join(line.strip() for line in lines) == text


def test_a_check_that_only_lacks_a_baseline_says_so_in_its_row(record: RunRecord) -> None:
    changes = {"verdict": "inconclusive", "delta": None, "baseline": None, "groups": [], "worst_group": None}
    checks = [
        check.model_copy(update={**changes, "delta_lo": None, "delta_hi": None, "p_adjusted": None})
        if check.rule == "no_worse_than"
        else check
        for check in record.checks
    ]
    first = record.model_copy(update={"checks": checks, "baseline": None, "verdict": "inconclusive"})
    assert "? no baseline yet" in _printed(first, 80)
    assert "inconclusive" not in _printed(first)
    assert "without a baseline yet" in terminal_summary(first, first_baseline=True)[-1]
    for page in (render_comment(first), render_html(first, None)):
        text = re.sub(r"<[^>]+>", "", page)
        assert "? no baseline yet" in text
        assert "? inconclusive" not in text


def test_a_baselines_table_fits_eighty_columns_too(record: RunRecord) -> None:
    console = Console(width=80, file=io.StringIO(), force_terminal=False)
    console.print(baseline_table(record))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "…" not in shown
    assert [line for line in shown.splitlines() if len(line.split()) == 1 and len(line.strip()) < 4] == []


def test_long_names_of_checks_break_at_hyphens_and_before_the_subject() -> None:
    named = fairness_check("firefighter", 0.2, id="no-intersectional-regression")
    endless = fairness_check("x" * 50, 0.1)
    shown = [line.split("  ")[0].rstrip() for line in _printed(example_record([named, endless])).splitlines()[2:]]
    assert shown == [
        "no-intersectional-",
        "regression",
        "[firefighter]",
        "fairness",
        f"[{'x' * 19}",
        "x" * 20,
        f"{'x' * 11}]",
    ]
    wide = _printed(example_record([named]), 140)
    assert "no-intersectional-regression[firefighter]" in wide, "a wider terminal's columns are for names"


@pytest.mark.parametrize("width", [81, 99, 100, 121, 140])
def test_a_table_of_checks_fits_every_width(record: RunRecord, width: int) -> None:
    assert max(map(len, _printed(record, width).splitlines())) <= width


def test_what_failed_stands_above_what_passed(record: RunRecord) -> None:
    verdicts = [word for line in _printed(record).splitlines() for word in ("✗", "!", "?", "✓") if f"{word} " in line]
    assert verdicts == sorted(verdicts, key="✗!?✓".index)


def test_markup_and_control_codes_in_names_are_printed_and_do_nothing() -> None:
    shown = _printed(example_record([fairness_check("[red]x[/red]\x1b[31m", 0.2)]))
    assert "\x1b" not in shown
    assert "[red]" in shown


def test_the_summary_names_coverage_the_worst_set_and_the_command_and_ends_on_the_verdict(record: RunRecord) -> None:
    lines = terminal_summary(record)
    assert lines[-1] == (
        "✗ occupations: fail, and 1 check could not be computed "
        "(3 failed, 1 could not be computed, 1 inconclusive, 15 passed)"
    )
    assert lines[0] == "coverage: all 720 sets scored (5,760 images, 45 prompts)"
    assert any(line.startswith("worst set: doctor-0000") and "taken for nurse" in line for line in lines)
    assert any(line.startswith("reproduce: pytest --fairness-suite occupations") for line in lines)
    assert any(line.startswith("note: Demonstration data") for line in lines)
    assert not any("\n" in line or "\x1b" in line for line in lines)


def test_what_was_not_scored_is_named_and_counted() -> None:
    missing = [f"set-{i}" for i in range(7)]
    coverage = Coverage(
        expected_sets=10, scored_sets=3, expected_images=20, scored_images=6, prompts=1, missing=missing
    )
    lines = terminal_summary(example_record([failed_computation()], coverage=coverage))
    assert "coverage: incomplete: 3 of 10 sets, 6 of 20 images scored" in lines
    assert "missing: set-0, set-1, set-2, set-3, set-4 and 2 more" in lines


def test_many_failures_are_cut_short_in_the_summary() -> None:
    lines = terminal_summary(example_record([fairness_check(f"s{i}", 0.1) for i in range(24)]))
    assert "  and 14 more in the table" in lines


def test_a_worst_set_without_measured_members_is_still_named() -> None:
    check = gap_check("doctor", "fail")
    bare = check.worst_sets[0].model_copy(update={"members": []})
    lines = terminal_summary(example_record([check.model_copy(update={"worst_sets": [bare]})]))
    assert "worst set: doctor-0000 (no-intersectional-regression[doctor])" in lines


def test_a_worst_image_is_called_one_with_its_group_number_and_prediction() -> None:
    lines = terminal_summary(photographs_record())
    assert lines[0] == "coverage: all 72 images scored (2 prompts)"
    assert "worst image: val-0 (by-group): light × female, P(true) 0.020, taken for man" in lines


def test_an_answer_to_a_question_is_given_as_one_and_not_as_a_number() -> None:
    given = [("light", "yes", True), ("dark", "no", False), ("medium", "abstained", False)]
    members = [
        MemberResult(member=group, group=group, value=float(said != "abstained"), predicted=said, correct=right)
        for group, said, right in given
    ]
    check = gap_check("doctor", "fail")
    worst = check.worst_sets[0].model_copy(update={"members": members})
    record = example_record([check.model_copy(update={"worst_sets": [worst]})], probes={check.probe: "question:0"})
    said = "worst set: doctor-0000 (no-intersectional-regression[doctor]): light, answered “yes”; dark, answered “no”"
    assert said in terminal_summary(record)
    page = render_html(record, None)
    for said in ("answered “yes”", "answered “no”", ">abstained<"):
        assert said in page
    assert "answered 1.000" not in page
    assert "taken for “no”" not in page


def test_a_worst_set_of_a_check_over_all_subjects_names_its_subject() -> None:
    everywhere = gap_check("doctor", "fail").model_copy(update={"subject": None})
    lines = terminal_summary(example_record([everywhere, gap_check("pilot", "pass")]))
    said = (
        "worst set: doctor-0000 (doctor, no-intersectional-regression): dark × female, P(true) 0.120, taken for nurse"
    )
    assert f"{said}; light × female, 0.930" in lines


def test_what_a_run_without_baseline_needs_is_said_once() -> None:
    needed = "there is no baseline to compare with; give file:DIR"
    changes = {"delta": None, "baseline": None, "reason": needed}
    checks = [gap_check(subject, "inconclusive").model_copy(update=changes) for subject in ("doctor", "pilot")]
    lines = terminal_summary(example_record(checks, baseline=None))
    assert [line for line in lines if "give file:DIR" in line] == ["next: to compare, give file:DIR"]
    comment = render_comment(example_record(checks, baseline=None))
    for shown in (lines, comment.splitlines()):
        once = [line for line in shown if "there is no baseline" in line]
        assert [line.lstrip("- ") for line in once] == ["? 2 checks were not compared: there is no baseline"]


def test_junit_keeps_numbers_in_full_and_leaves_out_what_was_not_measured() -> None:
    kept = dict(junit_properties(fairness_check("doctor", 0.8123456789), example_record()))
    assert kept["fairgate.value"] == "0.8123456789"
    assert kept["fairgate.verdict"] == "fail"
    assert "fairgate.baseline" not in kept
    assert "fairgate.status" not in kept
    assert "fairgate.reason" not in kept
    assert kept["fairgate.finding"].startswith(sentence(fairness_check("doctor", 0.8123456789), example_record()))


def test_junit_of_an_error_has_no_value_and_no_control_codes() -> None:
    kept = dict(junit_properties(failed_computation(), example_record()))
    assert "fairgate.value" not in kept
    assert kept["fairgate.status"] == "absent"
    assert not any("\x1b" in text or "\n" in text for text in kept.values())


def test_annotations_are_one_line_each_and_only_ours(record: RunRecord) -> None:
    lines = github_annotations(record)
    assert len(lines) == 5
    assert all(line.startswith("::error title=") and "\n" not in line for line in lines)
    hostile = next(line for line in lines if "script" in line)
    title = hostile.removeprefix("::error title=").split("::")[0]
    assert ":" not in title
    assert "%3A%3Aerror" in title


def test_percent_signs_and_commas_are_escaped_where_github_reads_them() -> None:
    line = github_annotations(example_record([fairness_check("50%, a", 0.1)]))[0]
    assert line.startswith("::error title=occupations fairness[50%25%2C a]::50%25, a: fairness is")


@pytest.mark.parametrize(("allowed", "level"), [(True, "::warning"), (False, "::error")])
def test_an_inconclusive_check_warns_where_it_is_allowed(allowed: bool, level: str) -> None:
    record = example_record([gap_check("pilot", "inconclusive")], allow_inconclusive=allowed)
    assert [line.split(" ")[0] for line in github_annotations(record)] == [level]


def test_more_than_ten_annotations_say_how_many_are_not_shown() -> None:
    lines = github_annotations(example_record([fairness_check(f"s{i}", 0.1) for i in range(14)]))
    assert len(lines) == 10
    assert lines[-1] == "::error title=fairgate occupations::5 more; see the report"


def test_a_run_that_checked_nothing_is_annotated() -> None:
    assert len(github_annotations(example_record([]))) == 1
    assert not github_annotations(example_record([skew_check("chef", 0.3)]))


def test_hostile_text_is_in_the_example_so_that_these_tests_mean_something() -> None:
    assert any(check.subject == HOSTILE for check in example_checks())


@pytest.mark.parametrize("width", [60, 80, 100])
def test_prose_fits_a_narrow_terminal_and_a_command_stays_one_that_can_be_copied(width: int) -> None:
    record = example_record([gap_check("doctor", "fail")], notices=["label temperature: " + "changed a lot " * 20])
    for line in terminal_summary(record):
        parts = fitted(line, width)
        assert " ".join("\n".join(parts).replace("\\\n", " ").split()) == " ".join(line.split())
        if line.startswith(("notice: ", "reproduce: ", "\u2717 ", "next: ", "worst set: ")):
            assert max(map(len, parts)) <= max(width, 64), parts


@pytest.mark.parametrize(
    "line",
    [
        "MLflow: run c7c159a2b21046f182987afb2990a2eb in fairgate/jobs, sqlite:///fairgate.db (a new database)",
        "jobs: measured; what needs a baseline is decided from the next run on (3 inconclusive, 1 passed)",
    ],
    ids=["MLflow", "first baseline"],
)
def test_lines_that_end_a_run_fit_eighty_columns(line: str) -> None:
    assert max(map(len, fitted(line, 80))) <= 80


def test_a_word_with_a_blank_is_never_broken_in_a_command() -> None:
    line = "reproduce: fairgate check jobs --model 'vlm:m?question=What --job is it, of all those?' --report here"
    first, second, third = fitted(line, 60)
    assert first == "reproduce: fairgate check jobs \\"
    assert second == "    --model 'vlm:m?question=What --job is it, of all those?' \\"
    assert third == "    --report here"
    assert fitted("  waivers:", 4) == ["  waivers:"]
