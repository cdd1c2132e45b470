"""fairgate: a regression test gate for the fairness of vision models."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fairgate.version import __version__

if TYPE_CHECKING:
    from fairgate.api import Comparison, Run, RunRecord, check, compare, load_suite, open_dataset
    from fairgate.measures import Metric
    from fairgate.measures import register as register_metric
    from fairgate.models import Model, ModelFamily
    from fairgate.models import register as register_model
    from fairgate.probes import Probe
    from fairgate.probes import register as register_probe
    from fairgate.recipes import Recipe
    from fairgate.recipes import register as register_recipe

__all__ = [
    "Comparison",
    "Metric",
    "Model",
    "ModelFamily",
    "Probe",
    "Recipe",
    "Run",
    "RunRecord",
    "__version__",
    "check",
    "compare",
    "load_suite",
    "open_dataset",
    "register_metric",
    "register_model",
    "register_probe",
    "register_recipe",
]
_CONTRACTS = {
    "Metric": "measures",
    "Model": "models",
    "ModelFamily": "models",
    "Probe": "probes",
    "Recipe": "recipes",
    "register_metric": "measures",
    "register_model": "models",
    "register_probe": "probes",
    "register_recipe": "recipes",
}
"""Which package has the contract, or its decorator `register`."""


def __getattr__(name: str) -> Any:
    """What `__all__` names, imported when it is first used."""
    if name in _CONTRACTS:
        own = "register" if name.startswith("register_") else name
        return getattr(importlib.import_module(f"fairgate.{_CONTRACTS[name]}"), own)
    if name in __all__:
        return getattr(importlib.import_module("fairgate.api"), name)
    raise AttributeError(f"module 'fairgate' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
