"""Means, effect sizes and permutation p of numbers: by hand, as scipy has them, under laws; how often verdicts err."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import some
from scipy import stats

from fairgate.data import Index
from fairgate.formulas.metrics import effect_size
from fairgate.formulas.statistics import set_counts
from fairgate.ground.errors import MetricError, SuiteError
from fairgate.metrics import METRICS, Cell, Measure, MetricRequest
from fairgate.probes import ProbeScores
from fairgate.suites import decide
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.schema import Check, Suite


def cell(codes: Sequence[int], sets: Sequence[int] | None = None, groups: int = 2) -> Cell:
    """Images of groups, single or in sets."""
    rows = np.arange(len(codes))
    names, set_code = np.unique(rows if sets is None else np.asarray(sets), return_inverse=True)
    named = tuple("xyzuvw"[:groups])
    return Cell(rows, set_code, names, np.array(["person"] * len(codes)), (np.asarray(codes),), (named,))


def request(metric: str, **keys: Any) -> MetricRequest:
    chosen = METRICS[metric].Settings.model_validate(keys)
    return MetricRequest("check", metric, "numbers", chosen, crossings=(("group",),))


def measured(metric: str, numbers: Any, of: Cell, before: Any = None, **keys: Any) -> Measure:
    now = [ProbeScores(np.asarray(numbers, dtype=float))]
    if before is not None:
        now = list(METRICS[metric].read_together(now, [ProbeScores(np.asarray(before, dtype=float))])[0])
    return METRICS[metric].measure(request(metric, **keys), of, now)


def test_by_hand() -> None:
    numbers, groups = [1.0, 3.0, 0.0, 2.0], cell([0, 0, 1, 1])
    mean = measured("mean_number", numbers, groups)
    assert (mean.group_values.tolist(), mean.value) == ([2.0, 1.0], 1.0)
    assert measured("mean_number", numbers, groups, wanted="lower").value == 2.0
    right = measured("right_share", [1.0, 0.5, 0.0, 1.0], groups)
    assert (right.group_values.tolist(), right.value) == ([0.75, 0.5], 0.5)
    effect = measured("effect_size", numbers, groups)
    assert effect.group_values == pytest.approx([(5 / 3) ** -0.5, -((5 / 3) ** -0.5)], rel=1e-12)
    assert effect.value == pytest.approx((5 / 3) ** -0.5, rel=1e-12)  # variance (0.25 + 2.25 + 2.25 + 0.25) / 3
    # 4 of 6 partitions part the groups by 1 or more
    assert measured("effect_p", numbers, groups).value == pytest.approx(4 / 6, abs=0.04)
    # In pairs of one of each group, 4 exchanges: differences 1 and 1, 1 and -1 (0), -1 and 1 (0), -1 and -1
    paired = cell([0, 1, 0, 1], sets=[0, 0, 1, 1])
    assert measured("effect_p", [1.0, 0.0, 3.0, 2.0], paired).value == pytest.approx(2 / 4, abs=0.04)
    # ranks 1/8, 3/8, 5/8, 7/8, of which the last two change places: 1/8 on average; of one rank, 1/2, it is 1/4
    agreement = measured("number_agreement", [1, 2, 9, 4], cell([0] * 4, groups=1), [1, 2, 3, 4])
    assert agreement.value == pytest.approx(1 - 0.125 / 0.25)


def test_d_and_p_are_scipys() -> None:
    """d follows from Student's t; the p of the largest departure is that of a permutation test over all partitions."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(0.8, 1, 6), rng.normal(0, 1, 7)
    groups, numbers = cell([0] * 6 + [1] * 7), np.r_[x, y]
    t, n = stats.ttest_ind(x, y).statistic, 13
    pooled = t * np.sqrt(1 / 6 + 1 / 7)
    total = np.sqrt((n - 2 + pooled**2 * 6 * 7 / n) / (n - 1))  # all numbers' deviation, in pooled ones
    assert measured("effect_size", numbers, groups).group_values[0] == pytest.approx(pooled / total, rel=1e-12)
    assert measured("effect_size", numbers, groups).group_values[0] == pytest.approx(effect_size(x, y), rel=1e-12)
    expected = stats.permutation_test(
        (x, y),
        lambda a, b, axis: np.abs(a.mean(axis) - b.mean(axis)),
        alternative="greater",
        n_resamples=np.inf,
        vectorized=True,
    ).pvalue
    found = measured("effect_p", numbers, groups).group_values
    assert found == pytest.approx([expected] * 2, abs=4 * np.sqrt(expected / 2000))


