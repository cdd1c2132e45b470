"""`occupations` with the embedded world's trained models: a member of a kept set is made again, alone.

The tiny generator and its stand-ins are a test instrument; benchmarks/filters.py has how well the filters do.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from in_memory_build import rows_of, run_recipe

from fairgate.builds import read_build
from fairgate.builds.recipes.occupations import Occupations
from fairgate.builds.steps.pictures import picture
from fairgate.builds.steps.remake import revary
from fairgate.models.generation import open_model

ROOT = Path(__file__).parents[3]
FEW = {"candidates": 8, "pool": 4, "sets": 2, "shard_sets": 4, "batch": 4, "paint_steps": 10, "vary_steps": 10}


@pytest.fixture
def recipe(monkeypatch):
    """The build of params.yaml, which names its models from the repository's root, with fewer and quicker pictures."""
    monkeypatch.chdir(ROOT)
    return Occupations(read_build("occupations-embedded").settings.model_copy(update=FEW))


def test_an_image_of_the_tiny_generator_is_made_again_alone_from_its_columns(recipe):
    _, sets = run_recipe(recipe, "doctor")
    rows = rows_of(recipe, sets)
    assert rows, [trace.drop for trace in sets.traces]
    painter = open_model("painter", recipe.settings.painter)
    inpainter = open_model("inpainter", rows[0]["generator"])
    for row in rows[::3]:
        kept = np.asarray(picture(row["image"]), dtype=int)
        again = np.asarray(revary(row, painter, inpainter), dtype=int)
        # Alone or in a batch, and on another processor, sums are taken in another order. Twenty steps of float32 move
        # a pixel by well under 0.01 of its 255 levels (2^-24 a sum, some hundred sums one after another), so that
        # rounding moves it by one level at most, and at most 2% of the pixels are that near to a rounding boundary.
        assert np.abs(again - kept).max() <= 1
        assert (again == kept).mean() > 0.98
