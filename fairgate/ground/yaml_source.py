"""Read a suite's YAML without trusting it: bounded, no aliases, no doubled keys, every value with its line.

Not ruamel.yaml: it names the line of a doubled key as well, but builds aliases and tags without a limit of depth or
size, so that the loader below would be needed all the same; and in its YAML 1.2, `yes` is a text.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from fairgate.ground.errors import SuiteError
from fairgate.ground.hashing import require_regular

MAX_BYTES = 1 << 20
MAX_DEPTH = 12
MAX_VALUES = 20_000
MAX_TEXT = 2000
"""Characters of one value; the longest that a suite may hold has 500."""

Loc = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed file: its data, and the line of each value."""

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
    require_regular(path, SuiteError)
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise SuiteError(
            f"the suite cannot be read: {error.strerror}.", where=shown, remedy="check the path"
        ) from error
    return parse_source(raw, path, shown=shown)


def parse_source(raw: bytes, path: Path, *, shown: str) -> Source:
    """Parse the text of a suite. Raises SuiteError as `read_source` does."""
    if len(raw) > MAX_BYTES:
        raise SuiteError(
            f"the suite is too large: at most {MAX_BYTES:,} bytes are read.",
            where=shown,
            remedy="a suite is a short file: move data elsewhere",
        )
    node = _composed(raw, shown)
    lines: dict[Loc, int] = {}
    data = _plain(node, (), lines, shown) if node is not None else None
    if not isinstance(data, dict):
        raise SuiteError(
            "the suite is empty or not a mapping.", where=shown, remedy="start it with `schema: 1` and `suite: NAME`"
        )
    return Source(path, shown, data, lines)


def _composed(raw: bytes, shown: str) -> yaml.Node | None:
    try:
        return _node(raw)
    except UnicodeDecodeError as error:
        raise SuiteError("the suite is not UTF-8 text.", where=shown, remedy="save it as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SuiteError(
            f"the suite is not valid YAML: {error.problem or error.context}.",
            where=f"{shown}:{line}",
            remedy="fix the line; see an example in fairness_suites/",
        ) from error
    except yaml.YAMLError as error:
        raise SuiteError(f"the suite is not valid YAML: {error}.", where=shown, remedy="fix the file") from error
    except (ValueError, OverflowError) as error:  # "\UFFFFFFFF": PyYAML asks Python for a character that is none
        raise SuiteError(
            "the suite holds an escape that names no character.",
            where=shown,
            remedy="fix the text after the backslash",
        ) from error


@functools.lru_cache(maxsize=8)  # most changes leave the suite as the base branch has it
def _node(raw: bytes) -> yaml.Node | None:
    node: yaml.Node | None = yaml.compose(raw.decode("utf-8"), Loader=_PlainLoader)
    return node


class _PlainLoader(yaml.SafeLoader):
    """SafeLoader that refuses what a few bytes can unfold into gigabytes or minutes, before it is built.

    Aliases, tags, depth (PyYAML would run into Python's own limit), and more values than a suite has.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._depth = self._values = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call] # the stubs leave it out
        self._values += 1
        if isinstance(event, yaml.AliasEvent):
            _refuse("aliases (*name) are not allowed in a suite", event)
        if getattr(event, "tag", None) is not None:
            _refuse("tags (!name) are not allowed in a suite", event)
        if self._depth > MAX_DEPTH:
            _refuse("it is nested too deeply", event)
        if self._values > MAX_VALUES:
            _refuse(f"it holds more than {MAX_VALUES:,} values", event)
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > MAX_TEXT:
            _refuse(f"a value has {len(event.value):,} characters, and at most {MAX_TEXT:,} are read", event)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def _refuse(problem: str, event: yaml.Event) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)  # type: ignore[arg-type] # stubs differ


def _plain(node: yaml.Node, loc: Loc, lines: dict[Loc, int], shown: str) -> Any:
    lines[loc] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = f"{shown}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                raise SuiteError("a key must be plain text.", where=place, remedy="write the key as a word")
            key = key_node.value
            if key in result:
                raise SuiteError(f"the key '{key}' is given twice.", where=place, remedy="keep one of them")
            result[key] = _plain(value_node, (*loc, key), lines, shown)
            lines[(*loc, key)] = key_node.start_mark.line + 1
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_plain(child, (*loc, index), lines, shown) for index, child in enumerate(node.value)]
    try:
        return _PlainLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise SuiteError(
            f"the value '{node.value:.60}' is not plain data.", where=f"{shown}:{lines[loc]}", remedy="quote it"
        ) from error
