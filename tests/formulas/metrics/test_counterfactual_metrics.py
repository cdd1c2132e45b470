"""Spread inside counterfactual sets, accuracy and confusion by group: by hand, against peers, under symmetries."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairgate.formulas.metrics import (
    accuracy_by_group,
    fairness,
    group_means,
    misclassification_table,
    set_deviation,
    set_std,
    softmax_probability,
)
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream

GOLDEN = Path(__file__).parents[2] / "golden"
NOTEBOOK = json.loads((GOLDEN / "fairness_metric.json").read_text())["cases"]
quick = settings(max_examples=40, deadline=None)
probability_tables = st.tuples(st.integers(1, 8), st.integers(2, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(0, 1))
)


@pytest.mark.parametrize("case", NOTEBOOK, ids=lambda case: case["name"])
def test_fairness_reproduces_the_papers_notebook(case: dict[str, Any]) -> None:
    members: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for model, occupation, set_id, _, p, _ in case["rows"]:
        if p != "nan":
            members[model, occupation, set_id].append(p)
    spreads: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for (model, occupation, set_id), p in members.items():
        if len(p) >= 2:  # the notebook drops lone members and NaN; whoever calls fairgate does, and counts them
            spread = set_std([p])[0]
            assert spread == pytest.approx(case["outputs"]["set_std"][model][set_id], abs=1e-12)
            spreads[model,].append(spread)
            spreads[model, occupation].append(spread)
    for model, expected in case["outputs"]["fairness_overall"].items():
        assert 1 - np.median(spreads[model,]) == pytest.approx(expected, abs=1e-12)
    for occupation, by_model in case["outputs"]["fairness_by_occupation"].items():
        for model, expected in by_model.items():
            assert 1 - np.median(spreads[model, occupation]) == pytest.approx(expected, abs=1e-12)
    if case["name"] == "small":  # complete sets: the whole table at once
        for model, expected in case["outputs"]["fairness_overall"].items():
            table = np.array([p for key, p in members.items() if key[0] == model])
            assert fairness(table) == pytest.approx(expected, abs=1e-12)


@quick
@given(p=probability_tables, seed=st.integers(0, 1000))
def test_the_order_of_members_and_of_sets_does_not_matter(p: np.ndarray, seed: int) -> None:
    rng = stream(seed, "order")
    shuffled = rng.permuted(p, axis=1)
    np.testing.assert_allclose(set_std(shuffled), set_std(p), atol=1e-12)
    assert fairness(rng.permutation(p)) == pytest.approx(fairness(p), abs=1e-12)


@quick
@given(p=probability_tables, copies=st.integers(2, 4))
def test_the_data_copied_whole_has_the_same_fairness(p: np.ndarray, copies: int) -> None:
    assert fairness(np.tile(p, (copies, 1))) == pytest.approx(fairness(p), abs=1e-12)


@quick
@given(p=probability_tables)
def test_spread_keeps_its_bounds_and_deviations_sum_to_nothing(p: np.ndarray) -> None:
    assert (set_std(p) >= 0).all()
    assert (set_std(p) <= np.sqrt(0.5) + 1e-9).all()
    np.testing.assert_allclose(set_deviation(p).sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(set_deviation(p + 0.25), set_deviation(p), atol=1e-12)


def test_a_model_that_treats_members_alike_has_no_spread() -> None:
    alike = np.repeat([[0.25], [0.5], [0.75]], 4, axis=1)
    assert fairness(alike) == 1.0
    assert not set_deviation(alike).any()


def test_a_planted_gap_is_found_in_its_group_and_grows_with_its_strength() -> None:
    base = stream(0, "scenes").uniform(0.3, 0.7, (200, 1)) + np.zeros(4)
    found = []
    for strength in (0.0, 0.05, 0.1):
        p = base - strength * (np.arange(4) == 2)
        found.append(1 - fairness(p))
        assert set_deviation(p).mean(axis=0)[2] == pytest.approx(-0.75 * strength, abs=1e-12)
    assert found == pytest.approx([0.0, 0.025, 0.05], abs=1e-12)


def test_softmax_probability_is_the_share_of_the_true_label() -> None:
    logits = np.log([[1.0, 3.0], [1.0, 1.0]])
    assert softmax_probability(logits, np.array([1, 0])) == pytest.approx([0.75, 0.5])
    assert softmax_probability([[0.3, 0.2]], 0, scale=100.0)[0] == pytest.approx(1 / (1 + np.exp(-10)))
    assert softmax_probability([[1000.0, 0.0]], 0)[0] == 1.0  # no overflow


@pytest.mark.parametrize(
    ("call", "problem", "remedy"),
    [
        (lambda: set_std([[0.5, np.nan]]), "1 of 2 p_true are not finite", "no number there"),
        (lambda: set_std([[0.5], [0.4]]), "at least two members", "every member"),
        (lambda: fairness([0.5, 0.4]), "has shape", "axes"),
        (lambda: set_deviation(np.zeros((0, 3))), "has shape", "axes"),
        (lambda: softmax_probability([[0.1, np.inf]], 0), "logits are not finite", "no number there"),
        (lambda: softmax_probability([[0.1, 0.2]], 2), "the code 2", "declare more"),
        (lambda: softmax_probability([[0.1, 0.2]], 0, scale=-1.0), "logit scale is -1", "positive scale"),
        (lambda: accuracy_by_group([0, 2], np.array([0, 1]), 2), "other than 0 and 1", "group_means"),
        (lambda: accuracy_by_group([0, 1], np.array([0, 0]), 2), r"no image: codes \[1\]", "add images"),
        (
            lambda: misclassification_table(np.array([0]), np.array([-1]), np.array([0]), 1, 2),
            "the code -1",
            "correct the codes",
        ),
    ],
)
def test_what_cannot_carry_an_answer_is_refused(call: Any, problem: str, remedy: str) -> None:
    with pytest.raises(MetricError, match=problem) as caught:
        call()
    assert caught.value.where
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("case", json.loads((GOLDEN / "fairlearn_groups.json").read_text())["cases"])
def test_accuracy_and_selection_by_group_are_fairlearns(case: dict[str, Any]) -> None:
    true, predicted, group = (np.array(case[key]) for key in ("y_true", "y_pred", "group"))
    groups = group.max() + 1
    expected = case["outputs"]["by_group"]
    accuracy = accuracy_by_group(true == predicted, group, groups)
    assert accuracy.accuracy == pytest.approx(list(expected["acc"].values()), abs=1e-12)
    assert accuracy.counts.tolist() == np.bincount(group).tolist()
    assert group_means(predicted, group, groups).mean == pytest.approx(list(expected["sel"].values()), abs=1e-12)


def test_the_table_says_who_is_taken_for_whom() -> None:
    predicted, true = np.array([1, 0, 1, 1]), np.array([0, 0, 1, 0])
    table = misclassification_table(predicted, true, np.array([0, 0, 1, -1]), 2, 2)
    assert table.tolist() == [[[1, 1], [0, 0]], [[0, 0], [0, 1]]]
