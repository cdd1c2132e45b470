"""Every failing group is named in every output, and every group that is too small to judge, with its count."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pytest
from example_records import VICIOUS, example_record, gap_check
from rich.console import Console
from test_team_records import outputs

from fairgate.interfaces.pytest_plugin.items import explain_check
from fairgate.records import CheckResult, GroupResult, RunRecord, Verdict
from fairgate.reports import junit_properties, render_comment, render_html, terminal_table
from fairgate.reports.formatting import shown_group
from fairgate.reports.sentences import by_attribute, sentence


def group(
    name: str, value: float, verdict: Verdict | None, sets: int = 60, attribute: str = "race × gender"
) -> GroupResult:
    return GroupResult(
        group=name, attribute=attribute, value=value, verdict=verdict, n_images=sets, n_sets=sets, lo=value, hi=value
    )


def bounded(groups: Sequence[GroupResult], verdict: Verdict = "fail", **changes: object) -> CheckResult:
    judged = [one for one in groups if one.n_sets >= 30]
    worst = min(judged, key=lambda one: one.value or 0.0)
    fields: dict[str, object] = {
        "id": "by-group",
        "subject": None,
        "metric": "accuracy",
        "probe": "hard_labels",
        "over": "race × gender",
        "rule": "at_least",
        "better": "higher",
        "value": worst.value,
        "lo": 0.4,
        "hi": 0.7,
        "bound": 0.75,
        "verdict": verdict,
        "n_sets": 700,
        "min_sets": 30,
        "reason": f"accuracy is {worst.value:.3f} ({worst.group})",
        "worst_group": worst.group,
        "groups": list(groups),
    }
    return CheckResult(**(fields | changes))


TWO = [
    group("Black × Female", 0.6, "fail"),
    group("Black × Male", 0.55, "fail"),
    group("White × Male", 0.9, "pass"),
    group("other × Male", 0.2, "inconclusive", sets=5),
]
BOTH = "accuracy is 0.550 [0.400, 0.700] for Black × Male, 0.600 for Black × Female; required at least 0.750"
SMALL = "too few sets to judge other × Male (5 of 30)"


@pytest.fixture(scope="module")
def record() -> RunRecord:
    return example_record([bounded(TWO)])


def test_two_failing_groups_and_a_small_one_are_named_in_every_output(record: RunRecord) -> None:
    for name, text in outputs(record).items():
        assert BOTH in text, name
        assert SMALL in text, name
    assert sentence(record.checks[0], record) == f"{BOTH}; {SMALL}"


def test_a_small_group_is_named_where_nothing_fails() -> None:
    record = example_record([bounded([group("White × Male", 0.9, "pass"), TWO[3]], "inconclusive")])
    for name, text in outputs(record).items():
        assert SMALL in text, name


def test_two_groups_that_fell_are_named_with_how_far() -> None:
    check = gap_check("doctor", "fail")
    also = {"verdict": "fail", "delta": -0.12, "baseline": 0.05, "value": -0.07}
    fallen = [one.model_copy(update=also) if one.group == "light × male" else one for one in check.groups]
    two = check.model_copy(update={"groups": fallen})
    record = example_record([two])
    assert sentence(two, record) == (
        "doctor: dark × female 0.035 behind its set-mates before and 0.345 behind now, "
        "light × male 0.050 ahead before and 0.070 behind now; margin 0.040"
    )
    accuracy = two.model_copy(update={"metric": "accuracy"})
    moved = "of dark × female fell by 0.310 (−0.035 to −0.345), of light × male fell by 0.120 (0.050 to −0.070)"
    assert f"accuracy {moved}, against the baseline; margin 0.040" in sentence(accuracy, record)


def test_a_sentence_says_which_group_answer_or_label_the_number_is_of() -> None:
    fell = {"rule": "no_worse_than", "bound": 0.1, "value": 0.2, "delta": -0.358}
    check = bounded(TWO, metric="perceived_share", over=None, counted="female", **fell)
    check = check.model_copy(update={"groups": [], "worst_group": None})
    record = example_record([check])
    said = "perceived share of female fell by 0.358 against the baseline; margin 0.100"
    assert sentence(check, record).startswith(said)
    for name, text in outputs(record).items():
        assert said in text, name
    one = check.model_copy(update={"metric": "answer_share", "counted": "'nurse'"})
    assert sentence(one, record).startswith("answer share of 'nurse' fell by 0.358")
    known = check.model_dump(mode="json")
    del known["counted"]
    assert CheckResult.model_validate(known).counted is None, "records of before are read"


def test_a_comparison_that_only_small_groups_leave_open_says_so_as_the_reason() -> None:
    few = group("East Asian", 0.5, "inconclusive", sets=5).model_copy(update={"delta": 0.0})
    fields = {"rule": "no_worse_than", "bound": 0.03, "worst_group": "East Asian", "delta": 0.0}
    check = bounded([TWO[3].model_copy(update={"verdict": "pass", "n_sets": 60}), few], "inconclusive", **fields)
    record = example_record([check])
    wanted = (
        "did not change against the baseline; margin 0.030; not settled: too few sets to judge East Asian (5 of 30)"
    )
    assert sentence(check, record).endswith(wanted)
    large = check.model_copy(update={"worst_group": None, "delta_lo": -0.5, "delta_hi": 0.5})
    assert "not settled; too few sets" in sentence(large, record), "its own interval is open, too"


def test_an_average_over_subjects_names_the_groups_beyond_the_bound() -> None:
    check = bounded(TWO, metric="min_skew_at_k", value=0.5)
    assert "beyond it on average: Black × Male 0.550, Black × Female 0.600" in sentence(check, example_record([check]))


def test_a_dozen_failing_groups_are_counted_in_a_line_and_all_in_the_tables() -> None:
    many = [group(f"g{at:02d}", 0.3 + at / 100, "fail") for at in range(12)]
    record = example_record([bounded(many)])
    told = outputs(record)
    for name in ("terminal", "annotations"):
        assert "0.320 for g02" in told[name]
        assert "and 9 more groups" in told[name]
        assert "g03" not in told[name].partition("by-group")[0]
    for name in ("comment", "summary", "page"):
        assert all(f"g{at:02d}" in told[name] for at in range(12)), name
    lines = explain_check(record.checks[0], record)
    assert sum(line.startswith("  > g") for line in lines) == 12


def test_tables_list_groups_by_attribute_the_worst_first() -> None:
    groups = [
        group("Black", 0.8, "pass", attribute="race"),
        group("White", 0.6, "fail", attribute="race"),
        group("Female", 0.9, "pass", attribute="gender"),
        group("Male", 0.5, "fail", attribute="gender"),
    ]
    check = bounded(groups, over="race; gender")
    listed = [(attribute, [one.group for one in members]) for attribute, members in by_attribute(check)]
    assert listed == [("race", ["White", "Black"]), ("gender", ["Male", "Female"])]
    record = example_record([check])
    assert "accuracy is 0.500 [0.400, 0.700] for Male, 0.600 for White;" in sentence(check, record)
    rows = [line for line in render_comment(record).splitlines() if line.startswith(("| ✗", "| ✓"))]
    named = ["race: White", "race: Black", "gender: Male", "gender: Female"]
    assert [row.split("|")[2].strip() for row in rows[1:]] == named
    cell = r'scope="row(?:group)?"[^>]*>(?:<span[^>]*>.</span> )?(race|gender|White|Black|Male|Female)<'
    headed = re.findall(cell, _page(record))
    assert headed == ["race", "White", "Black", "gender", "Male", "Female"]


def test_several_attributes_read_as_a_list() -> None:
    check = bounded([group("Black", 0.8, "pass")], "pass", over="gender; race; age")
    assert sentence(check, example_record([check])).startswith("accuracy over gender, race and age is 0.800")


def test_a_record_from_before_groups_had_verdicts_names_its_worst_group() -> None:
    old = [one.model_copy(update={"verdict": None, "attribute": None}) for one in TWO[:3]]
    check = bounded(old, min_sets=None)
    assert sentence(check, example_record([check])).startswith("accuracy is 0.550 [0.400, 0.700] for Black × Male;")


def test_a_check_without_groups_that_is_too_small_says_so() -> None:
    none: dict[str, object] = {"groups": [], "over": None, "worst_group": None, "n_sets": 12}
    check = bounded(TWO, "inconclusive").model_copy(update=none)
    assert sentence(check, example_record([check])).endswith("; only 12 sets, and a verdict takes 30")


def test_junit_and_pytest_name_every_failing_group(record: RunRecord) -> None:
    (check,) = record.checks
    kept = dict(junit_properties(check, record))
    assert kept["fairgate.failing_groups"] == "Black × Male; Black × Female"
    assert kept["fairgate.undecided_groups"] == "other × Male"
    lines = explain_check(check, record)
    assert [line.split()[1] for line in lines if line.startswith("  > ")] == ["Black", "Black"]
    assert any("5 sets, too few to judge (groups.min_sets: 30)" in line for line in lines)


def test_hostile_names_of_groups_act_nowhere() -> None:
    check = bounded([group(VICIOUS, 0.5, "fail"), group(f"{VICIOUS} 2", 0.6, "fail")])
    record = example_record([check])
    assert "<script>" not in _page(record)
    assert "<script>" not in render_comment(record)
    assert not any("\x1b" in line or line.startswith("::") for line in explain_check(check, record))


def _page(record: RunRecord) -> str:
    return render_html(record, None)


def test_the_page_marks_a_group_that_is_too_small(record: RunRecord) -> None:
    text = re.sub(r"\s+", " ", _page(record))
    assert "too few: 5, judged from 30" in text


def test_a_row_says_which_group_its_numbers_are_of() -> None:
    """With a baseline they are of the group that fell most, without one of the worst: else they seem to differ."""
    groups = [
        gap_group("dark × female", -0.25, -0.24),
        gap_group("light × male", -0.05, 0.03),
    ]
    compared = gap_check("doctor", "fail").model_copy(
        update={"groups": groups, "worst_group": "light × male", "value": -0.05, "baseline": 0.03, "delta": -0.08}
    )
    alone = compared.model_copy(
        update={
            "id": "alone",
            "groups": [one.model_copy(update={"baseline": None}) for one in groups],
            "worst_group": "dark × female",
            "value": -0.25,
            "delta": None,
            "baseline": None,
        }
    )
    other = compared.model_copy(update={"value": -0.25, "worst_group": "dark × female"})
    of_all = compared.model_copy(update={"id": "mean", "value": -0.15})
    record = example_record([compared, alone, of_all])
    assert [shown_group(check) for check in record.checks] == ["light × male", "dark × female", ""]
    assert shown_group(other) == "dark × female, before: light × male"
    comment = render_comment(record)
    assert f"| {compared.item.replace('[', chr(92) + '[').replace(']', chr(92) + ']')} of light × male |" in comment
    page = render_html(record, None)
    assert page.count("<dt>Group</dt><dd>light × male</dd>") == page.count("<dt>Group</dt><dd>dark × female</dd>") == 1
    for width in (80, 120):
        console = Console(width=width, file=io.StringIO())
        console.print(terminal_table(record, width))
        table = console.file.getvalue()
        assert "of light × male" in re.sub(r"\s+", " ", table) or "of light ×" in table
        assert max(map(len, table.splitlines())) <= width


def gap_group(name: str, value: float, baseline: float) -> GroupResult:
    return group(name, value, "fail").model_copy(update={"baseline": baseline})
