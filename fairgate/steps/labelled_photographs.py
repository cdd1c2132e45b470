"""Photographs that are there already: labelled and readable, or dropped with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fairgate.data import UnreadableImage, decode
from fairgate.steps.contract import Drop, Judge, Maker, Meter, SetRows
from fairgate.steps.person_photographs import require_annotated_size


@dataclass(frozen=True, slots=True)
class Labelled(Judge):
    """Drops `no_label` where a photograph has no declared group of an attribute."""

    attributes: Mapping[str, Sequence[str]]

    reads: ClassVar[tuple[str, ...]] = ("member",)

    def judge(self, rows: SetRows) -> Drop | None:
        [row] = rows.rows
        known = all(row.get(attribute) in groups for attribute, groups in self.attributes.items())
        return None if known else Drop("no_label", member=str(row["member"]))


@dataclass(frozen=True, slots=True)
class ReadPhotograph(Maker):
    """Reads the file at `path` under `folder`, or of that name (`by_name`); its bytes are stored unchanged.

    Writes `shorter_side` in pixels. Drops `absent` where there is no such file, and `unreadable`. Other trouble of the
    disk stops the build, and so does DatasetError for a photograph that has not the size of its annotations.
    """

    folder: Path
    by_name: bool = False

    reads: ClassVar[tuple[str, ...]] = ("path",)
    writes: ClassVar[tuple[str, ...]] = ("image", "shorter_side")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            [row] = rows.rows
            path = self.folder / (Path(row["path"]).name if self.by_name else row["path"])
            try:
                data = path.read_bytes()
                size = decode(data).size
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                rows.drop = Drop("absent", member=str(row["member"]))
            except UnreadableImage:
                rows.drop = Drop("unreadable", member=str(row["member"]))
            else:
                require_annotated_size(size, rows, path)
                row["image"] = data
                rows.columns["shorter_side"] = min(size)
