"""fairgate: a regression test gate for the fairness of vision models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairgate.version import __version__

if TYPE_CHECKING:
    from fairgate.api import Comparison, Run, RunRecord, check, compare, load_suite, open_dataset

__all__ = ["Comparison", "Run", "RunRecord", "__version__", "check", "compare", "load_suite", "open_dataset"]


def __getattr__(name: str) -> Any:
    """What `fairgate.api` offers, imported when it is first used."""
    if name in __all__:
        from fairgate import api

        return getattr(api, name)
    raise AttributeError(f"module 'fairgate' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
