"""What a model's evaluations cost a step, for its meter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from fairgate.generation import Made
from fairgate.steps.contract import Meter


@contextmanager
def spending(model: Made, meter: Meter) -> Iterator[None]:
    """Counts on the meter what the model spends inside the block: {"unet": 200}."""
    before = Counter(model.spent)
    yield
    for what, times in model.spent.items():
        if times != before[what]:
            meter.count(what, times - before[what])
