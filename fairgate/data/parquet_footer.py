"""The footer of a Parquet file, checked before Arrow is asked about its columns.

Arrow ends the whole process (SIGABRT), instead of raising an error, where a footer describes a column that cannot be:
size statistics of other levels than the schema's, more columns than the schema has, or an encrypted one. The footer is
read here as Arrow's reader reads it (Thrift's compact protocol), and refused where the two could read it differently.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final, NamedTuple

LARGEST = 16 << 20
"""Bytes of a footer: about a hundred thousand chunks of columns."""
_MAGIC: Final = b"PAR1"
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_SIZES: Final = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8}
"""Bytes of values of a fixed size; a truth value has one in lists and maps, and none as a field."""
_DEEPEST = 32
_REQUIRED, _REPEATED = 0, 2
_BYTE_ARRAY = 6

# Structs that hold lists, and the kinds of those lists' elements. Arrow reads elements by these kinds, whatever a list
# itself says, so that another kind would make it read on from another byte. What is not named here has no lists.
_ELEMENTS: Final[dict[str, dict[int, int]]] = {
    "file": {2: _STRUCT, 4: _STRUCT, 5: _STRUCT, 7: _STRUCT},
    "group": {1: _STRUCT, 4: _STRUCT},
    "column": {2: _I32, 3: _BINARY, 8: _STRUCT, 13: _STRUCT},
    "sizes": {2: _I64, 3: _I64},
    "shapes": {2: _I32},
}
_STRUCTS: Final = {
    "file": {2: "schema", 4: "group"},
    "group": {1: "chunk"},
    "chunk": {3: "column"},
    "column": {16: "sizes", 17: "shapes"},
}
_WANTED: Final = {
    "file": {2: _LIST, 4: _LIST},
    "schema": {1: _I32, 3: _I32, 5: _I32},
    "group": {1: _LIST},
    "chunk": {3: _STRUCT, 8: _STRUCT},
    "column": {16: _STRUCT},
    "sizes": {1: _I64, 2: _LIST, 3: _LIST},
}
"""What is looked at, with the kind that it has to have: Arrow passes over a field of another kind."""

_sound: Final = set[bytes]()
"""SHA-256 of footers that were checked in this process: a file is opened often."""


class _Leaf(NamedTuple):
    """A column of the schema: its physical type, and how often its path is optional or repeated."""

    kind: int
    definition: int
    repetition: int


def require_sound_footer(path: Path) -> None:
    """Raise ValueError for a file whose footer is none, or describes columns that cannot be; OSError as `open` does."""
    footer = _footer_of(path)
    if (digest := hashlib.sha256(footer).digest()) in _sound:
        return
    try:
        found = _Reader(footer).struct("file")
    except IndexError as error:
        raise ValueError("its footer ends early") from error
    leaves = _leaves(found.get(2, []))
    for number, group in enumerate(found.get(4, [])):
        chunks = group.get(1, [])
        if len(chunks) != len(leaves):
            raise ValueError(f"row group {number} has {len(chunks)} columns, and the schema {len(leaves)}")
        for chunk, leaf in zip(chunks, leaves, strict=True):
            if 8 in chunk or 3 not in chunk:
                raise ValueError(f"a column of row group {number} is encrypted, or in another file")
            if not _fits(chunk[3].get(16, {}), leaf):
                raise ValueError(f"a column of row group {number} has statistics of other levels than the schema's")
    _sound.add(digest)


def _footer_of(path: Path) -> bytes:
    with path.open("rb") as handle:
        end = handle.seek(0, 2)
        if end < 12:
            raise ValueError("it is too short for a Parquet file")
        handle.seek(end - 8)
        tail = handle.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC:
            raise ValueError("it does not end as a Parquet file does, or is encrypted")
        if length > min(LARGEST, end - 12):
            raise ValueError(f"its footer would have {length:,} bytes")
        handle.seek(end - 8 - length)
        return handle.read(length)


def _fits(sizes: dict[int, Any], leaf: _Leaf) -> bool:
    """Whether size statistics are of a column's kind and levels; a list of levels may be left out."""
    of_bytes = 1 not in sizes or leaf.kind == _BYTE_ARRAY
    return of_bytes and all(
        len(sizes.get(field, [])) in (0, most + 1) for field, most in ((2, leaf.repetition), (3, leaf.definition))
    )


