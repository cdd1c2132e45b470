"""What people and programs call: Python, the command line, pytest, training callbacks. They parse, call and print."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairgate.records import MetricSpec


def use_installed_packages() -> None:
    """Let reports name the metrics and probes of installed packages. They are imported when a record has one."""
    from fairgate.reports import INSTALLED

    INSTALLED.metric, INSTALLED.value = _metric, _value


def _metric(name: str) -> MetricSpec | None:
    try:
        from fairgate.metrics import METRICS
    except ImportError:  # numpy is missing where strangers' reports are rendered
        return None
    metric = METRICS.get(name)
    return None if metric is None else metric.spec


def _value(kind: str) -> str:
    try:
        from fairgate.probes import value_name
    except ImportError:
        return "value"
    return value_name(kind)
