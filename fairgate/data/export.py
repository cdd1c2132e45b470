"""Exporting a release: Parquet with its card for Hugging Face, WebDataset's archives, or pictures with metadata.csv."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from fairgate.data.card import SPLIT, dataset_card
from fairgate.data.dataset import Dataset
from fairgate.data.label_rows import FILE_NAME, is_inside
from fairgate.data.manifest import CARD_FILE
from fairgate.data.parquet_file import encoded
from fairgate.data.releases import new_folder, write_description
from fairgate.data.shard_writer import writing
from fairgate.data.tar_rows import PICTURES
from fairgate.ground.errors import DatasetError
from fairgate.ground.local_paths import require_local
from fairgate.ground.pixels import opened

ARCHIVE_BYTES = 256 << 20
_ENDINGS: Final = {"JPEG": "jpg", "TIFF": "tif"}
Progress = Callable[[int, int], None]


class Exported(NamedTuple):
    """How many rows an export holds, in how many files (pictures are not counted), and what its reader should know."""

    rows: int
    files: int
    note: str | None


def export_dataset(dataset: Dataset, target: str, progress: Progress | None = None) -> Exported:
    """Write a release to `hf:FOLDER`, `webdataset:FOLDER` or `csv:FOLDER`, a folder that is not there yet.

    The release is read and held against its manifest first. Raises DatasetError, also for a column that the format
    cannot hold.
    """
    kind, colon, where = target.partition(":")
    writer = _WRITERS.get(kind)
    if writer is None or not colon or not where:
        raise DatasetError(
            f"'{target}' is no place to export to.",
            remedy="write hf:FOLDER (Parquet and its card), webdataset:FOLDER (.tar) or csv:FOLDER (pictures and "
            "metadata.csv)",
        )
    if not _has_pictures(dataset) and kind == "webdataset":
        raise DatasetError(
            f"dataset '{dataset.manifest.ref}' has labels and no images.",
            where=str(dataset.folder),
            remedy="export it to csv:FOLDER (metadata.csv alone) or hf:FOLDER (Parquet)",
        )
    folder = require_local(where, target, DatasetError)
    dataset.require_intact()
    with new_folder(folder) as partial, writing(folder):
        return writer(dataset, partial, progress)


def _has_pictures(dataset: Dataset) -> bool:
    return dataset.manifest.image_encoding != "none"


def _to_hf(dataset: Dataset, folder: Path, progress: Progress | None) -> Exported:
    """Shards byte for byte. The card is written anew from the manifest: an old one could name any data to load."""
    shards = dataset.manifest.shards
    for done, shard in enumerate(shards, start=1):
        shutil.copyfile(dataset.folder / shard.file, folder / shard.file)
        if progress is not None:
            progress(done, len(shards))
    write_description(folder, dataset.manifest)
    Dataset(folder, dataset.manifest).check_shards()
    return Exported(len(dataset), len(shards), None)


def _to_webdataset(dataset: Dataset, folder: Path, progress: Progress | None) -> Exported:
    """`00000001.png` and `00000001.json` a row; a set is never cut by the end of an archive."""
    # one ending for all pictures: readers take the kinds of files in a sample for the columns of all
    ending = _ending(dataset.manifest.image_encoding.partition("+")[0])
    archive: tarfile.TarFile | None = None
    files, last = 0, None
    try:
        for number, (picture, row) in enumerate(stored_rows(dataset), start=1):
            full = archive is not None and archive.offset > ARCHIVE_BYTES and row["set_id"] != last
            if archive is None or full:
                if archive is not None:
                    archive.close()
                archive = tarfile.open(folder / f"{SPLIT}-{files:05d}.tar", "w:", format=tarfile.USTAR_FORMAT)  # noqa: SIM115
                files += 1
            last = row["set_id"]
            text = _json(row).encode()
            assert picture is not None  # the release was read as a whole before
            for name, content in ((f"{number:08d}.{ending}", picture), (f"{number:08d}.json", text)):
                header = tarfile.TarInfo(name)  # no time and no owner: the same release makes the same archive
                header.size = len(content)
                archive.addfile(header, io.BytesIO(content))
            if progress is not None:
                progress(number, len(dataset))
    finally:
        if archive is not None:
            archive.close()
    card = dataset_card(dataset.manifest, files=f"{SPLIT}-*.tar")
    (folder / CARD_FILE).write_text(card, encoding="utf-8")
    return Exported(len(dataset), files, None)


def _to_csv(dataset: Dataset, folder: Path, progress: Progress | None) -> Exported:
    """Pictures as files by their paths, where each has one that is safe; otherwise by the row's number.

    A release without pictures is its metadata.csv alone.
    """
    pictures = _has_pictures(dataset)
    by_path = pictures and _safe(dataset.index.path.tolist())
    split_folder = folder / SPLIT
    split_folder.mkdir()
    with (split_folder / "metadata.csv").open("w", newline="", encoding="utf-8") as handle:
        writer: Any = None
        for number, (picture, row) in enumerate(stored_rows(dataset), start=1):
            fields = {column: row[column] for column in row if not (by_path and column == "path")}
            if picture is not None:
                name = str(row["path"]) if by_path else f"{number:08d}.{_ending(opened(picture).format or 'img')}"
                fields = {FILE_NAME: name} | fields
                (split_folder / name).parent.mkdir(parents=True, exist_ok=True)
                (split_folder / name).write_bytes(picture)
            if writer is None:
                writer = csv.DictWriter(handle, list(fields), lineterminator="\n")
                writer.writeheader()
            writer.writerow({column: _cell(column, value) for column, value in fields.items()})
            if progress is not None:
                progress(number, len(dataset))
    (folder / CARD_FILE).write_text(dataset_card(dataset.manifest, files=f"{SPLIT}/**"), encoding="utf-8")
    return Exported(
        len(dataset),
        1,
        "CSV has no column types: read every column as text, or a name such as 0012 becomes the number 12",
    )


_WRITERS: Final = {"hf": _to_hf, "webdataset": _to_webdataset, "csv": _to_csv}


def stored_rows(dataset: Dataset) -> Iterator[tuple[bytes | None, dict[str, object]]]:
    """(encoded picture, or None in a release without pictures; other columns) of every row in stored order."""
    for shard in dataset.manifest.shards:
        parquet = dataset.parquet(shard)
        for group in range(parquet.num_row_groups):
            for row in dataset.read_group(parquet, shard, group).to_pylist():
                yield encoded(row.pop("image")), row


def _json(row: Mapping[str, object]) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False)
    except TypeError as error:
        raise _unfit(next(name for name, value in row.items() if isinstance(value, bytes)), "JSON") from error


def _cell(column: str, value: object) -> object:
    if isinstance(value, bytes | list | dict):
        raise _unfit(column, "CSV")
    return "" if value is None else value


def _unfit(column: str, kind: str) -> DatasetError:
    return DatasetError(
        f"column '{column}' holds what {kind} cannot.", remedy="export to hf:FOLDER, which keeps every kind"
    )


def _ending(encoding: str) -> str:
    return _ENDINGS.get(encoding, encoding.lower())


def _safe(paths: list[str]) -> bool:
    """Whether every path can be a file in a new folder, on any system, that readers take for a picture."""
    folders = {str(parent).casefold() for path in paths for parent in PurePosixPath(path).parents}
    names = {str(PurePosixPath(path)).casefold() for path in paths}
    return len(names) == len(paths) and not names & folders and all(map(_is_picture, paths))


def _is_picture(path: str) -> bool:
    pieces = PurePosixPath(path).parts
    plain = all(len(piece.encode()) < 200 and not any(letter in piece for letter in '<>:"|?*') for piece in pieces)
    return (
        plain
        and is_inside(path)
        and path.isprintable()
        and PurePosixPath(path).suffix.lower().removeprefix(".") in PICTURES
    )
