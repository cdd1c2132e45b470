"""Read a suite's YAML without trusting it: bounded, no aliases, no doubled keys, every value with its line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fairgate.errors import SuiteError

MAX_BYTES = 1 << 20
MAX_DEPTH = 12

Loc = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed file: its data, and the line on which each value stands."""

    path: Path
    shown: str
    data: dict[str, Any]
    lines: dict[Loc, int]

    def where(self, loc: Loc) -> str:
        """`file:line` of the nearest enclosing value that has a line."""
        while loc not in self.lines and loc:
            loc = loc[:-1]
        return f"{self.shown}:{self.lines.get(loc, 1)}"


def read_source(path: Path, *, shown: str | None = None) -> Source:
    """Parse a YAML mapping. Raises SuiteError with the line for anything that is not plain data."""
    shown = shown or str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SuiteError(
            f"the suite cannot be read: {error.strerror}.", where=shown, remedy="check the path"
        ) from error
    if len(raw) > MAX_BYTES:
        raise SuiteError(
            f"the suite has {len(raw):,} bytes; at most {MAX_BYTES:,} are read.",
            where=shown,
            remedy="a suite is a short file: move data elsewhere",
        )
    try:
        node = yaml.compose(raw.decode("utf-8"), Loader=_PlainLoader)
    except UnicodeDecodeError as error:
        raise SuiteError("the suite is not UTF-8 text.", where=shown, remedy="save it as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SuiteError(
            f"the suite is not valid YAML: {error.problem or error.context}.",
            where=f"{shown}:{line}",
            remedy="mend the line; see an example in fairness_suites/",
        ) from error
    except yaml.YAMLError as error:
        raise SuiteError(f"the suite is not valid YAML: {error}.", where=shown, remedy="mend the file") from error
    lines: dict[Loc, int] = {}
    data = _plain(node, (), lines, shown) if node is not None else None
    if not isinstance(data, dict):
        raise SuiteError(
            "the suite is empty or not a mapping.", where=shown, remedy="start it with `schema: 1` and `suite: NAME`"
        )
    return Source(path, shown, data, lines)


class _PlainLoader(yaml.SafeLoader):
    """SafeLoader that refuses aliases: a few of them can unfold into gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call] # the stubs leave it out
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not allowed in a suite", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)


def _plain(node: yaml.Node, loc: Loc, lines: dict[Loc, int], shown: str) -> Any:
    lines[loc] = node.start_mark.line + 1
    if len(loc) > MAX_DEPTH:
        raise SuiteError("the suite is nested too deeply.", where=f"{shown}:{lines[loc]}", remedy="flatten it")
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, loc, lines, shown)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(child, (*loc, index), lines, shown) for index, child in enumerate(node.value)]
    try:
        return _PlainLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        raise SuiteError(
            f"the value '{node.value}' is not plain data.", where=f"{shown}:{lines[loc]}", remedy="quote it"
        ) from error


def _mapping(node: yaml.MappingNode, loc: Loc, lines: dict[Loc, int], shown: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        place = f"{shown}:{key_node.start_mark.line + 1}"
        if not isinstance(key_node, yaml.ScalarNode):
            raise SuiteError("a key must be plain text.", where=place, remedy="write the key as a word")
        key = key_node.value
        if key in result:
            raise SuiteError(f"the key '{key}' stands twice.", where=place, remedy="keep one of them")
        result[key] = _plain(value_node, (*loc, key), lines, shown)
        lines[(*loc, key)] = key_node.start_mark.line + 1
    return result
