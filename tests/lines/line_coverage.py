"""A pytest plugin: the lines of fairgate that each worker runs, written as coverage.py's data files.

SlipCover counts by probes in the byte code, which go once they were hit. Before Python 3.12, coverage.py can only
trace: that slows every line of every library, and doubled the time of these tests. Its report reads what is written
here. Processes that tests start are not measured.

Before Python 3.12, a probe goes when SlipCover writes a jump over it into `co_code`. In Python 3.11 that is a copy of
what runs, so each probe stayed and was called again for each line. `_OnlyOnce` has the jump written where it counts.

PYTEST_DONT_REWRITE: workers are forks of a Python that has imported this file.
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from coverage import CoverageData
from slipcover import FileMatcher, ImportManager, Slipcover, wrap_pytest

_ROOT = Path(__file__).parents[2]
_ANCHOR = b"what set_immediate counts from"
_CONTENT_OF_BYTES = bytes.__basicsize__ - 1  # without the closing zero
_CONTENT_OF_CODE = types.CodeType.__basicsize__


class _OnlyOnce(Slipcover):
    """SlipCover whose probes go from the code that runs, not from a copy of it (Python 3.11)."""

    def __init__(self) -> None:
        # immediate: else it looks for every function of every module again and again, for 6% of the time
        super().__init__(immediate=True)
        self._placed: list[tuple[object, int]] = []
        if sys.version_info[:2] == (3, 11):
            from slipcover import probe, slipcover

            self._set = probe.set_immediate
            names = {name: getattr(probe, name) for name in ("new", "signal", "mark_removed")}
            slipcover.probe = types.SimpleNamespace(**names, set_immediate=self._place)

    def _place(self, probe: object, _copy: bytes, offset: int) -> None:
        self._placed.append((probe, offset))

    def instrument(self, co: Any, parent: types.CodeType | None = None) -> types.CodeType:
        new: types.CodeType = super().instrument(co, parent)  # which comes here for each function in it
        start = id(new) + _CONTENT_OF_CODE - id(_ANCHOR) - _CONTENT_OF_BYTES
        for probe, offset in self._placed:
            self._set(probe, _ANCHOR, start + offset)
        self._placed.clear()
        return new


_lines = _OnlyOnce()
_own = FileMatcher(sources=[str(_ROOT / "fairgate")])
# before pytest loads its entry points, and with them fairgate, whose assertions it rewrites
wrap_pytest(_lines, _own)
ImportManager(_lines, _own).__enter__()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    files = _lines.get_coverage()["files"]
    data = CoverageData(basename=str(_ROOT / ".coverage"), suffix=str(os.getpid()))
    data.add_lines({str(_ROOT / name): counted["executed_lines"] for name, counted in files.items()})
    # a file that no test imports counts too; SlipCover would parse and compile each in every worker
    data.touch_files(map(str, (_ROOT / "fairgate").rglob("*.py")))
    data.write()
