"""A suite file as a collector, a check on a subject as an item, and the hooks that collect them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number, share_words, signed
from fairgate.interfaces.pytest_plugin.session import SESSION
from fairgate.records import CheckResult, GroupResult, RunRecord, WorstSet
from fairgate.reports import (
    SYMBOL,
    by_attribute,
    common_cause,
    inert,
    junit_properties,
    no_interval_words,
    noted_sentence,
    unit_of,
)


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


GROUPS_SHOWN = 12


def explain_check(check: CheckResult, record: RunRecord) -> list[str]:
    """Lines for pytest's failure section, about a check of a record."""
    unit = unit_of(record)
    if check.verdict == "error":
        problem, *more = [_safe(line) for line in check.reason.splitlines()] or [""]
        lines = [f"not judged: {problem}", *more]
    else:  # pytest's short summary shows the first line, after the item's name
        lines = [f"{check.verdict}: {inert(noted_sentence(check, record))}"]
    if without := no_interval_words(check):
        lines.append(without)
    if check.groups:
        shown = _shown(check)
        lines += ["", *(_group_line(check, group, unit) for group in shown)]
        if len(check.groups) > len(shown):
            lines.append(f"  ... and {share_words(len(check.groups) - len(shown), 'more group')} in report.html")
    if check.worst_sets:
        lines += ["", worst_set_line(check.worst_sets[0])]
    return lines


def worst_set_line(worst: WorstSet) -> str:
    """`worst set doctor-0012: light × male 0.91, dark × female 0.22 (nurse)`, or `worst image`, if it is alone."""
    members = ", ".join(
        f"{member.group} {number(member.value)}" + (f" ({member.predicted})" if member.predicted else "")
        for member in worst.members
    )
    return f"worst {'image' if len(worst.members) == 1 else 'set'} {worst.set_id}: {members}"


def _safe(line: str) -> str:
    """A line of an error, which may quote names of groups or a file, with its indentation."""
    return line[: len(line) - len(line.lstrip())] + inert(clean(line))


def _shown(check: CheckResult) -> list[GroupResult]:
    """Every group that did not pass, and others up to a number, attribute after attribute, the worst first."""
    groups = [group for _, members in by_attribute(check) for group in members]
    open_ = [group for group in groups if group.verdict in ("fail", "inconclusive")]
    passed = [group for group in groups if group.verdict not in ("fail", "inconclusive")]
    shown = {id(group) for group in [*open_, *passed[: max(0, GROUPS_SHOWN - len(open_))]]}
    return [group for group in groups if id(group) in shown]


def _group_line(check: CheckResult, group: GroupResult, unit: str) -> str:
    worst = group.verdict == "fail" or (group.group == check.worst_group and not check.failing_groups)
    mark = SYMBOL[group.verdict] if group.verdict else " "
    parts = [f"  {'>' if worst else ' '} {clean(group.group, 80):<24} {mark}", f"now {number(group.value)}"]
    if group.baseline is not None:
        parts.append(f"baseline {number(group.baseline)}")
    if group.delta is not None:
        parts.append(f"delta {signed(group.delta)} [{number(group.delta_lo)}, {number(group.delta_hi)}]")
    elif group.lo is not None:
        parts.append(f"[{number(group.lo)}, {number(group.hi)}]")
    small = check.min_sets is not None and group.n_sets < check.min_sets
    parts.append(
        share_words(group.n_sets, unit) + (f", too few to judge (groups.min_sets: {check.min_sets})" if small else "")
    )
    return "  ".join(parts)
