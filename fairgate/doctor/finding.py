"""What a doctor says: one thing that was looked at, how it stands, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fairgate.errors import FairgateError

Level = Literal["ok", "warning", "trouble"]

Progress = Callable[[str], None]
"""Told what is being looked at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table. `area` is what was looked at, `ran` the command that was tried.

    `trouble` means that a gate run is impossible, or does not do what it is there for.
    """

    level: Level
    area: str
    what: str
    where: str | None = None
    remedy: str | None = None
    ran: str | None = None


def ok(area: str, what: str, where: str | None = None, remedy: str | None = None) -> Finding:
    """All is as it should be. A remedy here is advice."""
    return Finding("ok", area, what, where, remedy)


def warning(area: str, what: str, where: str | None = None, remedy: str | None = None) -> Finding:
    """Worth knowing; the gate still works."""
    return Finding("warning", area, what, where, remedy)


def trouble(area: str, what: str, where: str | None = None, remedy: str | None = None) -> Finding:
    """The gate cannot run, or does not do what it is there for."""
    return Finding("trouble", area, what, where, remedy)


def of_error(area: str, error: FairgateError) -> Finding:
    """An error that a gate run would have met."""
    return Finding("trouble", area, error.problem, error.where, error.remedy)


def healthy(findings: list[Finding]) -> bool:
    """Whether nothing is wrong; warnings are allowed."""
    return all(one.level != "trouble" for one in findings)
