"""Lines over runs, boxes over subjects and forests of group effects: drawn where there is something to draw."""

from __future__ import annotations

import math
import re
import time
from dataclasses import replace

import pytest
from example_records import (
    GROUPS,
    SUBJECTS,
    example_history,
    example_record,
    fairness_check,
    gap_check,
    skew_check,
    team_record,
)

from fairgate.metrics.limits import WORST
from fairgate.records.history import PastValue
from fairgate.reports import render_html
from fairgate.reports.charts import MOST_POINTS, scale_for, sparks_of
from fairgate.reports.data_table import Table
from fairgate.reports.formatting import OF_WORST
from fairgate.reports.run_tables import MOST_ROWS, effect_tables, group_key, subject_tables


def point(run: int, value: float | None, *, bound: float | None = 0.85, item: str = "fairness") -> PastValue:
    created_at = f"2026-01-{run + 1:02d}T00:00:00+00:00"
    return PastValue(f"{run:040x}", created_at, item, value, None, None, bound)


def test_a_line_over_runs_ends_in_this_run_and_says_where_it_moved_most() -> None:
    record = example_record([fairness_check(None, 0.79)])
    spark = sparks_of(record, [point(0, 0.91), point(1, 0.9), point(2, 0.8)])["fairness"]
    assert spark.said == (
        "4 runs from 2026-01-01 00:00 UTC to 2026-03-01 12:00 UTC",
        "first 0.910, now 0.790, lowest 0.790, highest 0.910",
        "moved most, by −0.100, at 0000000000",
    )
    assert spark.line.count("L") == 3
    assert spark.bounds.count("M") == 4


def test_a_checkpoint_that_changed_without_a_commit_is_named_where_it_moved_most() -> None:
    record = example_record([fairness_check(None, 0.79)])
    place = record.environment.model_copy(update={"git_commit": "a" * 40})
    record = record.model_copy(update={"environment": place})
    before = replace(point(0, 0.91), commit="a" * 40, model="9" * 64)
    (_, _, moved) = sparks_of(record, [before])["fairness"].said
    assert moved == f"moved most, by −0.120, at aaaaaaaaaa with checkpoint {record.model.fingerprint[:8]}"
    same = replace(before, model=record.model.fingerprint)
    assert sparks_of(record, [same])["fairness"].said[-1] == "moved most, by −0.120, at aaaaaaaaaa"


def test_places_on_the_line_keep_their_order() -> None:
    record = example_record([fairness_check(None, 0.5, lo=None, hi=None, bound=None)])
    spark = sparks_of(record, [point(0, 0.9, bound=None), point(1, 0.7, bound=None)])["fairness"]
    places = [tuple(map(float, one.split())) for one in spark.line.removeprefix("M").split("L")]
    assert [x for x, _ in places] == [2.0, 50.0, 98.0]
    heights = [y for _, y in places]
    assert heights == sorted(heights), "a lower number stands lower, at a larger y"
    assert spark.bounds == spark.intervals == ""


@pytest.mark.parametrize(
    "history",
    [
        [],
        [point(0, None)],
        [point(0, math.inf)],
        [point(0, 0.9, item="another")],
        [PastValue("a", "2026-03-01T12:00:00+00:00", "fairness", 0.9, None, None, None)],
    ],
    ids=["no run", "nothing measured", "infinite", "another check", "this very run"],
)
def test_fewer_than_two_numbers_are_no_history(history: list[PastValue]) -> None:
    record = example_record([fairness_check(None, 0.9)])
    assert sparks_of(record, history) == {}
    assert "Over runs" not in render_html(record, None, history)


def test_an_interval_of_all_numbers_is_not_drawn_and_says_why() -> None:
    check = gap_check("doctor", "inconclusive")
    groups = [one.model_copy(update={"delta_lo": -math.inf, "delta_hi": math.inf}) for one in check.groups]
    endless = check.model_copy(update={"groups": groups, "delta_lo": -math.inf, "delta_hi": math.inf})
    page = render_html(example_record([endless]), None)
    assert "(too few for an interval)" in page
    assert "[−∞, ∞]" not in page
    track = scale_for([0.0, 1.0]).track(0.5, -math.inf, math.inf)
    assert (track.lo, track.hi) == (None, None)
    assert scale_for([0.0, 1.0]).track(0.5, 0.25, 0.75).lo is not None


