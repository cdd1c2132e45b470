"""How to find what other packages add. The interfaces pass it in: reports import neither metrics nor probes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fairgate.records import MetricSpec


@dataclass(slots=True)
class Installed:
    """`metric` finds the description of a metric by its name, `value` names the number of an image by probe kind."""

    metric: Callable[[str], MetricSpec | None] = lambda _: None
    value: Callable[[str], str] = lambda _: "value"


INSTALLED: Final = Installed()
