"""`import_images`: photographs with labels, imported in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairgate.data import ROOT, ColumnGrouping, ImportColumns, Manifest, plan_import


def import_images(
    labels: Path | str | Any,
    images_dir: Path | None,
    name: str,
    *,
    attributes: Sequence[str] | Mapping[str, Sequence[str]],
    grouping: ColumnGrouping | None = None,
    root: Path = ROOT,
    version: str = "v1",
    licence: str = "unknown",
    progress: Callable[[int, int], None] | None = None,
    **columns: str | None,
) -> Manifest:
    """Make `root/name/version` of a table of labels; `columns` are those of `ImportColumns`, by its command's names."""
    declared = attributes if isinstance(attributes, Mapping) else {attribute: [] for attribute in attributes}
    names = {"image_column": "image", "set_column": "sets", "member_column": "members"}
    given = ImportColumns(declared, **{names.get(key, key): value for key, value in columns.items()})
    plan = plan_import(labels, images_dir, given, grouping)
    return plan.write(name, root=root, version=version, licence=licence, progress=progress)
