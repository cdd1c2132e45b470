"""What people and programs call: Python, the command line, pytest, training callbacks. They parse, call and print."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairgate.records import MetricSpec


def use_installed_packages() -> None:
    """Let reports name the metrics and probes of installed packages. They are imported when a record has one."""
    from fairgate.reports import INSTALLED

    INSTALLED.metric, INSTALLED.value = _metric, _value


def end_quickly() -> None:
    """Keep Python from searching every object for cycles at its end: 0.2 s. Not after triton was imported, as by a
    model: its binding prints 30 lines about objects that it is left with."""
    if "triton" not in sys.modules:
        gc.freeze()


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
