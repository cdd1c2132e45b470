"""Exporting a release: pictures with metadata.csv. As Parquet with its card, for others, it is as it was released."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from fairgate.data.card import SPLIT, dataset_card
from fairgate.data.dataset import Dataset
from fairgate.data.label_rows import FILE_NAME, is_inside
from fairgate.data.manifest import CARD_FILE
from fairgate.data.parquet_file import encoded
from fairgate.data.releases import new_folder
from fairgate.data.shard_writer import writing
from fairgate.data.tar_rows import PICTURES
from fairgate.ground.errors import DatasetError
from fairgate.ground.local_paths import require_local
from fairgate.ground.pixels import opened

_ENDINGS: Final = {"JPEG": "jpg", "TIFF": "tif"}
Progress = Callable[[int, int], None]


def export_dataset(dataset: Dataset, target: str, progress: Progress | None = None) -> None:
    """Write a release to `csv:FOLDER`, a folder that is not there yet, in the split `test`.

    The release is read and held against its manifest first. Raises DatasetError, also for a column that CSV cannot
    hold.
    """
    kind, _, where = target.partition(":")
    if kind != "csv" or not where:
        raise DatasetError(
            f"'{target}' is no place to export to.",
            remedy="write csv:FOLDER (pictures and metadata.csv); Parquet with its card is the release's own folder, "
            f"{dataset.folder}",
        )
    folder = require_local(where, target, DatasetError)
    dataset.require_intact()
    with new_folder(folder) as partial, writing(folder):
        _to_csv(dataset, partial, progress)


def _to_csv(dataset: Dataset, folder: Path, progress: Progress | None) -> None:
    """Pictures as files by their paths, where each has one that is safe; otherwise by the row's number.

    A release without pictures is its metadata.csv alone.
    """
    by_path = dataset.manifest.image_encoding != "none" and _safe(dataset.index.path.tolist())
    split_folder = folder / SPLIT
    split_folder.mkdir()
    with (split_folder / "metadata.csv").open("w", newline="", encoding="utf-8") as handle:
        writer: Any = None
        for number, (picture, row) in enumerate(stored_rows(dataset), start=1):
            fields = {column: row[column] for column in row if not (by_path and column == "path")}
            if picture is not None:
                name = str(row["path"]) if by_path else f"{number:08d}.{_ending(picture)}"
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


def stored_rows(dataset: Dataset) -> Iterator[tuple[bytes | None, dict[str, object]]]:
    """(encoded picture, or None in a release without pictures; other columns) of every row in stored order."""
    for shard in dataset.manifest.shards:
        parquet = dataset.parquet(shard)
        for group in range(parquet.num_row_groups):
            for row in dataset.read_group(parquet, shard, group).to_pylist():
                yield encoded(row.pop("image")), row


def _cell(column: str, value: object) -> object:
    if isinstance(value, bytes | list | dict):
        raise DatasetError(
            f"column '{column}' holds what CSV cannot.", remedy="read the release's Parquet, which keeps every kind"
        )
    return "" if value is None else value


def _ending(picture: bytes) -> str:
    encoding = opened(picture).format or "img"
    return _ENDINGS.get(encoding, encoding.lower())


def _safe(paths: list[str]) -> bool:
    """Whether every path can be a file in a new folder, on any system, that readers take for a picture."""
    folders = {str(parent).casefold() for path in paths for parent in PurePosixPath(path).parents}
    names = {str(PurePosixPath(path)).casefold() for path in paths}
    pieces = {piece for path in paths for piece in PurePosixPath(path).parts}
    return (
        len(names) == len(paths)
        and not names & folders
        and all(len(piece.encode()) < 200 and not any(letter in piece for letter in '<>:"|?*') for piece in pieces)
        and all(is_inside(path) and path.isprintable() for path in paths)
        and all(PurePosixPath(path).suffix.lower().removeprefix(".") in PICTURES for path in paths)
    )
