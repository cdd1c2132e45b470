"""Errors held by their remedy, and to all three parts, for every place of a package that raises one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairgate.ground.errors import FairgateError

Site = tuple[str, int]
"""File and line of a `raise`."""


class Refusal(NamedTuple):
    """A call that must not be answered, and the remedy that its error names."""

    call: Callable[[], Any]
    remedy: str


def caught(refusal: Refusal, kind: type[FairgateError]) -> pytest.ExceptionInfo[FairgateError]:
    with pytest.raises(kind) as error:
        refusal.call()
    return error


def check(refusal: Refusal, kind: type[FairgateError]) -> None:
    error = caught(refusal, kind).value
    assert type(error) is kind
    assert error.remedy == refusal.remedy
    assert error.problem
    assert error.where


def sites_met(refusals: Iterable[Refusal], kind: type[FairgateError]) -> set[Site]:
    """Where the refusals' errors are raised."""
    last = [caught(refusal, kind).traceback[-1] for refusal in refusals]
    return {(Path(entry.path).name, entry.lineno + 1) for entry in last}


def sites_written(package: Path) -> set[Site]:
    """Every `raise` in the modules of a package."""
    return {
        (module.name, node.lineno)
        for module in package.glob("*.py")
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Raise)
    }
