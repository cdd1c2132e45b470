"""How small a regression a suite can see at its present size, and how many sets a smaller one would take."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairgate.power.record import PowerRecord
    from fairgate.power.run import suite_power

_HOMES = {"PowerRecord": "record", "suite_power": "run"}

__all__ = ["PowerRecord", "suite_power"]


def __getattr__(name: str) -> Any:
    """Public names arrive when they are asked for: the command line starts up with this package."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
