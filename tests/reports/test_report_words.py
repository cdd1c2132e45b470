"""Numbers and verdicts in words."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from example_records import (
    example_checks,
    example_record,
    failed_computation,
    fairness_check,
    gap_check,
    photographs_record,
    skew_check,
)

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number, p_value, signed
from fairgate.records import CheckResult, Coverage, Decision, NeededApproval, RunRecord
from fairgate.reports import common_cause, render_comment, render_html, terminal_summary
from fairgate.reports.formatting import bound_words, coverage_words, moment, totals, verdict_words, why_absent
from fairgate.reports.sentences import sentence


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.8123, "0.812"),
        (-0.31, "−0.310"),
        (0.0, "0.000"),
        (0.0002, "0.0002"),
        (-0.00001, "−≈0"),
        (12345.6, "12,346"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "–"),
        (None, "–"),
    ],
)
def test_numbers_have_sensible_digits_and_absence_is_never_zero(value: float | None, text: str) -> None:
    assert number(value) == text.replace("−≈", "≈")


def test_a_change_carries_its_sign_and_a_small_p_its_limit() -> None:
    assert (signed(0.012), signed(-0.3), signed(0.0), signed(None)) == ("+0.012", "−0.300", "0.000", "–")
    assert (p_value(0.0004), p_value(0.0314), p_value(None)) == ("<0.001", "0.031", "–")


def test_control_and_direction_characters_become_visible() -> None:
    assert clean("a\u202eb\x07\n c", 20) == "a�b� c"
    assert clean("abcdef", 4) == "abc…"


def test_an_intersectional_failure_names_the_group_and_how_far_it_fell(record: RunRecord) -> None:
    assert sentence(gap_check("doctor", "fail"), record) == (
        "doctor (hard_labels): dark × female 0.035 behind its set-mates before and 0.345 behind now; margin 0.040"
    )


def test_an_unsettled_check_lacks_sets_or_images_only_where_more_of_them_would_settle_it(record: RunRecord) -> None:
    thin = gap_check("pilot", "inconclusive")
    assert sentence(thin, record).endswith("margin 0.040; too few sets to tell (about 340 per group would be enough)")
    assert sentence(thin, photographs_record()).endswith(
        "margin 0.040; too few images to tell (about 340 per group would be enough)"
    )
    corrected_away = thin.model_copy(update={"sets_needed": None})
    assert sentence(corrected_away, record).endswith("margin 0.040; not settled")


def _regression(**changes: object) -> CheckResult:
    fields: dict[str, object] = {"rule": "no_worse_than", "bound": 0.02, "metric": "accuracy", "delta": -0.052}
    return fairness_check(None, 0.8, **(fields | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "accuracy fell by 0.052 against the baseline; margin 0.020"),
        ({"delta": 0.1, "metric": "max_skew_at_k"}, "MaxSkew rose by 0.100 against the baseline; margin 0.020"),
        ({"delta": 0.0}, "accuracy did not change against the baseline; margin 0.020"),
        ({"delta": None}, "accuracy was not compared: the baseline does not hold it"),
        ({"delta": None, "over": "race"}, "accuracy over race was not compared: the baseline does not hold it"),
        (
            {"worst_group": "dark"},
            "accuracy of the worst group, now dark, fell by 0.052 against the baseline; margin 0.020",
        ),
        (
            {"metric": "group_gap", "delta": 0.01},
            "the worst group gained 0.010 against its set-mates; margin 0.020",
        ),
    ],
)
def test_a_regression_is_said_in_plain_words(changes: dict[str, object], said: str, record: RunRecord) -> None:
    assert sentence(_regression(**changes), record) == f"all subjects (hard_labels): {said}"


def test_a_sentence_names_its_probe_where_there_are_several() -> None:
    one, other = (fairness_check(None, 0.7, probe=probe, verdict="fail") for probe in ("jobs", "guilt"))
    said = "fairness is 0.700 [0.680, 0.720]; required at least 0.850"
    assert sentence(one, example_record([one])) == said
    both = example_record([one, other])
    assert [sentence(check, both) for check in both.checks] == [f"jobs: {said}", f"guilt: {said}"]
    for text in (render_comment(both), render_html(both, None), "\n".join(terminal_summary(both))):
        assert f"guilt: {said}".replace("[", "") in text.replace("\\", "").replace("[", "")


def test_a_check_without_a_baseline_was_not_compared() -> None:
    check = _regression(delta=None, baseline=None)
    assert sentence(check, example_record([check], baseline=None)) == "accuracy was not compared: there is no baseline"


def test_a_run_that_asks_about_no_subject_says_nothing_about_all_subjects() -> None:
    alone = photographs_record()
    assert (
        sentence(alone.checks[0], alone)
        == "accuracy of dark × female fell by 0.310 (−0.035 to −0.345) against the baseline; margin 0.040"
    )


def test_absolute_checks_and_errors_are_said_in_plain_words(record: RunRecord) -> None:
    assert sentence(fairness_check("doctor", 0.79), record) == (
        "doctor (hard_labels): fairness is 0.790 [0.770, 0.810]; required at least 0.850"
    )
    assert sentence(skew_check("nurse", 0.78), record).endswith(
        "MaxSkew is 0.780 [0.660, 0.920] for light; required at most 0.600; a fair ranker has 0.200, 95% under 0.360"
    )
    assert "fairness could not be computed: 12 of 120 sets were not scored" in sentence(failed_computation(), record)


def test_an_absent_number_has_a_reason() -> None:
    with_base, without = example_record(), example_record(baseline=None)
    check = fairness_check(None, 0.9)
    assert why_absent(without, check, "delta") == "no baseline"
    assert why_absent(with_base, check, "baseline") == "the baseline has no number"
    assert why_absent(with_base, check, "delta") == "the baseline has no number"
    assert why_absent(with_base, check.model_copy(update={"status": "infinite"}), "delta") == "infinite"
    assert why_absent(with_base, check, "p_adjusted") == "not tested against the baseline"
    assert why_absent(with_base, check, "value") == "not measured"
    assert why_absent(with_base, failed_computation(), "value") == "could not be computed"


def test_single_images_are_counted_once() -> None:
    assert coverage_words(photographs_record()) == "all 72 images scored (2 prompts)"
    asked_nothing = Coverage(expected_sets=72, scored_sets=72, expected_images=72, scored_images=72, prompts=0)
    assert coverage_words(photographs_record(coverage=asked_nothing)) == "all 72 images scored"
    part = Coverage(
        expected_sets=72, scored_sets=0, expected_images=72, scored_images=70, prompts=2, missing=["2 of 72"]
    )
    assert coverage_words(photographs_record(coverage=part)) == "incomplete: 70 of 72 images scored"


def test_rows_that_a_sample_lacks_are_not_counted_as_scored() -> None:
    counts = {"expected_sets": 72, "scored_sets": 72, "expected_images": 72, "scored_images": 72, "prompts": 0}
    words = coverage_words(photographs_record(coverage=Coverage(**counts, lacking={"painted": 20})))
    assert words == "52 images scored; the sample of painted lacks 20 of 72 images"


def test_the_correction_has_its_published_name() -> None:
    for correction, name in (("holm", "step-down max-T"), ("bonferroni", "single-step max-T")):
        decision = Decision(alpha=0.05, correction=correction, seed=0, draws=4000)
        assert f"corrected by {name} over" in render_comment(example_record(decision=decision))


def test_verdicts_bounds_totals_and_moments_read_as_sentences_do() -> None:
    thin = [gap_check("pilot", "inconclusive")]
    assert verdict_words(example_record(thin)) == "inconclusive (counts as a failure)"
    assert verdict_words(example_record(thin, allow_inconclusive=True)) == "inconclusive (allowed here)"
    assert totals(example_record([])) == "no check was run"
    assert bound_words(fairness_check(None, 0.9, bound=None)) == "–"
    assert moment("2026-03-01T12:00:00+00:00") == "2026-03-01 12:00 UTC"
    assert moment("2026-03-01T12:00:00") == "2026-03-01 12:00"
    assert moment("some time") == "some time"


def test_one_error_behind_every_check_is_told_once_everywhere() -> None:
    reason = "the file is empty.\n  where:  a.safetensors\n  remedy: save it again"
    checks = [check.model_copy(update={"verdict": "error", "reason": reason}) for check in example_checks()]
    record = example_record(checks)
    assert common_cause(record) == reason
    assert common_cause(example_record(checks[:-1] + example_checks()[-1:])) is None
    for text in (render_comment(record), render_html(record, None), "\n".join(terminal_summary(record))):
        assert "othing could be computed" in text
        assert text.count("the file is empty") == 1 + ("<h1>" in text), "a page has a title, too"
        assert "remedy: save it again" in text
    assert "The check was not measured, and" in render_html(example_record(checks[:1]), None)


def test_a_check_that_is_harder_with_the_baselines_tokenizer_says_so_in_every_output() -> None:
    reason = "with the baseline's tokenizer (with its own: pass): fairness fell by 0.900"
    check = fairness_check("doctor", 0.1).model_copy(update={"reason": reason})
    assert sentence(check, example_record([check])).startswith(
        "doctor: with the baseline's tokenizer, fairness is 0.100"
    )


def test_the_command_that_approves_names_the_report_folder_where_there_is_one() -> None:
    asked = NeededApproval(kind="dataset", what="this change judges on v2", before="a" * 64, now="b" * 64)
    record = example_record().model_copy(update={"needs_approval": [asked]})
    lines = "\n".join(terminal_summary(record, report=Path("a report")))
    assert "aaaa" not in lines, "digests are in the comment and the page, where somebody reviews"
    assert "aaaaaaaaaaaa" in render_comment(record)
    assert f"on the default branch: fairgate approve {record.suite} --from 'a report' --reason TEXT" in lines
