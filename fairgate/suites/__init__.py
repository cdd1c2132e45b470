"""Suites: strict YAML in, typed checks out, every check measured and decided together."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairgate.suites.load import LoadedSuite, load_suite, suite_names, suite_path
    from fairgate.suites.plan import PlannedCheck, plan_checks
    from fairgate.suites.settings import Settings, named_bases, resolve

_HOMES = {
    "LoadedSuite": "load",
    "PlannedCheck": "plan",
    "Settings": "settings",
    "load_suite": "load",
    "plan_checks": "plan",
    "named_bases": "settings",
    "resolve": "settings",
    "suite_names": "load",
    "suite_path": "load",
}

__all__ = [
    "LoadedSuite",
    "PlannedCheck",
    "Settings",
    "load_suite",
    "named_bases",
    "plan_checks",
    "resolve",
    "suite_names",
    "suite_path",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: pytest imports this package at start-up, which must stay fast."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
