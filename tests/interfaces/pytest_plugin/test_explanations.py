"""What a failing item prints: the finding, the groups, the loudest set."""

from __future__ import annotations

import pytest
from example_records import example_record
from toy_repository import SUITE, toy_repository, write_scores_table

from fairgate.interfaces.pytest_plugin.fixture import Measured
from fairgate.interfaces.pytest_plugin.items import explain_check
from fairgate.records import NO_VERDICT, CheckResult, GroupResult


def test_many_groups_are_cut_and_the_report_is_named() -> None:
    groups = [GroupResult(group=f"g{number}", value=0.5, lo=0.4, hi=0.6, n_images=9, n_sets=9) for number in range(15)]
    check = CheckResult(
        id="worst",
        subject=None,
        metric="accuracy",
        probe="p",
        rule="at_least",
        value=0.5,
        bound=0.9,
        verdict="fail",
        n_sets=9,
        reason="accuracy is 0.500",
        worst_group="g3",
        groups=groups,
    )
    lines = explain_check(check, example_record([check]))
    assert lines[0].startswith("fail: accuracy is 0.500 for g3; required at least 0.900")
    assert any(line.startswith("  > g3") and "[0.400, 0.600]" in line for line in lines)
    assert lines[-1] == "  ... and 3 more groups in report.html"
    lines = explain_check(check.model_copy(update={"groups": groups[:13]}), example_record([check]))
    assert lines[-1] == "  ... and 1 more group in report.html"


def test_numbers_are_written_as_in_reports() -> None:
    fell = {"value": 0.0002, "baseline": 0.05, "delta": -0.0498, "delta_lo": -0.06, "delta_hi": 0.00001}
    group = GroupResult(group="female", **fell, n_images=9, n_sets=9, verdict="fail")
    check = CheckResult(
        id="worst",
        subject=None,
        metric="accuracy",
        probe="p",
        rule="no_worse_than",
        value=0.0002,
        bound=0.01,
        verdict="fail",
        n_sets=9,
        reason="fell",
        groups=[group],
    )
    shown = [line for line in explain_check(check, example_record([check])) if "female" in line]
    assert "now 0.0002  baseline 0.050  delta −0.050 [−0.060, ≈0]" in shown[0]


def test_a_defect_keeps_its_traceback(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    toy_repository(pytester.path)
    pytester.makeini("[pytest]\n")

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("fairgate.gate.evaluate", broken)
    result = pytester.runpytest("--fairness-suite", "jobs", "--fairness-mlflow", "off")
    assert result.ret == NO_VERDICT
    result.stdout.fnmatch_lines(["*ZeroDivisionError: a defect*"])


def test_chance_and_ties_are_in_the_sentence_and_a_missing_interval_is_under_it() -> None:
    check = CheckResult(
        id="skew",
        subject="doctor",
        metric="min_skew_at_k",
        k=60,
        probe="p",
        rule="at_least",
        better="higher",
        value=-0.9,
        interval="no interval: its share is unseen",
        bound=-0.5,
        null_median=-0.1,
        null_p95=-0.3,
        tie_at_k=True,
        tie_lo=-1.2,
        tie_hi=-0.4,
        verdict="fail",
        n_sets=9,
        reason="min skew at 60 is −0.900",
    )
    finding, missing = explain_check(check, example_record([check]))
    assert "a fair ranker has −0.100, 95% over −0.300" in finding
    assert "equal scores at the cut: −1.200 to −0.400 by the order of files" in finding
    assert missing == "no interval: its share is unseen"
    shown = repr(Measured(check))
    assert shown.startswith("min_skew_at_60 for doctor = −0.900 no interval: its share is unseen over 9 sets; a fair")


def test_the_short_summary_and_junit_name_every_failing_group(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")  # pytest cuts the line to the terminal's width elsewhere
    planted = {("doctor", tone, "female"): 2.5 for tone in ("light", "dark")}
    toy = toy_repository(pytester.path)
    write_scores_table(toy.root / "two.csv", 40, seed=3, planted=planted)
    pytester.makeini("[pytest]\n")
    check = "{id: each, probe: labels, metric: accuracy, over: crossed, by: subject, at_least: 0.9}"
    toy.write_suite(SUITE.replace("checks:", f"checks:\n  - {check}"))
    words = ("--fairness-suite", "jobs", "--fairness-model", "scores:two.csv?values=logit", "--fairness-mlflow", "off")
    result = pytester.runpytest(*words, "--fairness-cache", "off", "--junitxml", "j.xml", "-k", "each and doctor")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    both = "FAILED *::each[[]doctor] - fail: *accuracy is *for *female, * for *female; required at least 0.900"
    result.stdout.fnmatch_lines([both])
    said = (pytester.path / "j.xml").read_text(encoding="utf-8")
    assert "light × female" in said
    assert "dark × female" in said
