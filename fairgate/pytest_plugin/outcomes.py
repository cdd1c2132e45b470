"""The exit status of a pytest run: 1 for a checkpoint that is more biased, 3 for one that was not judged."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from fairgate.records import NO_VERDICT, RunRecord


class Outcomes:
    """What failed in a run; a plugin, since xdist's controller receives every worker's reports."""

    def __init__(self, root: Path, suites: Callable[[], Collection[Path]]) -> None:
        self._root = root
        self._suites = suites
        self._failed = False
        self._not_judged = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A check that fails counts as such, like any failing test; one that could not be computed is not judged."""
        if not report.failed:
            return
        ours = (self._root / report.nodeid.partition("::")[0]) in self._suites()
        verdict = dict(report.user_properties).get("fairgate.verdict") if ours else "fail"
        if verdict in ("error", None):  # None: the evaluation itself broke
            self._not_judged = True
        elif verdict == "fail":
            self._failed = True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """What could not be collected failed."""
        self._failed = self._failed or report.failed

    def exit_status(self, status: int, records: Collection[RunRecord]) -> int:
        """3 where something was not judged and nothing failed, as `fairgate check` has it (`RunRecord.exit_code`); also
        where every check is waived. Otherwise pytest's own."""
        if status == pytest.ExitCode.TESTS_FAILED and self._not_judged and not self._failed:
            return NO_VERDICT
        unheld = any(all(check.waived for check in record.checks) for record in records)
        return NO_VERDICT if status == pytest.ExitCode.OK and unheld else status
