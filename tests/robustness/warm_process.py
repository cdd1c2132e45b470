"""A Python that has imported everything once, and forks gate runs that can be killed at any moment.

Run as a program it is that Python.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from forking_python import ForkingPython, serve
from warm_python import import_everything

CACHE_KEY = "the key of what these processes cache"


class WarmProcess(ForkingPython):
    """Forks `fairgate WORDS` or `pytest WORDS`; the first word says which."""

    def __init__(self, scratch: Path) -> None:
        own = {"XDG_CACHE_HOME": str(scratch / "cache"), "XDG_STATE_HOME": str(scratch / "state")}
        own["FAIRGATE_CACHE_KEY"] = CACHE_KEY
        super().__init__(__file__, own)


def _import_everything() -> None:
    """Imports only: no model, no pool of threads and no database connection may stand when a run is forked."""
    import_everything()
    sys.executable = str(Path(sys.prefix, "bin", "python"))  # a fork of the warm one sees no mount of its caller
    warnings.resetwarnings()


def _command(words: Sequence[str]) -> int:
    sys.argv = [*words]
    if words[0] == "pytest":
        import pytest

        return int(pytest.main([*words[1:]]))
    from fairgate.interfaces.cli.main import app

    app()
    return 0


if __name__ == "__main__":
    _import_everything()
    serve(_command)
