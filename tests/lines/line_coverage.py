"""A pytest plugin: the lines of fairgate that each worker runs, written as coverage.py's data files.

SlipCover counts by probes in the byte code, which go once they were hit. Before Python 3.12, coverage.py can only
trace: that slows every line of every library, and doubled the time of these tests. Its report reads what is written
here. Processes that tests start are not measured.

PYTEST_DONT_REWRITE: workers are forks of a Python that has imported this file.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from coverage import CoverageData
from slipcover import FileMatcher, ImportManager, Slipcover, wrap_pytest

_ROOT = Path(__file__).parents[2]
# immediate: else it looks for every function of every module again and again, for 6% of the time
_lines = Slipcover(immediate=True)
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