def test_a_headline_that_is_wider_than_its_groups_row_says_why() -> None:
    check = gap_check("doctor", "fail")
    wider = check.model_copy(update={"interval": f"95% bootstrap, {OF_WORST}", "lo": check.lo - 0.1})
    said = "wider than the row&#39;s: it allows for the choice of the worst group"
    assert said in render_html(example_record([wider]), None)
    assert said not in render_html(example_record([check.model_copy(update={"interval": f"95%, {OF_WORST}"})]), None)
    assert OF_WORST == WORST


def test_a_bound_that_changed_is_drawn_as_it_was_and_said() -> None:
    record = example_record([fairness_check(None, 0.9)])
    spark = sparks_of(record, [point(0, 0.9, bound=0.8), point(1, 0.9, bound=None)])["fairness"]
    assert spark.bounds.count("M") == 2
    assert spark.said[-1] == "its bound changed on the way"


def test_a_margin_is_no_line_beside_values_and_a_run_of_no_commit_is_named_by_its_time() -> None:
    record = example_record([gap_check("doctor", "fail")])
    name = record.checks[0].item
    points = [PastValue(None, f"2026-01-0{day}T00:00:00+00:00", name, 0.1 * day, 0.0, 0.5, 0.04) for day in (1, 5)]
    spark = sparks_of(record, points)[name]
    assert spark.bounds == ""
    assert spark.intervals.count("M") == 3
    points[1] = PastValue(None, "2026-01-05T00:00:00+00:00", name, 5.0, None, None, 0.04)
    assert (
        "at 2026-03-01 12:00 UTC"
        in sparks_of(
            example_record([record.checks[0]], environment=record.environment.model_copy(update={"git_commit": None})),
            points,
        )[name].said[2]
    )


def test_of_many_runs_the_last_are_drawn() -> None:
    record = example_record([fairness_check(None, 0.9)])
    many = [PastValue("c", f"2025-01-01T00:{i:02d}:00+00:00", "fairness", i / 100, None, None, None) for i in range(60)]
    spark = sparks_of(record, [*many, *many])["fairness"]
    assert spark.said[0].startswith(f"{MOST_POINTS} runs ")


def test_history_stands_beside_checks_that_failed_and_that_passed() -> None:
    record = team_record()
    text = render_html(record, None, example_history(record))
    assert text.count(">Over runs<") == len(record.checks)
    assert text.count('class="runs"') == len(record.checks)


def boxes(table: Table) -> dict[str, str]:
    return {line.name: line.look for line in table.lines if line.look}


def test_the_baselines_box_stands_under_this_runs_with_its_numbers_in_words() -> None:
    values = dict(zip(SUBJECTS, (0.42, 0.78, 0.31, 0.37, 0.25, 0.55), strict=True))
    strip = subject_tables([skew_check(subject, value) for subject, value in values.items()])[0]
    assert boxes(strip) == {"all subjects, now": "box now", "all subjects, baseline": "box baseline"}
    assert strip.note == (
        "MaxSkew over skin_tone; 6 subjects: median 0.395, from 0.250 to 0.780; "
        "baseline: median 0.365, from 0.220 to 0.750"
    )
    few = [skew_check(subject, values[subject]) for subject in SUBJECTS[:3]]
    bare = [few[0].model_copy(update={"baseline": None}), *few[1:]]
    assert boxes(subject_tables(bare)[0]) == {"all subjects": "box now"}
    changes = [gap_check(subject, "pass") for subject in SUBJECTS[:3]]
    assert boxes(subject_tables(changes)[0]) == {"all subjects": "box now"}


def test_checks_against_the_anchor_are_drawn_apart() -> None:
    assert ["@anchor" in strip.head for strip in subject_tables(team_record().checks)] == [False, True, False]
    page = render_html(team_record(), None)
    assert "change against the anchor; 4 subjects" in re.sub(r"\s+", " ", page)


def test_group_effects_are_told_worst_first_over_all_subjects() -> None:
    checks = [gap_check(subject, "fail" if subject == "doctor" else "pass") for subject in SUBJECTS]
    ((effects, heat),) = effect_tables(checks, group_key(example_record().dataset), 40)
    assert len(effects.lines) == MOST_ROWS
    assert f"the {MOST_ROWS} worst of {len(SUBJECTS) * len(GROUPS)}" in effects.note
    assert [(line.name, line.cells[0].text) for line in effects.lines[:2]] == [
        ("doctor", "dark × female"),
        ("pilot", "dark × female"),
    ]
    deltas = [line.cells[2].value for line in effects.lines]
    assert deltas == sorted(deltas, key=lambda delta: delta or 0.0)
    assert heat is not None
    assert [column.shown for column in heat.columns] == list(GROUPS)
    assert [line.name for line in heat.lines] == list(SUBJECTS)


