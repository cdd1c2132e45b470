"""Text of many rows as codes of its different texts: no Python string a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from fairgate.data.large_columns import on_disk, texts_on_disk
from fairgate.data.parquet_file import is_text
from fairgate.ground.errors import first_harmful

FEW = 1 << 14
"""Texts up to which Python's lists do: importing Arrow's functions takes 0.06 s."""


_AT_ONCE = 1 << 20
"""Rows or letters that are looked at once."""


class TextColumn:
    """Text of many rows: the different texts `names`, an Arrow array, and each row's place among them, `codes` (rows,).

    It reads as an array of strings does: `column[rows]`, `column == text`, `tolist()` and NumPy's functions give what
    they give of one, and make its strings. Names may be there that no row has.

    Of a long column in which probably all texts differ, such as paths, it is found out when it matters whether they do.
    """

    __slots__ = ("_codes", "_differ", "_names")
    __hash__ = None  # type: ignore[assignment] # as an array's

    def __init__(self, names: Any, codes: NDArray[Any], differ: bool = True) -> None:
        self._names, self._codes, self._differ = names, codes, differ

    @property
    def names(self) -> Any:
        """The different texts, an Arrow array."""
        self._tell_apart()
        return self._names

    @property
    def codes(self) -> NDArray[Any]:
        """Each row's place among the names, (rows,)."""
        self._tell_apart()
        return self._codes

    def _tell_apart(self) -> None:
        if not self._differ:
            coded = self._names.dictionary_encode()
            self._names, self._codes, self._differ = coded.dictionary, np.from_dlpack(coded.indices), True

    @classmethod
    def of(cls, values: TextRows | Sequence[str]) -> TextColumn:
        """A column of strings; what is one already remains as it is."""
        if isinstance(values, TextColumn):
            return values
        texts = values.tolist() if isinstance(values, np.ndarray) else values
        place = {text: at for at, text in enumerate(dict.fromkeys(texts))}
        codes = np.fromiter(map(place.__getitem__, texts), dtype=code_type(len(place)), count=len(texts))
        return cls(arrow_texts(place), codes)

    @classmethod
    def of_arrow(cls, column: Any, missing: str = "") -> TextColumn:
        """An Arrow column of text, coded or not. Null becomes `missing`."""
        import pyarrow as pa

        assert is_text(column.type)
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        if len(column) > FEW and all(map(_is_row_by_row, column.chunks)):
            names = pa.concat_arrays([chunk.dictionary.cast(pa.string()) for chunk in column.chunks])
            return cls(names, np.arange(len(names), dtype=code_type(len(names))), differ=False)
        chunks = column.unify_dictionaries().chunks
        names = chunks[0].dictionary if chunks else arrow_texts([])
        names = names if names.type == pa.string() else names.cast(pa.string())
        gap = any(chunk.indices.null_count for chunk in chunks) or names.null_count
        if gap:
            texts = [missing if name is None else name for name in (*names.to_pylist(), missing)]
            own = cls.of(texts)
            place, names = own.codes, own.names
        codes = np.empty(len(column), dtype=code_type(len(names)))
        start = 0
        for indices in (chunk.indices for chunk in chunks):
            at: Any = (
                np.from_dlpack(indices)
                if not indices.null_count
                else np.array([-1 if code is None else code for code in indices.to_pylist()])
            )
            codes[start : (start := start + len(at))] = place[at] if gap else at
        return cls(names, codes)

    @classmethod
    def joined(cls, columns: Sequence[TextColumn], by: str) -> TextColumn:
        """The columns' texts of every row, with `by` between them."""
        first, *others = columns
        for other in others:
            pairs = first.codes.astype(np.int64) * len(other.names) + other.codes
            used, codes = np.unique(pairs, return_inverse=True)
            left, right = (
                _picked(side.names, at).to_pylist()
                for side, at in zip((first, other), np.divmod(used, len(other.names)), strict=True)
            )
            whole = cls.of([f"{a}{by}{b}" for a, b in zip(left, right, strict=True)])
            first = cls(whole.names, whole.codes[codes])
        return first

    def on_disk(self) -> TextColumn:
        """The same, on disk if it is large."""
        return TextColumn(texts_on_disk(self._names), on_disk(self._codes), self._differ)

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def shape(self) -> tuple[int]:
        """(rows,)."""
        return (len(self),)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the array that it reads as."""
        return np.dtype(object)

    @overload
    def __getitem__(self, rows: int | np.integer[Any]) -> str: ...
    @overload
    def __getitem__(self, rows: slice | NDArray[Any] | Sequence[int]) -> NDArray[np.object_]: ...
    def __getitem__(self, rows: Any) -> Any:
        picked = self._codes[rows]
        return self._names[int(picked)].as_py() if np.ndim(picked) == 0 else _objects(self._names, picked)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = _objects(self._names, self._codes)
        return array if dtype is None else array.astype(dtype)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, str):
            return self.codes == _places(arrow_texts([other]), self.names)[0]
        if isinstance(other, TextColumn):
            return self.codes == _places(other.names, self.names)[other.codes]
        return np.asarray(self) == np.asarray(other)

    def __ne__(self, other: object) -> Any:
        return ~(self == other)

    def tolist(self) -> list[str]:
        """A string a row; equal ones are one."""
        texts: list[str] = np.asarray(self).tolist()
        return texts

    def reshape(self, *shape: int) -> NDArray[np.object_]:
        """As an array of another shape."""
        return np.asarray(self).reshape(*shape)

    def astype(self, dtype: Any) -> NDArray[Any]:
        """As an array of another type."""
        return np.asarray(self).astype(dtype)

    def take(self, rows: NDArray[Any]) -> TextColumn:
        """Some rows, in this order."""
        return TextColumn(self.names, self.codes[rows])

    def counts(self) -> NDArray[np.intp]:
        """Rows with each of the names, (names,)."""
        codes, names = self.codes, len(self.names)
        parts = (codes[start : start + _AT_ONCE] for start in range(0, max(1, len(codes)), _AT_ONCE))
        return np.asarray(sum(np.bincount(part, minlength=names) for part in parts))

    def distinct(self) -> list[str]:
        """The different texts of its rows, in the order of their first rows."""
        first = np.full(len(self.names), len(self), dtype=np.int64)
        first[self.codes[::-1]] = np.arange(len(self))[::-1]  # the last one that is written remains
        order = np.argsort(first, kind="stable")
        texts: list[str] = _picked(self.names, order[first[order] < len(self)]).to_pylist()
        return texts

    def places(self, place: Mapping[str, int]) -> NDArray[Any]:
        """The place of each row's text, (rows,). Raises KeyError for a text without one."""
        names = self.names.to_pylist()
        places = np.array([place.get(name, -1) for name in names], dtype=np.int64)
        if (lacking := (places < 0) & (self.counts() > 0)).any():
            raise KeyError(names[int(lacking.argmax())])
        return np.take(places.astype(code_type(int(places.max(initial=0)) + 1)), self.codes)

    def renamed(self, name_of: Callable[[str], str]) -> TextColumn:
        """With another name for each text; two may get the same."""
        other = TextColumn.of([name_of(name) for name in self.names.to_pylist()])
        return TextColumn(other.names, other.codes[self.codes])

    def sorted(self) -> tuple[TextColumn, NDArray[np.int64]]:
        """The different texts of its rows, in order, and each row's place among them, (rows,)."""
        if not self._differ and (order := _order_if_different(self._names)) is not None:
            self._differ = True
            place = np.empty(len(order), dtype=np.int64)
            place[order] = np.arange(len(order))
            return TextColumn(self._names, order.astype(self._codes.dtype)), place
        counts, names, codes = self.counts(), self.names, self.codes
        if not counts.all():
            used = np.flatnonzero(counts)
            names, codes = _picked(names, used), (np.cumsum(counts > 0) - 1)[codes]
        order = _order(names)
        place = np.empty(len(names), dtype=np.int64)
        place[order] = np.arange(len(names))
        return TextColumn(names, order.astype(code_type(len(names)))), place[codes]

    def repeated(self) -> list[str]:
        """The texts of several rows, in order."""
        return sorted(_picked(self.names, np.flatnonzero(self.counts() > 1)).to_pylist())

    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each row's text in UTF-8, (rows,)."""
        ends = np.frombuffer(self._names.buffers()[1] or b"", dtype=np.int32)
        ends = ends[self._names.offset : self._names.offset + len(self._names) + 1]
        return np.take(np.diff(ends).astype(np.int64), self._codes)

    def is_row_by_row(self, column: Any) -> bool:
        """Whether an Arrow column has the texts of these rows, which all differ, in their order: without coding it."""
        if len(column) != len(self) or not np.array_equal(self._codes, np.arange(len(self._names))):
            return False
        start = 0
        for chunk in column.chunks:
            texts = getattr(chunk, "dictionary", chunk)
            if chunk.null_count or texts.type != self._names.type or not (texts is chunk or _is_row_by_row(chunk)):
                return False
            if not texts.equals(self._names.slice(start, len(texts))):
                return False
            start += len(texts)
        self._differ = self._differ or _order_if_different(self._names) is not None
        return self._differ

    def rows_of(self, others: TextColumn) -> NDArray[np.int64]:
        """The row that has each of the other texts, (other rows,); -1 if none has it, the last one if several have."""
        row_of = np.full(len(self.names) + 1, -1, dtype=np.int64)
        row_of[self.codes] = np.arange(len(self))
        return np.take(np.take(row_of, _places(others.names, self.names)), others.codes)

    def first_harmful(self) -> str | None:
        """The first text that a terminal or a log would act on, or None."""
        if len(self._names) > FEW and _is_plain(self._names.buffers()[2]):
            return None
        parts = (self._names[start : start + FEW].to_pylist() for start in range(0, len(self._names), FEW))
        return next((odd for part in parts if (odd := first_harmful(part)) is not None), None)


