"""Metrics of very many images: what is drawn in blocks is what `draw` gives for the multiplicities of all images."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from fairgate.data import Index
from fairgate.formulas.statistics import Resamples, resampling
from fairgate.ground.randomness import stream
from fairgate.metrics import METRICS, Cell, Cells, Measure, MetricRequest, MetricSettings, measure, resample
from fairgate.probes import ProbeScores

IMAGES, DRAWS = 600, 50


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> Resamples:
    monkeypatch.setattr(resampling, "MOST", 100)
    monkeypatch.setattr(resampling, "BLOCKS", 60)
    return Resamples(IMAGES, DRAWS, stream(0, "sets"))


def cell() -> Cell:
    rng = stream(0, "cell")
    codes = (rng.integers(0, 2, IMAGES), rng.integers(0, 3, IMAGES))
    return Cell(
        rows=np.arange(IMAGES),
        set_code=rng.permutation(IMAGES),
        set_ids=np.array([f"{at:04}" for at in range(IMAGES)], dtype=object),
        subject=np.array(["person"] * IMAGES, dtype=object),
        group_codes=codes,
        groups=(("f", "m"), ("a", "b", "c")),
    )


def measured(metric: str, settings: MetricSettings) -> Measure:
    rng = stream(0, "scores")
    value, truth = rng.random(IMAGES), rng.choice(np.array(["x", "y"], dtype=object), IMAGES)
    predicted = np.where(value > 0.3, truth, "x")
    answers = ProbeScores(value, predicted, predicted == truth, truth=truth)
    request = MetricRequest(
        check="check", metric=metric, probe="probe", settings=settings, crossings=(("gender",), ("race",)), min_sets=2
    )
    return measure(request, cell(), [answers])


_AT_K = ["max_skew_at_k", "ndkl_at_k"]
_PLAIN = ["f1", "mean_number", "effect_size", "effect_p", "association", "differential_association"]


@pytest.mark.parametrize("metric", [*_AT_K, *_PLAIN])
def test_a_metric_in_blocks_is_the_metric_under_the_same_multiplicities(metric: str, sets: Resamples) -> None:
    settings = METRICS[metric].Settings
    now = measured(metric, settings(k=100) if metric in _AT_K else settings())
    assert now.in_blocks is not None
    (drawn,) = resample([now], IMAGES, DRAWS, sets)
    wanted = now.draw(sets.rows(IMAGES, DRAWS).astype(np.int32))
    np.testing.assert_allclose(drawn.value, wanted.value)
    np.testing.assert_allclose(drawn.groups, wanted.groups)


def test_fairness_in_blocks_is_fairness_under_the_same_multiplicities(sets: Resamples) -> None:
    twice = replace(cell(), set_code=np.arange(IMAGES) // 2, set_ids=cell().set_ids[: IMAGES // 2], groups=())
    halves = Resamples(IMAGES // 2, DRAWS, stream(0, "sets"))
    request = MetricRequest(check="check", metric="fairness", probe="probe", settings=METRICS["fairness"].Settings())
    now = measure(request, twice, [ProbeScores(stream(0, "scores").random(IMAGES))])
    (drawn,) = resample([now], IMAGES // 2, DRAWS, halves)
    np.testing.assert_array_equal(drawn.value, now.draw(halves.rows(IMAGES // 2, DRAWS)).value)
    assert np.unique(drawn.value).size > 1
    assert now.in_blocks is not None


@pytest.mark.parametrize("metric", ["accuracy", "p_true", "group_gap"])
def test_means_in_blocks_depart_from_the_estimate_as_those_of_the_multiplicities_do(
    metric: str, sets: Resamples
) -> None:
    """Up to one factor for each group's mean, which takes off what so few blocks vary by more or less."""
    now = measured(metric, METRICS[metric].Settings())
    (drawn,) = resample([now], IMAGES, DRAWS, sets)
    wanted = now.draw(sets.rows(IMAGES, DRAWS).astype(np.int32))
    assert drawn.groups is not None
    assert wanted.groups is not None
    for own, theirs in zip(drawn.groups.T, wanted.groups.T, strict=True):
        assert np.corrcoef(own, theirs)[0, 1] > (0.9 if metric == "group_gap" else 0.999999)
    assert drawn.groups.std(axis=0) / wanted.groups.std(axis=0) == pytest.approx(1, abs=0.5)


def test_means_of_few_images_are_those_of_the_table_of_multiplicities() -> None:
    plain = Resamples(IMAGES, DRAWS, stream(0, "sets"))
    now = measured("p_true", METRICS["p_true"].Settings())
    (drawn,) = resample([now], IMAGES, DRAWS, plain)
    wanted = now.draw(plain.rows(IMAGES, DRAWS).astype(np.int32))
    np.testing.assert_allclose(drawn.groups, wanted.groups)


@pytest.mark.parametrize(
    ("metric", "over"),
    [
        *product(["accuracy", "p_true", "accuracy_gap", "group_gap"], [("gender",), ("gender", "race")]),
        *product(["accuracy", "p_true"], [()]),
    ],
)
def test_means_of_very_many_images_by_the_finest_groups_are_those_of_the_images(
    metric: str, over: tuple[str, ...]
) -> None:
    images, rng = resampling.MOST + 1, stream(0, "finest")
    columns = {name: rng.choice(names, images) for name, names in {"gender": ["f", "m"], "race": ["a", "b"]}.items()}
    ids, nobody = np.array([f"{at % 7}-{at}" for at in range(images)]), np.full(images, "")
    index = Index(ids, nobody, nobody, nobody, nobody, columns, {"gender": ["f", "m"], "race": ["a", "b", "unseen"]})
    value = rng.uniform(0, 0.8 + 0.2 * (columns["gender"] == "m"), images)
    request = MetricRequest(
        check="check",
        metric=metric,
        probe="probe",
        settings=METRICS[metric].Settings(),
        crossings=(over,) if over else (),
    )
    cells = Cells(index)
    cells.cross([("race",)])
    by_cells = cells.of(None, request.crossings)
    assert by_cells.numbers(value) is not None
    one_by_one, sets = replace(by_cells, finest=lambda: None), Resamples(images, DRAWS, stream(0, "sets"))
    own, same = (measure(request, each, [ProbeScores(value, correct=value > 0.4)]) for each in (by_cells, one_by_one))
    for name in ("value", "group_values", "group_badness", "group_images", "group_sets"):
        np.testing.assert_allclose(getattr(own, name), getattr(same, name), rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(own.set_badness(), same.set_badness())
    drawn = [resample([each], images, DRAWS, sets)[0].value for each in (own, same)]
    np.testing.assert_allclose(*drawn, rtol=1e-6)


def test_groups_of_too_many_attributes_are_summed_for_each_crossing_and_of_too_many_groups_not_at_all() -> None:
    images, rng = resampling.MOST + 1, stream(0, "attributes")
    groups = {f"a{at}": [str(code) for code in range(20)] for at in range(30)}
    columns = {name: rng.choice(names, images) for name, names in groups.items()}
    nobody = np.full(images, "")
    index = Index(np.arange(images).astype(str), nobody, nobody, nobody, nobody, columns, groups)
    cells, value = Cells(index), rng.random(images)
    cells.cross([(name,) for name in groups])
    alone = cells.of(None, (("a0",),)).numbers(value)
    assert alone is not None
    assert alone.cells.counts.size == 20
    assert cells.of(None, (("a0", "a1"),)).numbers(value) is None
    assert cells.of(None, (("a0",), ("a1",))).numbers(value) is None
    assert cells.of(None, ()).numbers(value) is not None