def test_where_more_is_worse_the_largest_change_is_first() -> None:
    checks = [gap_check(subject, "pass").model_copy(update={"better": "lower"}) for subject in SUBJECTS[:2]]
    ((effects, _),) = effect_tables(checks, group_key(example_record().dataset), 40)
    deltas = [line.cells[2].value or 0.0 for line in effects.lines]
    assert deltas == sorted(deltas, reverse=True)


def test_one_subject_or_no_comparison_has_no_forest() -> None:
    key = group_key(example_record().dataset)
    assert effect_tables([gap_check("doctor", "fail")], key, 40) == []
    assert effect_tables([skew_check(subject, 0.3) for subject in SUBJECTS], key, 40) == []
    assert 'id="effects"' not in render_html(example_record([gap_check("doctor", "fail")]), None)


def test_more_groups_than_a_table_holds_have_a_forest_and_no_map() -> None:
    check = gap_check("doctor", "fail")
    many = [check.groups[0].model_copy(update={"group": f"g{i}"}) for i in range(40)]
    wide = [check.model_copy(update={"subject": subject, "groups": many}) for subject in SUBJECTS[:2]]
    ((_, heat),) = effect_tables(wide, group_key(example_record().dataset), 40)
    assert heat is None
    assert "Every subject and group" not in render_html(example_record(wide), None)


def test_hundreds_of_checks_with_their_history_stay_under_five_megabytes() -> None:
    """24,000 images, 60 subjects, ten checks each, 60 earlier runs of every check."""
    subjects = [f"subject {i}" for i in range(60)]
    checks = [
        check.model_copy(update={"id": f"{check.id}-{kind}", "subject": subject})
        for kind in range(5)
        for subject in subjects
        for check in (gap_check("doctor", "fail" if kind == 0 else "pass"), skew_check("chef", 0.3))
    ]
    record = team_record(checks)
    history = [
        point_of
        for run in range(60)
        for point_of in (
            PastValue(f"{run:040x}", f"2026-01-01T00:{run:02d}:00+00:00", check.item, run / 60, 0.0, 1.0, 0.5)
            for check in checks
        )
    ]
    start = time.process_time()
    text = render_html(record, None, history)
    assert len(text.encode()) < 5_000_000
    assert time.process_time() - start < 8
    assert "Over runs" in text


def test_a_group_that_a_subject_does_not_have_is_a_dash_and_what_was_not_compared_has_no_row() -> None:
    whole, part = gap_check("doctor", "fail"), gap_check("nurse", "pass")
    unmeasured = part.groups[1].model_copy(update={"delta": None})
    part = part.model_copy(update={"groups": [unmeasured, *part.groups[2:]]})
    ((effects, heat),) = effect_tables([whole, part], group_key(example_record().dataset), 40)
    assert heat is not None
    (cells,) = (line.cells for line in heat.lines if line.name == "nurse")
    assert [cell.text for cell in cells[:2]] == ["–", "–"]
    assert cells[0].verdict is None
    assert f"the {MOST_ROWS} worst of" not in effects.note
    assert len(effects.lines) == 2 * len(GROUPS) - 2


def test_checks_without_a_bound_are_drawn_without_one() -> None:
    bare = [fairness_check(subject, 0.9, bound=None, verdict="error") for subject in SUBJECTS[:3]]
    (strip,) = subject_tables(bare)
    tracks = [line.cells[0].track for line in strip.lines if not line.look]
    assert [track and track.bounds + track.bad for track in tracks] == [()] * 3
    scale = strip.columns[0].scale
    assert scale is not None
    assert scale.low < 0.9 < scale.high


def test_equal_numbers_still_have_a_line_to_stand_on() -> None:
    for value in (0.9, 0.0, -3.0):
        line = scale_for([value, value])
        assert line.low < value < line.high
        assert len(line.ticks) >= 2


@pytest.mark.parametrize(("ends", "labels"), [((-0.25, 0.0), ["−0.20", "−0.10", "0"]), ((0.0, 0.8), None)])
def test_a_narrow_axis_labels_every_second_tick_and_zero(ends: tuple[float, float], labels: list[str] | None) -> None:
    scale = scale_for(ends)
    few = [tick.label for tick in scale.few_ticks]
    assert "0" in few
    assert len(few) <= 4
    assert labels is None or few == labels
