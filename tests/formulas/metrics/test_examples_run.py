"""The examples in the docstrings of the metrics are run, as a reader would type them."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import fairgate.formulas.metrics

MODULES = [module.name for module in pkgutil.iter_modules(fairgate.formulas.metrics.__path__)]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_give_what_they_say(module: str) -> None:
    found = doctest.testmod(
        importlib.import_module(f"fairgate.formulas.metrics.{module}"),
        extraglobs={"np": np},
        verbose=False,
        report=True,
    )
    assert found.failed == 0
    assert found.attempted > 0 or module.startswith("_")
