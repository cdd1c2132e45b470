"""Filters drop what they are for: failures planted in drawn portraits, judged by the embedded world's models."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PORTRAITS = 60
trained = pytest.mark.skipif(
    not (ROOT / "build/portraits/standins/config.json").is_file(), reason="no trained models here: run `dvc pull`"
)


def _benchmark() -> Any:
    """benchmarks/filters.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("benchmark_of_filters", ROOT / "benchmarks/filters.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


FILTERS = _benchmark()


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    """Every filter on 60 portraits, half of them spoilt. The stand-ins are pulled by `make data`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        settings = FILTERS.settings_of("occupations-embedded")
        return {one.failure: FILTERS.measure(one, PORTRAITS) for one in FILTERS.filters(settings)}


@trained
@pytest.mark.parametrize(
    ("failure", "recall"),
    [
        ("grey", 1.0),
        ("another occupation, asked", 0.9),
        ("another occupation, by CLIP", 0.9),
        ("distorted body", 0.8),
        ("two people", 0.9),
        ("nobody", 0.9),
        ("another skin tone", 0.9),
        ("another gender", 0.9),
        ("two faces", 0.9),
    ],
)
def test_planted_failures_are_dropped_and_good_pictures_stay(
    failure: str, recall: float, measured: dict[str, Any]
) -> None:
    found = measured[failure]
    assert (found.planted, found.good) == (30, 30)
    assert found.recall >= recall
    assert found.precision >= 0.9


@trained
def test_every_filter_is_held(measured: dict[str, Any]) -> None:
    assert len(measured) == 9


def test_recall_counts_the_right_reason_and_precision_what_was_dropped() -> None:
    found = FILTERS.Caught("grey", ("grey",), planted=10, caught=8, good=20, lost=2)
    assert (found.recall, found.precision) == (0.8, 0.8)
    nothing = FILTERS.Caught("grey", ("grey",), planted=10, caught=0, good=10, lost=0)
    assert nothing.precision != nothing.precision
