"""Many models on one suite's dataset and probes, compared as the papers' tables do; nothing here decides a gate."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairgate.audit.record import AuditRecord
    from fairgate.audit.run import Wishes, audit

_HOMES = {"AuditRecord": "record", "Wishes": "run", "audit": "run"}

__all__ = ["AuditRecord", "Wishes", "audit"]


def __getattr__(name: str) -> Any:
    """Public names arrive when they are asked for: the command line starts up with this package."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
