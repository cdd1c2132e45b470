"""What an image was made with, as columns (enough to make it again alone), and what its models' evaluations cost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

from fairgate.builds.steps.contract import Meter
from fairgate.ground.errors import RecipeError
from fairgate.models.generation import BuildModel, Sampling

SEED = "seed"
HOW = "how"
GENERATOR = "generator"
COLUMNS = (SEED, HOW, GENERATOR)
"""Seed of the noise (63 bits), the sampling as JSON, and the URI of the model. The prompt is the `caption`."""

_LATER = ("refine_guidance",)  # older datasets lack it: left out where None, so that rows stay as they were


def made_with(model: BuildModel, seed: int, how: Sampling) -> dict[str, Any]:
    """The columns of an image that `model` made from `seed`."""
    stored = {name: value for name, value in asdict(how).items() if value is not None or name not in _LATER}
    return {SEED: seed, HOW: json.dumps(stored, sort_keys=True), GENERATOR: model.uri}


def sampling(text: str) -> Sampling:
    """The sampling that a `how` column holds. Raises RecipeError for text that this version did not write."""
    try:
        return Sampling(**json.loads(text))
    except (ValueError, TypeError) as error:  # no JSON, no object, or one with other fields
        known = ", ".join(sorted(field.name for field in fields(Sampling)))
        raise RecipeError(
            f"column '{HOW}' does not say how a diffusion model was run: {error}.",
            where=text,
            remedy=f"take the row from a dataset that fairgate built: it is a JSON object of: {known}",
        ) from error


@contextmanager
def spending(model: BuildModel, meter: Meter) -> Iterator[None]:
    """Counts on the meter what the model spends inside the block: {"unet": 200}."""
    before = Counter(model.spent)
    yield
    for what, times in model.spent.items():
        if times != before[what]:
            meter.count(what, times - before[what])
