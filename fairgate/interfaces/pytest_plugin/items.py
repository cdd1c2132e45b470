"""A suite file as a collector, a check on a subject as an item, and the hooks that collect them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairgate.interfaces.pytest_plugin.explain import explain_check
from fairgate.interfaces.pytest_plugin.session import SESSION
from fairgate.records import CheckResult
from fairgate.reports import common_cause, junit_properties


class FairnessFailure(Exception):
    """A check whose verdict is not a pass."""

    def __init__(self, check: CheckResult) -> None:
        super().__init__(check)
        self.check = check


class SuiteFile(pytest.File):
    """One file of fairness_suites/ that `--fairness-suite` selects."""

    def collect(self) -> Iterator[SuiteItem]:
        """One item per check and subject, whatever is selected later: the family stays whole."""
        session = self.config.stash[SESSION]
        suite = session.by_path[self.path]
        for planned in session.prepared[suite].everything:
            yield SuiteItem.from_parent(self, name=planned.item, suite=suite, where=planned.where)


class SuiteItem(pytest.Item):
    """One check on one subject."""

    def __init__(self, *, suite: str, where: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.suite = suite
        self.where = where

    def runtest(self) -> None:
        """Read this check's result; the first item evaluates the suite."""
        session = self.config.stash[SESSION]
        check = session.result(self.suite, self.name)
        session.ran.add((self.suite, self.name))
        self.user_properties += junit_properties(check, session.evaluations[self.suite].record)
        if check.waived and check.waiver is not None:
            pytest.xfail(f"waived until {check.waiver.until}: {check.waiver.reason}")
        if check.watched and check.verdict != "pass":
            pytest.xfail("watched: it decides nothing")
        lenient = session.evaluations[self.suite].record.allow_inconclusive and check.verdict == "inconclusive"
        if check.verdict != "pass" and not lenient:
            raise FairnessFailure(check)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The reason, the worst group and the worst set; a traceback would say nothing."""
        if isinstance(excinfo.value, FairnessFailure):
            session = self.config.stash[SESSION]
            record = session.evaluations[self.suite].record
            cause = common_cause(record)
            if cause is not None:  # named by the first failure of a suite in this process
                first = self.suite not in session.explained
                session.explained.add(self.suite)
                return f"not judged: {cause if first else 'as above'}"
            return "\n".join(
                [
                    *explain_check(excinfo.value.check, record),
                    f"defined at {self.where}",
                ]
            )
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """The file and line that define the check."""
        line = self.where.rpartition(":")[2]
        return self.path, int(line) - 1 if line.isdigit() else None, self.name


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SuiteFile | None:
    """A selected suite file becomes a collector of its checks."""
    return SuiteFile.from_parent(parent, path=file_path) if file_path in parent.config.stash[SESSION].by_path else None


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add the items of suites that the branch deletes: they have no file to collect, and are judged as well."""
    for path in session.config.stash[SESSION].by_path:
        if not path.is_file():
            items += SuiteFile.from_parent(session, path=path).collect()
