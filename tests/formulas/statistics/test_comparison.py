"""Models and groups compared as the papers do: the peers' figures to the digit, and no answer from no evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.statistics import bonferroni, cluster_ols, moods_median_test
from fairgate.ground.errors import StatisticsError
from fairgate.ground.randomness import stream

GOLDEN = Path(__file__).parents[2] / "golden"
MOODS = {
    case["name"]: case
    for case in json.loads((GOLDEN / "moods_median.json").read_text())["cases"]
    if case["kwargs"].get("ties", "below") == "below" and case["kwargs"].get("correction", True)
}
PUBLISHED = json.loads((GOLDEN / "moods_published.json").read_text())
REGRESSIONS = {case["name"]: case for case in json.loads((GOLDEN / "cluster_ols.json").read_text())["cases"]}
VARIANT = "statsmodels default (as in the notebook)"
SMALL_SAMPLE = np.sqrt((3 / 2) * (5 / 4))
"""Of six rows in three clusters: the factor of a standard error."""


# Mood's median test


def test_four_values_under_and_four_over_the_median_by_hand() -> None:
    found = moods_median_test([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0])
    assert found.table.tolist() == [[0, 4], [4, 0]]
    assert (found.statistic, found.grand_median) == (4.5, 4.5)  # four cells, (2 - 0.5)^2 / 2 each


@pytest.mark.parametrize("name", [name for name, case in MOODS.items() if "table" in str(case["outputs"])])
def test_moods_test_gives_scipys_figures(name: str) -> None:
    case = MOODS[name]
    expected = case["outputs"]["scipy.stats.median_test"]
    samples = [np.array(sample, dtype=float) for sample in case["samples"]]
    if expected["table"] is None:
        with pytest.raises(StatisticsError, match="drop incomplete sets and count them"):
            moods_median_test(*samples)
        return
    if case["kwargs"].get("nan_policy") == "omit":  # scipy drops gaps in silence; here the caller drops and counts them
        samples = [sample[~np.isnan(sample)] for sample in samples]
    result = moods_median_test(*samples)
    assert result.statistic == pytest.approx(expected["statistic"], abs=1e-12)
    assert result.p == pytest.approx(expected["pvalue"], rel=1e-9)
    assert result.grand_median == expected["median"]
    assert result.table.tolist() == expected["table"]


@pytest.mark.parametrize("name", ["constant", "empty"])
def test_where_scipy_crashes_the_error_says_what_to_do(name: str) -> None:
    assert "error" in MOODS[name]["outputs"]["scipy.stats.median_test"]
    with pytest.raises(StatisticsError) as error:
        moods_median_test(*MOODS[name]["samples"])
    assert error.value.where == "moods_median_test"
    assert error.value.remedy


@pytest.mark.parametrize("pair", PUBLISHED["pairs"], ids=lambda pair: f"{pair['model1']}-{pair['model2']}")
def test_the_authors_printed_comparisons_of_models_come_out_again(pair: dict[str, Any]) -> None:
    n = PUBLISHED["n_per_model"]
    samples = [np.repeat([1.0, 0.0], [above, n - above]) for above in pair["above"]]
    result = moods_median_test(*samples)
    assert result.statistic == pytest.approx(pair["published_statistic"], rel=1e-9)
    assert result.p == pytest.approx(pair["published_p"], rel=1e-9)


def test_the_authors_corrected_comparisons_come_out_again() -> None:
    pairs, n = PUBLISHED["pairs"], PUBLISHED["n_per_model"]
    p = [moods_median_test(*(np.repeat([1.0, 0.0], [a, n - a]) for a in pair["above"])).p for pair in pairs]
    assert len(pairs) == PUBLISHED["m"] == 28
    np.testing.assert_allclose(bonferroni(p), [pair["bonferroni_p"] for pair in pairs], rtol=1e-9)


@pytest.mark.parametrize(
    ("samples", "problem"),
    [
        (([1.0, 2.0],), "1 samples"),
        (([1.0, 2.0], []), r"finite: \[1\]"),
        (([np.inf, 2.0], [1.0, 2.0]), r"finite: \[0\]"),
        (([1.0, 1.0], [1.0, 1.0]), "none of 4 values lies above it"),
    ],
)
def test_samples_that_cannot_be_compared_are_refused(samples: Any, problem: str) -> None:
    with pytest.raises(StatisticsError, match=problem):
        moods_median_test(*samples)


def test_a_tie_goes_below_the_median() -> None:
    assert moods_median_test([1.0, 2.0, 2.0, 3.0], [2.0, 3.0, 3.0, 1.0]).table.tolist() == [[1, 2], [3, 2]]


# Group effects


def by_hand() -> dict[str, Any]:
    """Three sets of a and b: a is 1, 2, 3; b is 2, 2, 5. The means are 2 and 3."""
    return {"outcome": [1.0, 2, 2, 2, 3, 5], "group": list("ababab"), "cluster": [7, 7, 8, 8, 9, 9]}


def test_group_effects_of_three_sets_by_hand() -> None:
    result = cluster_ols(**by_hand(), reference="a")
    assert result.names == ("a", "b")
    np.testing.assert_allclose(result.coefficient, [2.0, 1.0])
    # residuals over 3: a is -1/3, 0, 1/3; b - a is 0, -1/3, 1/3
    np.testing.assert_allclose(result.error, np.sqrt([2 / 9, 2 / 9]) * SMALL_SAMPLE)
    np.testing.assert_allclose(result.statistic, result.coefficient / result.error)
    np.testing.assert_allclose(result.hi - result.coefficient, 1.959964 * result.error, rtol=1e-6)
    np.testing.assert_allclose(result.coefficient - result.lo, 1.959964 * result.error, rtol=1e-6)
    assert (result.clusters, result.n_per_group.tolist()) == (3, [3, 3])


def test_two_clusters_are_enough_by_hand() -> None:
    result = cluster_ols([1.0, 2, 3, 2], list("abab"), [0, 0, 1, 1], reference="a")
    np.testing.assert_allclose(result.coefficient, [2.0, 0.0])
    np.testing.assert_allclose(result.error**2, [0.5 * 2 * 3 / 2] * 2)  # a pulls by -1/2 and 1/2, b - a against


def test_the_other_reference_turns_the_sign() -> None:
    one, other = (cluster_ols(**by_hand(), reference=name) for name in "ab")
    assert other.names == ("b", "a")
    assert other.coefficient[1] == -one.coefficient[1]
    assert other.error[1] == pytest.approx(one.error[1])


def test_declared_groups_keep_their_order_behind_the_reference() -> None:
    rows = {"outcome": np.arange(9.0) ** 1.5, "group": [2, 0, 1] * 3, "cluster": np.repeat([4, 2, 9], 3)}
    assert cluster_ols(**rows, reference=1, groups=[2, 1, 0]).names == (1, 2, 0)
    assert cluster_ols(**rows, reference=1).names == (1, 0, 2)


@pytest.mark.parametrize("name", [name for name in REGRESSIONS if not name.startswith("constant")])
def test_group_effects_give_statsmodels_figures(name: str) -> None:
    case = REGRESSIONS[name]
    expected = case["outputs"][VARIANT]
    outcome, group, cluster = (list(column) for column in zip(*case["rows"], strict=True))
    categories = case["categories"]
    result = cluster_ols(outcome, group, cluster, reference=categories[0], groups=categories)
    terms = ["Intercept", *(f"C(race)[T.{name}]" for name in categories[1:])]
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(result.coefficient, [expected["params"][term] for term in terms], **close)
    np.testing.assert_allclose(result.error, [expected["bse"][term] for term in terms], **close)
    np.testing.assert_allclose(result.p, [expected["pvalues"][term] for term in terms], **close)
    np.testing.assert_allclose(result.statistic, [expected["tvalues"][term] for term in terms], **close)
    np.testing.assert_allclose(np.stack([result.lo, result.hi], axis=1), expected["conf_int"], **close)


def test_an_outcome_that_never_varies_is_refused_where_statsmodels_gives_noise() -> None:
    case = REGRESSIONS["constant_y-10"]
    outcome, group, cluster = (list(column) for column in zip(*case["rows"], strict=True))
    with pytest.raises(StatisticsError, match="there is no spread to judge by"):
        cluster_ols(outcome, group, cluster, reference="caucasian")


def test_a_group_without_spread_has_an_estimate_and_no_p_value() -> None:
    outcome = [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    result = cluster_ols(outcome, list("abc") * 3, np.repeat([0, 1, 2], 3), reference="a")
    np.testing.assert_allclose(result.coefficient, [1.0, 0.0, -2 / 3])
    assert np.isnan(result.p).tolist() == [True, True, False]
    # The same distance in every set, up to rounding: no spread either.
    steady = np.array([0.1, 0.4, 0.8])
    same = cluster_ols(
        np.stack([steady, steady + 0.1], axis=1).ravel(), list("ab") * 3, [0, 0, 1, 1, 2, 2], reference="a"
    )
    assert same.coefficient[1] == pytest.approx(0.1)
    assert np.isnan(same.p).tolist() == [False, True]


@pytest.mark.parametrize("sets", [3, 10])  # the plain mean of so many 0.1 lies above 0.1, and below it
def test_a_group_that_never_varies_has_exactly_its_value(sets: int) -> None:
    rows = np.stack([np.full(sets, 0.1), np.arange(sets)], axis=1).ravel()
    result = cluster_ols(rows, ["a", "b"] * sets, np.repeat(np.arange(sets), 2), reference="a")
    assert (result.coefficient[0], result.error[0]) == (0.1, 0.0)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e4])
def test_what_counts_as_no_spread_does_not_hang_on_the_unit(unit: float) -> None:
    steady = np.array([0.1, 0.4, 0.8])
    outcome = unit * np.stack([steady, steady + 0.1, steady + np.array([0.1, 0.1, 0.1 + 1e-9])], axis=1).ravel()
    result = cluster_ols(outcome, list("abc") * 3, np.repeat([0, 1, 2], 3), reference="a")
    assert np.isnan(result.p).tolist() == [False, True, False]


def three_groups(shift: float, seed: int, sets: int = 200) -> Any:
    rng = stream(seed, "clusters")
    outcome = rng.normal(0.0, 1.0, (sets, 1)) + rng.normal(0.0, 0.5, (sets, 3)) + [0.0, 0.0, shift]
    return cluster_ols(outcome.ravel(), np.tile(["a", "b", "c"], sets), np.repeat(np.arange(sets), 3), reference="a")


def test_a_planted_effect_is_found_and_its_neighbour_is_silent() -> None:
    result = three_groups(-0.3, seed=0)
    assert result.p[2] < 1e-4
    assert result.hi[2] < 0
    assert result.lo[2] < -0.3 < result.hi[2]
    assert result.p[1] > 0.05


def test_without_an_effect_one_in_twenty_is_found() -> None:
    p = np.concatenate([three_groups(0.0, seed, sets=60).p[1:] for seed in range(300)])
    assert 0.02 < (p < 0.05).mean() < 0.09


def test_members_of_a_set_do_not_count_as_independent() -> None:
    rows = {"outcome": np.repeat([0.0, 1.0, 1.0, 0.0, 1.0, 0.0], 2), "group": np.tile([0, 0, 0, 0, 1, 1, 1, 1], 2)[:12]}
    once = cluster_ols(**rows, cluster=np.repeat(np.arange(6), 2), reference=0)
    single = cluster_ols(rows["outcome"][::2], rows["group"][::2], np.arange(6), reference=0)
    factors = np.sqrt([(12 - 1) / (12 - 2), (6 - 1) / (6 - 2)])  # of the numbers of rows alone
    np.testing.assert_allclose(once.error / factors[0], single.error / factors[1])  # nothing new was learnt


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"outcome": [1.0, 2.0]}, r"outcome \(2,\)"),
        ({"outcome": [1.0, np.nan, 2, 2, 3, 5]}, "1 values not finite"),
        ({"group": list("ababa")}, r"group \(5,\)"),
        ({"cluster": [7, 7, 8, 8, 9]}, r"cluster \(5,\)"),
        ({"outcome": [[1.0, 2, 2, 2, 3, 5]]}, r"outcome \(1, 6\)"),
        ({"alpha": 0.0}, "alpha 0.0"),
        ({"alpha": 1.0}, "alpha 1.0"),
        ({"cluster": [7] * 6}, r"in 1 cluster\(s\)"),
        ({"outcome": [3.0] * 6}, r"1 value\(s\)"),
        ({"group": list("aaaaab")}, r"\['b'\] stand in one cluster"),
        ({"group": ["a"] * 6}, r"of 1 group\(s\), none"),
        ({"reference": "c"}, "the reference is 'c'"),
        ({"groups": ["a", "b", "c"]}, r"without rows: \['c'\]"),
        ({"groups": ["a"]}, r"not declared: \['b'\]"),
        ({"groups": ["b"]}, r"not declared: \['a'\]"),
    ],
)
def test_a_regression_without_evidence_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(StatisticsError, match=problem) as error:
        cluster_ols(**{**by_hand(), "reference": "a", **change})
    assert error.value.where == "cluster_ols"
    assert error.value.remedy


def test_a_mistyped_reference_is_recognised() -> None:
    rows = {**by_hand(), "group": ["black", "white"] * 3}
    with pytest.raises(StatisticsError, match="did you mean 'white'"):
        cluster_ols(**rows, reference="whit")
