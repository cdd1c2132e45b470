"""The filter of report.html by check and by group: its choices, and the style that hides what is not of them.

Rules of style do it, so that the page runs no script: `:has` sees which option is chosen. A browser without `:has`
shows no filter, and everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairgate.records import CheckResult
from fairgate.reports.formatting import check_name

CHECKS: Final = 40
GROUPS: Final = 60


@dataclass(frozen=True, slots=True)
class PageFilter:
    """The checks and groups to choose from, each known by its place: a class has no foreign text."""

    checks: Sequence[str]
    groups: Sequence[str]

    @property
    def offered(self) -> bool:
        """Whether there is anything to choose."""
        return len(self.checks) > 1 or len(self.groups) > 1

    def of_check(self, check: CheckResult) -> str:
        """The classes of what shows a check: its own, and those of its groups."""
        groups = sorted({self.groups.index(group.group) for group in check.groups if group.group in self.groups})
        name = check_name(check)
        own = f" k{self.checks.index(name)}" if name in self.checks else ""
        return f"k{own}{''.join(f' h{at}' for at in groups)}"

    def of_group(self, name: str) -> str:
        """The classes of a group's row."""
        return f"g g{self.groups.index(name)}" if name in self.groups else "g"


def filter_of(checks: Sequence[CheckResult]) -> PageFilter:
    """The filter of a page that shows these checks: the first names of each kind, in their order."""
    names = dict.fromkeys(map(check_name, checks))
    groups = dict.fromkeys(group.group for check in checks for group in check.groups)
    return PageFilter(list(names)[:CHECKS], list(groups)[:GROUPS])


def filter_rules() -> str:
    """The style of any filter; the first option chooses everything."""
    chosen = "body:has(#by-{kind} option:nth-child({place}):checked) {hidden}"
    rules = [chosen.format(kind="check", place=at + 2, hidden=f".k:not(.k{at})") for at in range(CHECKS)]
    rules += [
        chosen.format(kind="group", place=at + 2, hidden=f":is(.k:not(.h{at}), tr.g:not(.g{at}))")
        for at in range(GROUPS)
    ]
    hidden = "\n".join(f"  {rule} {{ display: none; }}" for rule in rules)
    return f"@supports selector(:has(*)) {{\n  .filter {{ display: flex; }}\n{hidden}\n}}\n"
