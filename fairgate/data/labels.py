"""Reading a table of labels: every line checked, every error naming file and line."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from fairgate.ground.errors import DatasetError, suggestion
from fairgate.ground.hashing import require_regular, sha256_bytes
from fairgate.ground.text import LONGEST_ROW, SEPARATOR_NAMES, find_separator

IMAGE_COLUMNS = ("image", "file", "path", "filename", "name")


class NamedColumns(ABC):
    """Rows with named columns; what cannot be found by its name is an error that lists them."""

    columns: tuple[str, ...]

    @abstractmethod
    def place(self, line: int) -> str:
        """Where a row is, for a message."""

    def column(self, name: str, what: str) -> str:
        """`name`, or DatasetError when the file has no such column."""
        if name not in self.columns:
            raise DatasetError(
                f"the labels have no column '{name}', which {what}.",
                where=self.place(1),
                remedy=suggestion(name, self.columns, f"columns: {', '.join(self.columns)}"),
            )
        return name

    def image_column(self, name: str | None) -> str:
        """The column that names images: the given one, or the only likely one. Raises DatasetError otherwise."""
        if name is not None:
            return self.column(name, "should name the images")
        likely = [column for column in self.columns if column.lower() in IMAGE_COLUMNS]
        if len(likely) != 1:
            found = f"{len(likely)} could: {', '.join(likely)}" if likely else "none does by its name"
            raise DatasetError(
                f"which column names the images is not plain: {found}.",
                where=self.place(1),
                remedy=f"name it (`--image-column`); columns: {', '.join(self.columns)}",
            )
        return likely[0]


@dataclass(frozen=True)
class Labels(NamedColumns):
    """A CSV file of labels (plain or .gz), read line by line as often as it is iterated.

    `columns` are its named columns (an unnamed one, as pandas writes its index, is passed over). `separator` is the one
    of `SEPARATOR_NAMES` that is most often in the header.
    """

    path: Path
    columns: tuple[str, ...]
    separator: str = ","

    def __iter__(self) -> Iterator[tuple[int, dict[str, str]]]:
        """(line number in the file, column -> text) of each data line."""
        lines = _lines(self.path, self.separator)
        _, header = next(lines)
        for number, fields in lines:
            if not fields:
                continue
            if len(fields) != len(header):
                raise DatasetError(
                    f"the line has {len(fields)} fields, and the header names {len(header)}.",
                    where=self.place(number),
                    remedy=f"quote fields that contain line breaks or {SEPARATOR_NAMES[self.separator]}",
                )
            yield number, {name: text for name, text in zip(header, fields, strict=True) if name}

    def place(self, line: int) -> str:
        """`labels.csv:12`"""
        return f"{self.path}:{line}"


def read_labels(path: Path) -> Labels:
    """Open a label file. Raises DatasetError when it is absent, empty, or its header is not one."""
    with _opened(path) as text:
        separator = find_separator(text, str(path), DatasetError)
    lines = _lines(path, separator)
    header = next(lines, (1, list[str]()))[1]
    first = next(lines, None)
    lines.close()
    names = [name for name in header if name]
    if not names or first is None:
        raise DatasetError(
            "the label file is empty.", where=str(path), remedy="give a CSV file with a header and a line per image"
        )
    if doubled := [name for name, count in Counter(names).items() if count > 1]:
        raise DatasetError(
            f"column '{doubled[0]}' is named twice.", where=f"{path}:1", remedy="give each column its own name"
        )
    return Labels(path, tuple(names), separator)


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """The text of a label file; every way in which it can be unreadable is a DatasetError."""
    opened: Callable[..., IO[str]] = gzip.open if path.suffix == ".gz" else open
    with (
        reading("the label file", path, "a CSV file in UTF-8, plain or .gz"),
        opened(path, "rt", encoding="utf-8-sig", newline="") as text,
    ):
        yield text


def _lines(path: Path, separator: str) -> Generator[tuple[int, list[str]], None, None]:
    """(line number, fields) of each line."""
    with _opened(path) as text:
        first, length = 1, 0

        def bounded() -> Iterator[str]:
            nonlocal length
            while line := text.readline(LONGEST_ROW + 1):
                length += len(line)
                if length > LONGEST_ROW:
                    raise ValueError(f"the row at line {first} has more than {LONGEST_ROW:,} characters")
                yield line

        reader = csv.reader(bounded(), delimiter=separator, strict=True)
        for fields in reader:
            first, length = reader.line_num + 1, 0
            yield reader.line_num, fields


@contextmanager
def reading(what: str, path: Path, kind: str) -> Iterator[None]:
    """Raises DatasetError where the block cannot read `what`, which should be `kind`."""
    require_regular(path, DatasetError)
    try:
        yield
    except FileNotFoundError:
        raise DatasetError(f"{what} does not exist.", where=str(path), remedy=f"give the path of {kind}") from None
    except (OSError, EOFError, ValueError, RecursionError, csv.Error, zlib.error) as error:
        fault = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise DatasetError(f"{what} cannot be read: {fault}.", where=str(path), remedy=f"give {kind}") from error


def inside(value: str, place: str) -> PurePosixPath:
    """An image's path relative to the images folder. Raises DatasetError when it is empty or leads out of it."""
    path = PurePosixPath(value)
    if not path.name or "\0" in value:
        raise DatasetError("the line names no image.", where=place, remedy="give the image's path in every line")
    if path.is_absolute() or ".." in path.parts or re.match(r"^[A-Za-z]:", value) or "\\" in value:
        raise DatasetError(
            f"the path '{value}' leads out of the images folder.",
            where=place,
            remedy="give paths relative to the images folder, with '/' and without '..'",
        )
    return path


def unique_ids(paths: Sequence[str]) -> dict[str, str]:
    """A set id for each path: its stem, safe as a file name, with a piece of the path's hash where stems meet.

    >>> unique_ids(["val/1.jpg", "val/2.jpg", "val/2.png"])
    {'val/1.jpg': 'val-1', 'val/2.jpg': 'val-2-f030c6de', 'val/2.png': 'val-2-8d34bdf2'}
    """
    slugs = {path: _slug(path) for path in paths}
    count = Counter(slugs.values())
    return {path: slug if count[slug] == 1 else f"{slug}-{_short(path)}" for path, slug in slugs.items()}


def _slug(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", str(PurePosixPath(path).with_suffix(""))).strip("-.") or _short(path)


def _short(path: str) -> str:
    return sha256_bytes(path.encode())[:8]


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sorting key that puts "3-9" before "10-19", and numbers before words; of more digits than any number has, a
    word."""
    pieces = re.findall(r"\d+|\D+", text)
    return tuple((0, int(each), "") if each.isdecimal() and len(each) < 100 else (1, 0, each) for each in pieces)
