"""The repository whose models are judged: a branch decides what lies in it, and it is never the machine's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

_JUDGED: ContextVar[Path | None] = ContextVar("judged", default=None)


@contextlib.contextmanager
def judging(root: Path) -> Iterator[None]:
    """While a checkpoint is opened from a copy (a baseline's, in a scratch folder): `root` is what it is a copy of."""
    token = _JUDGED.set(root)
    try:
        yield
    finally:
        _JUDGED.reset(token)


def repositories_of(base: Path) -> list[Path]:
    """The tops of the git work trees that hold `base`, and what it is a copy of; without git, none."""
    found = (_work_tree(one) for one in (base, _JUDGED.get()) if one is not None)
    return [top for top in found if top is not None]


def _work_tree(folder: Path) -> Path | None:
    real = folder.resolve()
    return next((top for top in (real, *real.parents) if (top / ".git").exists()), None)