def _leaves(elements: list[dict[int, Any]]) -> list[_Leaf]:
    """The columns of a schema, from its list in depth-first order, as Arrow builds its tree."""
    if not elements:
        raise ValueError("its footer has no schema")
    leaves, open_groups = list[_Leaf](), [[elements[0].get(5, 0), 0, 0]]
    for element in elements[1:]:
        while open_groups and not open_groups[-1][0]:
            open_groups.pop()
        if not open_groups:
            raise ValueError("its schema has more columns than it says")
        open_groups[-1][0] -= 1
        _, definition, repetition = open_groups[-1]
        how, children = element.get(3, _REQUIRED), element.get(5, 0)
        if not _REQUIRED <= how <= _REPEATED or children < 0 or len(open_groups) > _DEEPEST:
            raise ValueError("its schema is not one")
        definition, repetition = definition + (how != _REQUIRED), repetition + (how == _REPEATED)
        if not children and 1 in element:
            leaves.append(_Leaf(element[1], definition, repetition))
        else:
            open_groups.append([children, definition, repetition])
    if any(left for left, _, _ in open_groups):
        raise ValueError("its schema has fewer columns than it says")
    return leaves


class _Reader:
    """Thrift's compact protocol. Structs become what is wanted of them, by field; lists of structs become lists."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, name: str, depth: int = 0) -> dict[int, Any]:
        """The wanted fields of a struct. Raises ValueError for one that Arrow may read otherwise."""
        found, seen, field, wanted = dict[int, Any](), set[int](), 0, _WANTED.get(name, {})
        while head := self._byte():
            kind, step = head & 15, head >> 4
            field = field + step if step else self._signed()
            if field in seen or not -(1 << 15) <= field < 1 << 15:
                raise ValueError("its footer has a field twice, or one of no number")
            seen.add(field)
            if field in wanted:
                if wanted[field] != kind:
                    raise ValueError("its footer has a field of another kind")
                found[field] = self._value(kind, name, field, depth + 1)
            elif kind in (_I16, _I32, _I64):
                self._varint()
            elif kind == _BINARY:
                self._skip(self._varint())
            elif kind > _FALSE:
                self._value(kind, name, field, depth + 1)
        return found

    def _value(self, kind: int, name: str, field: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("its footer is nested too deeply")
        if kind in (_I16, _I32, _I64):
            value = self._signed()
            if kind != _I64 and not -(1 << 31) <= value < 1 << 31:
                raise ValueError("its footer has a number that is too large")
            return value
        if kind == _STRUCT:
            return self.struct(_STRUCTS.get(name, {}).get(field, ""), depth)
        if kind in (_LIST, _SET):
            return self._list(name, field, depth)
        if kind == _MAP:
            return self._map(depth)
        if kind not in _SIZES and kind != _BINARY:
            raise ValueError("its footer has a field of no kind")
        return self._skip(_SIZES.get(kind) or self._varint())

    def _list(self, name: str, field: int, depth: int) -> list[Any]:
        head = self._byte()
        kind, size = head & 15, head >> 4
        if size == 15:
            size = self._varint()
        if _ELEMENTS.get(name, {}).get(field, kind) != kind or size > len(self._data) - self._at:
            raise ValueError("its footer has a list of another kind, or of no length")
        return [self._value(kind, name, field, depth + 1) for _ in range(size)]

    def _map(self, depth: int) -> None:
        size = self._varint()
        if size > len(self._data) - self._at:
            raise ValueError("its footer has a map of no length")
        kinds = self._byte() if size else 0
        for _ in range(size):
            self._value(kinds >> 4, "", 0, depth + 1)
            self._value(kinds & 15, "", 0, depth + 1)

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _skip(self, size: int) -> None:
        self._at += size
        if self._at > len(self._data):
            raise ValueError("its footer ends early")

    def _varint(self) -> int:
        value = self._byte()
        if value < 128:
            return value
        value &= 127
        for shift in range(7, 70, 7):
            part = self._byte()
            value |= (part & 127) << shift
            if part < 128:
                return value
        raise ValueError("its footer has a number that does not end")

    def _signed(self) -> int:
        """A number in zigzag coding: 0, -1, 1, -2, ..."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
