"""Suites: strict YAML in, typed checks out, every check measured and decided together."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairgate.suites.load import FOLDER, LoadedSuite, load_suite, load_text, suite_names, suite_path
    from fairgate.suites.options import OPTIONS
    from fairgate.suites.plan import PlannedCheck, plan_check, plan_checks
    from fairgate.suites.run_probes import probe_digests
    from fairgate.suites.schema import Check, Suite
    from fairgate.suites.settings import Settings, command_line, default_cache, named_bases, resolve

_NAMES = {
    "load": ("FOLDER", "LoadedSuite", "load_suite", "load_text", "suite_names", "suite_path"),
    "options": ("OPTIONS",),
    "plan": ("PlannedCheck", "plan_check", "plan_checks"),
    "run_probes": ("probe_digests",),
    "schema": ("Check", "Suite"),
    "settings": ("Settings", "command_line", "default_cache", "named_bases", "resolve"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "FOLDER",
    "OPTIONS",
    "Check",
    "LoadedSuite",
    "PlannedCheck",
    "Settings",
    "Suite",
    "command_line",
    "default_cache",
    "load_suite",
    "load_text",
    "named_bases",
    "plan_check",
    "plan_checks",
    "probe_digests",
    "resolve",
    "suite_names",
    "suite_path",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: pytest imports this package at start-up, which must stay fast."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
