"""Rows of WebDataset archives: uncompressed tars in which the files of a sample share their name up to the ending."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from fairgate.data.label_rows import LabelTable, TableLine, plain
from fairgate.data.labels import inside, reading
from fairgate.data.manifest import MAX_ROWS
from fairgate.ground.errors import DatasetError, listed

PICTURES: Final = frozenset({"jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm"})
LARGEST_PICTURE = 64 << 20
LARGEST_TEXT = 1 << 20
_LARGEST_HEADER = 1 << 20
_BLOCK = 512
_TEXTS: Final = {"txt": "caption", "cls": "cls"}


class TarHeader(tarfile.TarInfo):
    """A header whose extensions are small, and whose file has no negative size, which would be read for ever."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> TarHeader:
        header = super().frombuf(buf, encoding, errors)
        named = header.type in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
        named = named or header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
        if header.size < 0 or (named and header.size > _LARGEST_HEADER):
            raise ValueError(f"a header says that it has {header.size:,} bytes")
        return header


def tar_table(name: str, files: tuple[Path, ...]) -> LabelTable:
    """Samples of one or several archives, numbered from 1 over all of them.

    A sample is one picture and `.json` (its columns), `.txt` (column `caption`) and `.cls` (column `cls`); files of
    other endings are left out, and nothing in them is read. The picture column is the sample's name. Raises
    DatasetError for what is no archive, or has no samples, and while it is read for a sample with other columns than
    the first, or with two pictures.
    """
    first = next(_samples(files), None)
    if first is None:
        raise DatasetError("the archive has no samples.", where=str(files[0]), remedy="give one of WebDataset's")
    columns = tuple(_fields(first, f"{first.file}: {first.key}"))

    def lines(pictures: bool) -> Iterator[TableLine]:
        for number, sample in enumerate(_samples(files, pictures), start=1):
            place = f"{sample.file}: {sample.key}"
            if number > MAX_ROWS:
                raise DatasetError(f"there are more than {MAX_ROWS:,} samples.", where=place, remedy="give fewer")
            fields = _fields(sample, place)
            if odd := [column for column in fields if column not in columns]:
                raise DatasetError(
                    f"the sample has a column '{odd[0]}', which the first one has not.",
                    where=place,
                    remedy="give every sample the same columns, with null where nothing was measured",
                )
            shown = [(ending, data) for ending, data in sample.parts.items() if ending in PICTURES]
            if len(shown) > 1:
                raise DatasetError("the sample has two pictures.", where=place, remedy="keep one a sample")
            named = f"{sample.key}.{shown[0][0]}" if shown else None
            data = shown[0][1] if shown and pictures else None
            yield TableLine(number, {column: fields.get(column) for column in columns}, data, named)

    shards = files[0] if len(files) == 1 else files[0].parent
    left_out = [f".{ending}" for ending in first.parts if ending not in {*PICTURES, *_TEXTS, "json"}]
    return LabelTable(
        name,
        columns,
        lines,
        lambda line: f"{shards}, sample {line}",
        files,
        picture_column="__key__" if any(ending in PICTURES for ending in first.parts) else None,
        notes={"left_out": listed(left_out, 20)} if left_out else {},
    )


@dataclass
class _Sample:
    """Files of one key, by their endings. A picture is empty where pictures are not read."""

    file: Path
    key: str
    parts: dict[str, bytes]


def _samples(files: Sequence[Path], pictures: bool = False) -> Iterator[_Sample]:
    keys = set[str]()
    for path in files:
        sample: _Sample | None = None
        for name, ending, data in _members(path, pictures):
            if sample is None or sample.key != name:
                if sample is not None:
                    yield sample
                if name in keys:
                    raise DatasetError(
                        f"files of sample '{name}' are not one after another, or two samples have its name.",
                        where=str(path),
                        remedy="write the archive with one of WebDataset's writers",
                    )
                keys.add(name)
                sample = _Sample(path, name, {})
            if ending in sample.parts:
                raise DatasetError(f"'{name}.{ending}' is there twice.", where=str(path), remedy="keep one of the two")
            sample.parts[ending] = data
        if sample is not None:
            yield sample


def _members(path: Path, pictures: bool) -> Iterator[tuple[str, str, bytes]]:
    """(key, ending, content) of every file of an archive. Raises DatasetError for links, devices and names that lead
    out, and where the archive is cut short."""
    with _archive(path) as (archive, file):
        before = -1
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined] # tarfile would remember every one
            if member.offset <= before or member.size < 0:
                raise ValueError("its headers lead backwards")
            before = member.offset
            if member.isdir():
                continue
            if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.sparse is not None:
                raise ValueError(f"'{member.name}' is a link, a device or sparse, and no plain file")
            member.name.encode()  # a name in another encoding is a ValueError
            inside(member.name, str(path))
            folder, _, name = member.name.rpartition("/")
            stem, _, ending = name.partition(".")
            if not stem or not ending:
                continue
            key = str(PurePosixPath(folder) / stem)
            yield key, ending.lower(), _content(archive, member, ending.lower(), pictures)
        _require_whole(file, archive.offset)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, ending: str, pictures: bool) -> bytes:
    picture = ending in PICTURES
    if not picture and ending not in (*_TEXTS, "json"):
        return b""
    most = LARGEST_PICTURE if picture else LARGEST_TEXT
    if member.size > most:
        raise ValueError(f"'{member.name}' has {member.size:,} bytes; at most {most:,} are read")
    if picture and not pictures:
        return b""
    reader = archive.extractfile(member)
    assert reader is not None  # it is a plain file
    return reader.read()


def _require_whole(file: IO[bytes], offset: int) -> None:
    """Raises ValueError unless zeros follow the last file: tarfile takes a damaged header for the end."""
    file.seek(offset)
    length = 0
    while block := file.read(1 << 20):
        if block.strip(b"\0"):
            raise ValueError("a header in it is damaged")
        length += len(block)
    if length < _BLOCK:
        raise ValueError("it is cut short: the mark of its end is not there")


@contextmanager
def _archive(path: Path) -> Iterator[tuple[tarfile.TarFile, IO[bytes]]]:
    with reading("the archive", path, "an uncompressed tar, as WebDataset writes them"):
        try:
            with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:", tarinfo=TarHeader) as archive:
                yield archive, file
        except tarfile.TarError as error:
            raise ValueError(str(error)) from error


def _fields(sample: _Sample, place: str) -> dict[str, object]:
    """Columns of a sample: those of its `.json`, then the texts."""
    fields = dict[str, object]()
    with reading("the sample", Path(place), "a sample with JSON and text in UTF-8"):
        if "json" in sample.parts:
            columns = json.loads(sample.parts["json"].decode())
            if not isinstance(columns, dict):
                raise ValueError("its .json is no object")
            fields |= columns
        for ending, column in _TEXTS.items():
            if ending in sample.parts:
                fields.setdefault(column, sample.parts[ending].decode().strip("\n"))
    return {name: plain(value, name, place) for name, value in fields.items() if not isinstance(value, list | dict)}