values = st.lists(st.integers(-50, 50), min_size=8, max_size=30).filter(lambda numbers: len(set(numbers)) > 2)


@settings(deadline=None, max_examples=40)
@given(numbers=values, order=st.randoms(), scale=st.sampled_from([0.01, 3.0, -2.0]), shift=st.integers(-5, 5))
def test_neither_order_nor_unit_matter(numbers: list[int], order: Any, scale: float, shift: int) -> None:
    codes = [place % 3 for place in range(len(numbers))]
    places = list(range(len(numbers)))
    order.shuffle(places)
    plain = measured("effect_size", numbers, cell(codes, groups=3))
    moved = measured("effect_size", [numbers[at] for at in places], cell([codes[at] for at in places], groups=3))
    other = measured("effect_size", scale * np.array(numbers) + shift, cell(codes, groups=3))
    assert moved.group_values == pytest.approx(plain.group_values, abs=1e-9)
    assert other.group_values == pytest.approx(np.sign(scale) * plain.group_values, abs=1e-9)
    p = measured("effect_p", numbers, cell(codes, groups=3)).group_values
    assert measured("effect_p", scale * np.array(numbers) + shift, cell(codes, groups=3)).group_values == pytest.approx(
        p, abs=0.02
    )
    assert ((p > 0) & (p <= 1)).all()
    mean = measured("mean_number", numbers, cell(codes, groups=3)).group_values
    scaled = measured("mean_number", scale * np.array(numbers) + shift, cell(codes, groups=3)).group_values
    assert scaled == pytest.approx(scale * mean + shift, abs=1e-9)


@given(numbers=values)
def test_agreement_is_1_with_any_rising_function_and_0_with_one_number_for_everybody(numbers: list[int]) -> None:
    everybody = cell([0] * len(numbers), groups=1)
    risen = np.exp(np.array(numbers) / 20)
    assert measured("number_agreement", risen, everybody, numbers).value == pytest.approx(1.0)
    same = measured("number_agreement", np.ones(len(numbers)), everybody, numbers)
    assert same.value == pytest.approx(0.0, abs=1e-12)
    assert METRICS["number_agreement"].blind_value(METRICS["number_agreement"].Settings(), 1, 1) == 0.0


def test_numbers_that_are_all_the_same_and_clusters_are_refused() -> None:
    for metric in ("effect_size", "effect_p"):
        with pytest.raises(MetricError, match="every image has the same number"):
            measured(metric, [0.3] * 4, cell([0, 0, 1, 1]))
    with pytest.raises(MetricError, match="the baseline has the same number for every image"):
        measured("number_agreement", [1, 2, 3, 4], cell([0, 0, 1, 1]), [5, 5, 5, 5])
    clusters: Any = SimpleNamespace(counterfactual=False, n_sets=2, n_rows=4)
    with pytest.raises(SuiteError, match="clusters of images") as caught:
        METRICS["effect_p"].require(request("effect_p"), clusters)
    assert "metric: effect_size" in str(caught.value.remedy)


# --- How often verdicts err: simulated, on streams that draw the same numbers everywhere

