"""A plain metric writes six fields of its spec at most, and the other fields have correct defaults."""

from __future__ import annotations

from dataclasses import MISSING, fields
from unittest.mock import Mock

import numpy as np
import pytest
from test_metrics_and_probes_of_others import TEXT, evaluated, installed
from toy_repository import Toy

from fairgate import gate
from fairgate.metrics import Drawn, Measure, MetricSpec
from fairgate.probes import PROBES

__all__ = ["installed"]


@pytest.mark.parametrize("contract", [MetricSpec, Measure])
def test_at_most_six_fields_are_required(contract: type) -> None:
    required = [each.name for each in fields(contract) if each.default is each.default_factory is MISSING]
    assert 0 < len(required) <= 6


def test_a_probe_has_to_define_at_most_six_things() -> None:
    """`kind` and the two that have no default, `run`, and what it shows."""
    (probe,) = {base for kind in PROBES.own() for base in kind.__mro__ if base.__name__ == "Probe"}
    required = [*probe.__abstractmethods__, *(name for name in probe.__annotations__ if not hasattr(probe, name))]
    assert 0 < len(required) <= 6


def spec(**changes: object) -> MetricSpec:
    plain = {"name": "worst", "meaning": "the worst", "probes": ("zero_shot_classification",), "better": "higher"}
    return MetricSpec(**{**plain, **changes})  # type: ignore[arg-type]


def test_a_plain_spec_is_of_a_share_without_groups_that_is_called_as_it_is() -> None:
    plain = spec()
    assert (plain.lowest, plain.highest, plain.per_group) == (0, 1, "no")
    assert (plain.alias, plain.shown_as(), spec(alias="w").alias) == ("worst", "worst", "w")


@pytest.mark.parametrize(
    ("changes", "tempered"),
    [({}, True), ({"turns": True}, False), ({"probes": ("prediction",)}, False), ({"tempered": False}, False)],
)
def test_numbers_of_p_true_are_compared_at_both_temperatures_by_default(
    changes: dict[str, object], tempered: bool
) -> None:
    assert spec(**changes).tempered is tempered


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("value", [1.01, -0.01, np.nan])
def test_a_value_beyond_the_range_of_the_spec_is_an_error_and_no_pass(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    import others_plugin

    wrong = Measure(value=value, draw=lambda counts: Drawn(np.full(len(counts), value)), badness=np.zeros(80))
    monkeypatch.setattr(others_plugin.LowSets, "measure", Mock(return_value=wrong))
    checks = {check.item: check for check in gate.evaluate(*evaluated(toy, TEXT), command="pytest").record.checks}
    assert checks["sound"].verdict == "error"
    wanted = f"gives {value:g}, and its spec says that it lies between 0 and 1"
    assert ("gives no number (NaN)" if np.isnan(value) else wanted) in checks["sound"].reason
