"""Resampled galleries counted from one ranking are those that would be ranked anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.formulas.metrics import c_asc, ndkl_at_k, ndkl_at_k_weighted, skew_tie_range
from fairgate.formulas.statistics import set_counts
from fairgate.ground.errors import MetricError
from fairgate.metrics import Cell
from fairgate.metrics.associations import association_of
from fairgate.metrics.cell import used_codes
from fairgate.metrics.galleries import Grouping, Query
from fairgate.metrics.registry import measure
from fairgate.metrics.top_k import Ranking
from fairgate.probes import ProbeScores
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.schema import Check

SETS, GROUPS = 12, 3


def query(seed: int, members: int = 4) -> Query:
    """Sets of four images with groups at random, every group in the first set; joint groups are the groups."""
    rng = np.random.default_rng(seed)
    sets = np.repeat(np.arange(SETS), members)
    joint = rng.integers(0, GROUPS, size=sets.size)
    joint[:GROUPS] = np.arange(GROUPS)
    whole = Grouping(np.arange(GROUPS), GROUPS, np.arange(GROUPS))
    return Query(rng.normal(0.2, 0.01, sets.size).round(3), joint, sets, (whole,), SETS)


def repeated(one: Query, counts: Any) -> tuple[Any, Any]:
    """The resampled gallery itself, copies of an image beside it as its place in the ranking says."""
    order = np.argsort(-one.similarity, kind="stable")
    times = counts[one.sets[order]]
    return np.repeat(one.similarity[order], times), np.repeat(one.joint[order], times)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), k=st.integers(1, SETS * 4))
def test_the_top_k_of_a_draw_is_that_of_the_repeated_gallery(seed: int, k: int) -> None:
    one = query(seed)
    counts = set_counts(SETS, 20, np.random.default_rng(seed))
    top, shown, present = Ranking(one).counted(counts, k)
    ndkl = ndkl_at_k_weighted(top.joint, counts, k, groups=GROUPS, present=present, sets=top.sets)
    for draw, count in enumerate(counts):
        similarity, labels = repeated(one, count)
        assert shown[draw].tolist() == np.bincount(labels[:k], minlength=GROUPS).tolist()
        assert present[draw].tolist() == np.bincount(labels, minlength=GROUPS).tolist()
        if (present[draw] > 0).all():
            assert ndkl[draw] == pytest.approx(ndkl_at_k(similarity[None], labels, k, groups=GROUPS)[0])


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_c_asc_of_a_draw_is_that_of_the_repeated_gallery(seed: int) -> None:
    one = query(seed)
    counts = set_counts(SETS, 20, np.random.default_rng(seed))
    ((signed, groups),) = association_of(one)(counts, None)
    assert (signed == np.concatenate([groups, -groups], axis=1))[~np.isnan(signed)].all()
    for draw, count in enumerate(counts):
        similarity, labels = repeated(one, count)
        held = np.bincount(labels, minlength=GROUPS)
        if (held > 0).all():
            assert groups[draw] == pytest.approx(c_asc(similarity[None], labels, groups=GROUPS)[0], abs=1e-9)
        else:
            assert np.isnan(groups[draw][held == 0]).all()


def test_a_resampled_gallery_smaller_than_k_is_an_error() -> None:
    one = query(1)
    small = np.zeros((1, SETS), dtype=np.int32)
    small[0, 0] = 2
    assert Ranking(one).counted(small, 8)[1].sum() == 8
    with pytest.raises(MetricError, match="top 9 was asked of a resampled gallery with 8 images"):
        Ranking(one).counted(small, 9)


def planned(metric: str, k: int) -> PlannedCheck:
    check = Check.model_validate({"id": "x", "probe": "p", "metric": metric, "over": "gender", "at_most": 0.5, "k": k})
    return PlannedCheck(check, None, (("gender",),), "here")


def cell(sets: int) -> Cell:
    groups, subject = np.tile([0, 1], sets), np.full(2 * sets, "doctor", dtype=object)
    set_code = np.repeat(np.arange(sets), 2)
    return Cell(np.arange(2 * sets), set_code, np.arange(sets), subject, (groups,), (("male", "female"),))


def test_ties_are_read_off_the_ranking_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cell(SETS)
    for levels, decided in ((1000, False), (3, True)):
        answers = [ProbeScores(np.random.default_rng(3).permutation(2 * SETS) % levels / 4)]
        now = measure(planned("max_skew_at_k", SETS).request(), whole, answers)
        with monkeypatch.context() as later:
            later.setattr("fairgate.formulas.metrics._ranking.top_k", None)  # nothing is ranked again
            assert now.ties is not None
            ties = now.ties()
        assert ties.decided is decided
        if decided:
            labels = whole.group_codes[0]
            expected = skew_tie_range(answers[0].value[None], labels, SETS, groups=2, extreme="max")
            assert (ties.lowest, ties.highest) == (expected.lowest[0], expected.highest[0])


def test_a_draw_that_lacks_the_best_sets_is_ranked_further() -> None:
    one, k = query(2, members=60), 8
    counts = np.ones((2, SETS), dtype=np.int32)
    best = np.argsort(-one.similarity, kind="stable")
    counts[1, one.sets[best[: SETS * 55]]] = 0  # all sets but those that are seen last
    counts[1, one.sets[best[-1]]] = 1
    top, shown, present = Ranking(one).counted(counts, k)
    assert len(top.joint) > 2 * k + 50
    for draw, count in enumerate(counts):
        _, labels = repeated(one, count)
        assert shown[draw].tolist() == np.bincount(labels[:k], minlength=GROUPS).tolist()
        assert present[draw].tolist() == np.bincount(labels, minlength=GROUPS).tolist()


@settings(deadline=None, max_examples=50)
@given(codes=st.lists(st.integers(0, 30), min_size=1, max_size=40), size=st.sampled_from([31, 10_000]))
def test_codes_that_are_used_are_numbered_as_unique_numbers_them(codes: list[int], size: int) -> None:
    for own, wanted in zip(
        used_codes(np.array(codes), size), np.unique(codes, return_inverse=True, return_counts=True), strict=True
    ):
        assert own.tolist() == wanted.tolist()
