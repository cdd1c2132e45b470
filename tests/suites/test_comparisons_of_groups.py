"""Which evidence two runs of a check give: groupings of images, streams of draws, means over views, decided as one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_rules_of_verdicts import LOADED, SETS, cell, compared, counted, measure, numbers, planned

from fairgate.formulas import statistics
from fairgate.ground.randomness import stream
from fairgate.metrics import Drawn, Floats, Measure
from fairgate.suites.compare import CheckComparison, compare, decide_family, numbers_of, stricter

IMAGES = 120
CHECK: dict[str, Any] = {"margin": 0.1, "no_worse_than": "baseline"}
DESIGN = statistics.Design(0.1, LOADED.decision.alpha, "lower")


def of_images(*sizes: list[int], lost: Any = 0.0, **changes: Any) -> CheckComparison:
    """Two runs on images in groups of these sizes, by grouping; the rest of the images are in no group."""
    new, old = (np.random.default_rng(seed).normal(0.5, 0.05, IMAGES) for seed in (1, 2))
    codes = tuple(codes_of(each) for each in sizes)
    images = changes.pop("images", None) or images_of(codes)
    flat = [size for each in sizes for size in each]
    now, before = (
        replace(measure([0.5] * len(flat), images=side, blocks=tuple(map(len, sizes))), group_sets=np.array(flat))
        for side in (new - lost, old)
    )
    return compared(now, before, images=images, **changes)


def codes_of(sizes: list[int]) -> Any:
    return np.append(np.repeat(np.arange(len(sizes)), sizes), np.full(IMAGES - sum(sizes), -1))


def images_of(codes: tuple[Any, ...], unit: str = "images") -> Any:
    return SimpleNamespace(n_sets=IMAGES, unit=unit, group_codes=codes, set_code=np.arange(IMAGES) // 2)


def test_a_group_of_images_is_compared_with_large_groups_of_its_own_grouping_alone() -> None:
    got = of_images([40, 5], [30, 40, 14], [60, 60])
    assert got.large_enough.tolist() == [False, False, True, True, False, True, True]
    assert [each.evidence.mean.size for each in got.every] == [2, 2]
    alone = of_images([30, 40, 14])
    assert alone.comparison is not None
    assert got.comparison is not None
    np.testing.assert_array_equal(got.comparison.evidence.mean, alone.comparison.evidence.mean)
    both = of_images([60, 60], [10, 10], [40, 40, 40])  # none of the second is large enough
    assert [each.evidence.mean.size for each in both.every] == [2, 3]
    assert both.large_enough.tolist() == [True, True, False, False, True, True, True]


def test_a_group_that_fell_in_one_grouping_alone_fails_the_whole_whichever_comes_first() -> None:
    """The fall of a third of the images takes as many of either half."""
    halves, thirds = np.arange(IMAGES) % 2, np.repeat([0, 1, 2], 40)
    wanted = {"a": ["pass"] * 2, "b": ["fail", "pass", "pass"]}
    for order in ("ab", "ba"):
        codes = tuple({"a": halves, "b": thirds}[name] for name in order)
        sizes = [{"a": [60, 60], "b": [40, 40, 40]}[name] for name in order]
        part = of_images(*sizes, images=images_of(codes), lost=np.where(thirds == 0, 0.4, 0.0))
        (result,) = decide_family([part], LOADED.decision)
        assert result.verdict.tolist() == [outcome for name in order for outcome in wanted[name]]
        assert result.overall == "fail"


def test_groups_of_images_that_are_too_small_stand_in_their_places_undecided() -> None:
    (result,) = decide_family([of_images([60, 60], [10, 10], [40, 40, 40])], LOADED.decision)
    assert (result.overall, result.outcome(2), result.outcome(3)) == ("inconclusive",) * 3
    assert result.n_sets.tolist() == [60, 60, 10, 10, 40, 40, 40]
    assert [result.outcome(group) for group in (0, 1, 4, 5, 6)] == ["pass"] * 5
    (fine,) = decide_family([of_images([60, 60], [40, 40, 40])], LOADED.decision)
    assert (fine.overall, set(fine.verdict.tolist())) == ("pass", {"pass"})


@pytest.mark.parametrize(("unit", "together"), [("images", False), ("sets", True)])
def test_images_are_drawn_from_streams_of_suite_item_and_grouping_those_of_a_set_together(
    unit: str, together: bool
) -> None:
    codes = tuple(codes_of(sizes) for sizes in ([60, 60], [40, 40, 40]))
    got = of_images([60, 60], [40, 40, 40], images=images_of(codes, unit))
    new, old = (np.random.default_rng(seed).normal(0.5, 0.05, IMAGES) for seed in (1, 2))
    units = np.arange(IMAGES) // 2 if together else None
    for at, (result, names) in enumerate(zip(got.every, ([], ["1"]), strict=True)):
        rng = stream(LOADED.decision.seed, "images", LOADED.suite, "gap", *names)
        wanted = statistics.compare_images(
            new, old, codes[at], groups=2 + at, units=units, rng=rng, design=DESIGN, draws=LOADED.decision.draws
        )
        np.testing.assert_array_equal(result.evidence.under.drawn, wanted.evidence.under.drawn)
        assert (result.design, result.draws) == (DESIGN, LOADED.decision.draws)


def over_views(now: Measure, before: Measure, **spec: Any) -> statistics.PairedComparison:
    """Two runs of means over four views each, of values from −0.5 to 1."""
    check = planned("value", **CHECK)
    check.views = 4
    check.spec = check.metric.spec = replace(check.spec, lowest=-0.5, highest=1.0, **spec)
    sets = statistics.Resamples(SETS, LOADED.decision.draws, stream(0, "sets"))
    got = compare(LOADED, check, cell(2), now, before, None, sets)
    assert got.comparison is not None
    return got.comparison


@pytest.mark.parametrize(("relative", "span"), [(False, 1.5), (True, 2.0)])
def test_means_over_views_differ_by_the_span_of_the_metric_and_gaps_by_two(relative: bool, span: float) -> None:
    """3 of 60 sets departed: how far they can have matters."""
    now, before = np.full((SETS, 2), 0.9), np.full((SETS, 2), 0.9)
    now[:3] = 0.4
    got = over_views(counted(now), counted(before), relative=relative).evidence.over.z(-0.1)
    sets = statistics.Resamples(SETS, LOADED.decision.draws, stream(0, "sets"))

    def wanted(farthest: float) -> Floats:
        draws = LOADED.decision.draws
        return statistics.compare_means(
            now, before, design=DESIGN, rng=sets, draws=draws, farthest=farthest
        ).evidence.over.z(-0.1)

    assert got.tolist() == wanted(span).tolist()
    assert got.tolist() != wanted(span + 0.5).tolist()


def test_a_set_of_more_images_than_others_can_differ_by_as_much_more_in_the_mean() -> None:
    now, before = np.full((SETS, 2), 0.9), np.full((SETS, 2), 0.9)
    now[:3] = 0.4
    weights = np.ones((SETS, 2))
    weights[3] = 5.0
    sides = [replace(counted(side), weights=weights) for side in (now, before)]
    got = over_views(*sides).evidence.over.z(-0.1)
    shares = weights / weights.mean(axis=0)
    sets = statistics.Resamples(SETS, LOADED.decision.draws, stream(0, "sets"))
    wanted = statistics.compare_means(
        now * shares,
        before * shares,
        design=DESIGN,
        rng=sets,
        draws=LOADED.decision.draws,
        farthest=1.5 * float(shares.max()),
    )
    assert got.tolist() == pytest.approx(wanted.evidence.over.z(-0.1).tolist())


def test_a_value_with_gaps_and_without_groups_stays_without_groups() -> None:
    sides = [
        Measure(value=0.5, draw=lambda counts: Drawn(np.zeros(len(counts))), badness=np.zeros(SETS), paired=paired)
        for paired in (numbers(range(10), 1), numbers(seed=2))
    ]
    got = compared(*sides, gaps=True)
    assert got.now.group_sets.size == 0
    assert got.large_enough.all()


def test_where_both_temperatures_agree_a_group_has_the_numbers_of_its_own() -> None:
    before = numbers(seed=3)
    own, tempered = (
        decide_family([compared(counted(before - fall), counted(before))], LOADED.decision)[0] for fall in (0.4, 0.5)
    )
    whole, milder = stricter(own, tempered)
    assert (whole.overall, milder) == ("fail", False)
    assert whole.delta.tolist() == own.delta.tolist() != tempered.delta.tolist()


def test_a_margin_that_one_temperature_alone_knows_is_that_of_both() -> None:
    part = compared(counted(numbers(seed=1)), counted(numbers(seed=2)))
    (result,) = decide_family([part], LOADED.decision)
    low, high = (replace(result, margin_decided=np.array(margins)) for margins in ([0.2, np.nan], [0.3, 0.1]))
    for pair in ((low, high), (high, low)):
        assert stricter(*pair)[0].margin_decided.tolist() == [0.3, 0.1]


@pytest.mark.parametrize(("correction", "steps"), [("holm", True), ("bonferroni", False)])
def test_holm_steps_down_and_bonferroni_does_not(correction: str, steps: bool) -> None:
    part = compared(counted(numbers(seed=1) - [0.4, 0.105]), counted(numbers(seed=2)))
    rule = LOADED.decision.model_copy(update={"correction": correction})
    (result,) = decide_family([part], rule)
    assert part.comparison is not None
    (wanted,) = statistics.decided([part.comparison], steps=steps)
    assert result.p_adjusted.tolist() == wanted.p_adjusted.tolist()
    (other,) = statistics.decided([part.comparison], steps=not steps)
    assert result.p_adjusted.tolist() != other.p_adjusted.tolist()


def test_results_of_checks_come_back_in_their_order() -> None:
    fell = compared(counted(numbers(seed=1) - [0.4, 0.0]), counted(numbers(seed=2)))
    none = compared(counted(numbers(seed=1)), counted(numbers(seed=2)), min_sets=SETS + 1)
    fine = compared(counted(numbers(seed=1)), counted(numbers(seed=2)))
    images = of_images([60, 60], [40, 40, 40])
    got = decide_family([fine, none, images, fell], LOADED.decision)
    assert [result.overall for result in got] == ["pass", "inconclusive", "pass", "fail"]
    assert [result.delta.size for result in got] == [2, 2, 5, 2]


@pytest.mark.parametrize(("better", "harm"), [("higher", "lower"), ("lower", "higher")])
def test_what_harms_is_the_other_way_than_the_metric_is_good(better: str, harm: str) -> None:
    check = planned("value", **CHECK)
    check.spec = check.metric.spec = replace(check.spec, better=better)
    sets = statistics.Resamples(SETS, LOADED.decision.draws, stream(0, "sets"))
    sides = counted(numbers(seed=1) + np.array([0.4, -0.4])), counted(numbers(seed=2))
    part = compare(LOADED, check, cell(2), *sides, None, sets)
    (result,) = decide_family([part], LOADED.decision)
    assert (result.harm, part.blank.harm) == (harm, harm)
    assert part.span == check.spec.highest - check.spec.lowest
    assert result.verdict.tolist() == (["pass", "fail"] if harm == "lower" else ["fail", "pass"])


def test_without_a_large_group_a_comparison_keeps_its_numbers_and_the_draws_of_the_suite() -> None:
    now = counted(numbers(seed=1))
    got = compared(now, counted(numbers(seed=2)), min_sets=SETS + 1)
    assert got.now is now
    assert got.blank.draws == LOADED.decision.draws


def test_what_is_no_gap_fails_by_its_change_also_where_its_resamples_are_given() -> None:
    """A value of 0.5 is far from −margin: of a gap, the fall would be no harm."""
    value = Measure(value=0.5, draw=lambda counts: Drawn(np.zeros(len(counts))), badness=np.zeros(SETS))
    before, check = replace(value, value=0.9), planned("value", **CHECK)
    noise = np.random.default_rng(0).normal(0, 0.01, (LOADED.decision.draws, 1))
    sets = statistics.Resamples(SETS, LOADED.decision.draws, stream(0, "sets"))
    part = compare(LOADED, check, cell(1), value, before, noise - 0.4, sets, noise + 0.5)
    (result,) = decide_family([part], LOADED.decision)
    assert result.overall == "fail"
    assert np.isnan(result.gap).all()


def test_numbers_that_are_known_are_stored_once_and_the_sets_of_a_value_with_gaps_are_counted() -> None:
    paired = numbers(range(SETS))
    paired[:40] = np.nan  # 20 sets have a number of the second group
    whole = Measure(value=0.5, draw=lambda counts: Drawn(np.zeros(len(counts))), badness=np.arange(3.0), paired=paired)
    known: list[Floats] = []
    first = numbers_of(planned("value", gaps=True, **CHECK), cell(1), whole, known)
    again = numbers_of(planned("value", **CHECK), cell(1), replace(whole, badness=np.arange(3.0)), known)
    other = numbers_of(planned("value", **CHECK), cell(1), replace(whole, badness=np.ones(3)), known)
    assert (first.sets, again.sets, first.paired) == (20, SETS, None)
    assert first.badness is again.badness is known[0]
    assert other.badness.tolist() == [1.0, 1.0, 1.0]
    assert len(known) == 2