IMAGES, GROUPS, RUNS = 240, 4, 100
CODES = np.arange(IMAGES) % GROUPS
INDEX = Index(
    set_id=np.array([f"{n:04d}" for n in range(IMAGES)], dtype=object),
    member=np.array(["only"] * IMAGES, dtype=object),
    subject=np.array(["person"] * IMAGES, dtype=object),
    caption=np.array([""] * IMAGES, dtype=object),
    path=np.array([""] * IMAGES, dtype=object),
    attributes={"group": np.array(list("xyzu"), dtype=object)[CODES]},
    groups={"group": list("xyzu")},
)


def failures(metric: str, rng: np.random.Generator, shape: str, lost: float, runs: int = RUNS, **rule: Any) -> float:
    """The share of runs that fail: numbers of images that differ, of a shape, and noise in either run; the group x has
    `lost` in the candidate's."""
    check = Check.model_validate({"id": "x", "probe": "p", "metric": metric, "over": "group", **rule})
    probe = {"p": {"kind": "number"}}
    suite = Suite.model_validate(
        {
            **{
                "schema": 1,
                "suite": "s",
                "dataset": "d",
                "probes": probe,
                "checks": [check.model_dump(exclude_none=True)],
            },
            "decision": {"draws": 500},
        }
    )
    against = "baseline" if check.no_worse_than else None
    planned = [PlannedCheck(check, None, (("group",),), "here", against=against, probe=suite.probes["p"])]
    failed = 0
    for _ in range(runs):
        own = rng.normal(size=IMAGES) if shape == "normal" else rng.lognormal(size=IMAGES)
        before, now = (ProbeScores(own + 0.4 * rng.normal(size=IMAGES)) for _ in range(2))
        now = ProbeScores(now.value - lost * (CODES == 0))
        others: Any = {"baseline": {"p": before}} if against else {}
        failed += decide(planned, INDEX, suite, {"p": now}, others, {})[0].verdict == "fail"
    return failed / runs


@pytest.mark.parametrize("shape", some(["skewed", "normal"], few=1))
def test_without_a_change_few_runs_fail_and_with_a_large_one_nearly_all(shape: str) -> None:
    """Of 100 runs at 5%, 99 in 100 simulations have at most 11 failures. For a regression the margin is 0, where a
    false failure is likeliest."""
    rng = np.random.default_rng(11)
    compared = {"no_worse_than": "baseline", "margin": 0}
    for metric, rule in (("mean_number", compared), ("effect_size", compared), ("effect_p", {"at_least": 0.05})):
        assert failures(metric, rng, shape, 0.0, **rule) <= 11 / RUNS, metric
    lost = 1.5 if shape == "normal" else 4.0
    for metric, rule in (
        ("mean_number", {**compared, "margin": 0.1}),
        ("effect_size", {**compared, "margin": 0.1}),
        ("effect_p", {"at_least": 0.05}),
    ):
        assert failures(metric, rng, shape, lost, 20, **rule) >= 0.9, metric


@pytest.mark.parametrize("metric", ["mean_number", "effect_size"])
@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_a_95_percent_interval_holds_the_truth_that_often(metric: str, shift: float) -> None:
    """Of the lower group's mean, and of d, as it is measured without an end of images."""
    rng, codes = np.random.default_rng(3), np.arange(120) % 2
    small, held, runs = cell(codes.tolist()), 0, 100
    d = 2 * shift / np.sqrt(1 + shift**2)
    truth = -shift if metric == "mean_number" else d
    for _ in range(runs):
        answers = [ProbeScores(rng.normal(size=120) + shift * np.where(codes == 0, 1, -1))]
        now = METRICS[metric].measure(request(metric), small, answers)
        drawn = now.draw(set_counts(120, 500, rng))
        limits = METRICS[metric].interval(request(metric), small, now, drawn, 0.05)
        assert limits.lo is not None, limits.how
        assert limits.hi is not None
        held += limits.lo - 0.01 <= truth <= limits.hi + 0.01
    assert held >= 0.9 * runs