TextRows: TypeAlias = NDArray[Any] | TextColumn
"""Text of many rows, as an array of strings or coded."""


def code_type(names: int) -> np.dtype[Any]:
    """The smallest type that codes so many texts."""
    return np.min_scalar_type(max(names - 1, 0)) if names <= 1 << 16 else np.dtype(np.int32)


def arrow_texts(texts: Iterable[object]) -> Any:
    """An Arrow array of strings. `pa.array` would import pandas, which takes 0.3 s."""
    import pyarrow as pa

    encoded = [str(text).encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def _is_row_by_row(coded: Any) -> bool:
    """Whether a coded Arrow array has a text for each of its rows, in their order."""
    texts, indices = coded.dictionary, coded.indices
    whole = len(texts) == len(coded) and not indices.null_count and not texts.null_count
    return whole and np.array_equal(np.from_dlpack(indices), np.arange(len(coded)))


def _order_if_different(names: Any) -> NDArray[np.int64] | None:
    """Places of texts in order; None if some are equal."""
    import pyarrow.compute as pc

    order = _order(names)
    ranked = _picked(names, order)
    return None if pc.any(pc.equal(ranked[1:], ranked[:-1])).as_py() else order


def _is_plain(texts: Any) -> bool:
    """Whether a buffer of text holds marks of ASCII alone, and none that a command to CI begins with."""
    letters = np.frombuffer(texts, dtype=np.uint8)
    for start in range(0, len(letters), _AT_ONCE):
        part = letters[start : start + _AT_ONCE]
        if part.min() < ord(" ") or part.max() > ord("~") or np.isin(part, (ord(":"), ord("#")), kind="table").any():
            return False
    return True


def _objects(names: Any, codes: NDArray[Any]) -> NDArray[np.object_]:
    """Strings of codes; only those that are used are made."""
    if len(names) > FEW and len(codes) < len(names):
        used, codes = np.unique(codes, return_inverse=True)
        names = _picked(names, used)
    return np.take(np.array([*names.to_pylist(), None], dtype=object), codes)


def _picked(names: Any, places: NDArray[Any]) -> Any:
    if len(names) > FEW:
        import pyarrow as pa

        at = pa.py_buffer(np.ascontiguousarray(places, dtype=np.int64))
        return names.take(pa.Array.from_buffers(pa.int64(), len(places), [None, at]))
    texts = names.to_pylist()
    return arrow_texts([texts[place] for place in places.tolist()])


def _places(names: Any, among: Any) -> NDArray[np.int64]:
    """The place of each name among others, -1 if it is not there, (names,)."""
    if names.equals(among):
        return np.arange(len(names))
    if len(names) + len(among) <= FEW:
        place = {name: at for at, name in enumerate(among.to_pylist())}
        return np.array([place.get(name, -1) for name in names.to_pylist()], dtype=np.int64)
    import pyarrow.compute as pc

    return np.from_dlpack(pc.fill_null(pc.index_in(names, value_set=among), -1)).astype(np.int64)


def _order(names: Any) -> NDArray[np.int64]:
    """Places of different texts in order: that of their UTF-8 is that of their letters."""
    if len(names) <= FEW:
        texts = names.to_pylist()
        return np.array(sorted(range(len(texts)), key=texts.__getitem__), dtype=np.int64)
    import pyarrow.compute as pc

    return np.from_dlpack(pc.sort_indices(names)).astype(np.int64)
