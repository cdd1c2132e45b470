"""GitHub's expressions, as far as this repository's workflows and actions use them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TOKEN = re.compile(r"\s*(\|\||&&|==|!=|[!(),]|'(?:[^']|'')*'|[A-Za-z_][\w.*-]*|\d+)")
_INSIDE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)


def filled(text: object, context: Mapping[str, Any]) -> str:
    """A value of `env:` or `with:` with its expressions replaced, as the runner passes it on."""
    return _INSIDE.sub(lambda found: shown(evaluate(found[1], context)), str(text))


def holds(condition: str, context: Mapping[str, Any]) -> bool:
    """Whether an `if:` lets a job or step run, `${{ }}` or not."""
    whole = _INSIDE.fullmatch(condition.strip())
    return bool(evaluate(whole[1] if whole else condition, context))


def shown(value: object) -> str:
    """A value as text: nothing for null, lower case for truth."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def evaluate(expression: str, context: Mapping[str, Any]) -> Any:
    """The value of an expression. Only functions that the repository's files use are known."""
    reader = _Reader(expression, context)
    value = reader.either()
    assert not reader.left, f"not understood: {reader.left} in {expression}"
    return value


class _Reader:
    def __init__(self, text: str, context: Mapping[str, Any]) -> None:
        self.left = _TOKEN.findall(text)
        assert "".join(self.left) == re.sub(r"\s+(?=(?:[^']*'[^']*')*[^']*$)", "", text), f"not understood: {text}"
        self.context = context

    def either(self) -> Any:
        value = self.both()
        while self.took("||"):
            other = self.both()
            value = value or other
        return value

    def both(self) -> Any:
        value = self.compared()
        while self.took("&&"):
            other = self.compared()
            value = value and other
        return value

    def compared(self) -> Any:
        value = self.one()
        for sign in ("==", "!="):
            if self.took(sign):
                same = _loose(value) == _loose(self.one())
                return same if sign == "==" else not same
        return value

    def one(self) -> Any:
        if self.took("!"):
            return not self.one()
        if self.took("("):
            value = self.either()
            assert self.took(")")
            return value
        token = self.left.pop(0)
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if self.took("("):
            return self.called(token)
        return {"true": True, "false": False, "null": None}.get(token, self.looked_up(token.split(".")))

    def called(self, name: str) -> Any:
        given = []
        while not self.took(")"):
            given.append(self.either())
            self.took(",")
        if name == "contains":
            return _loose(given[1]) in [_loose(each) for each in given[0] or []]
        if name == "format":
            return re.sub(r"\{(\d)\}", lambda found: shown(given[1 + int(found[1])]), given[0])
        return {"always": True, "cancelled": False}[name]

    def looked_up(self, parts: list[str]) -> Any:
        value: Any = self.context
        for place, part in enumerate(parts):
            if part == "*":
                rest = parts[place + 1 :]
                return [_Reader("x", {"x": each}).looked_up(["x", *rest]) for each in value or []]
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def took(self, token: str) -> bool:
        if self.left and self.left[0] == token:
            self.left.pop(0)
            return True
        return False


def _loose(value: object) -> object:
    return value.lower() if isinstance(value, str) else "" if value is None else value
