"""Releases: immutable versions under one root, opened by name, made by copying a verified build."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fairgate.data.dataset import Dataset, read_dataset
from fairgate.data.manifest import PULL, VERSION_PATTERN, check_name, read_manifest
from fairgate.data.shards import writing
from fairgate.data.verify import Problem
from fairgate.data.writer import new_folder, write_description
from fairgate.ground.errors import DatasetError, did_you_mean

ROOT = Path("datasets")


def versions(name: str, root: Path = ROOT) -> list[str]:
    """The versions that `root/name` has, oldest first; empty when there is no such dataset."""
    folder = root / name
    if not folder.is_dir():
        return []
    found = [entry.name for entry in folder.iterdir() if entry.is_dir() and re.fullmatch(VERSION_PATTERN, entry.name)]
    return sorted(found, key=lambda version: int(version[1:]))


def open_dataset(ref: str, root: Path = ROOT) -> Dataset:
    """Open a release by name: "occupations" is the newest version under `root`, "occupations@v1" that one.

    Reads the manifest only. Raises DatasetError for a malformed name (a path is not a name), for a dataset or
    version that is not there, and for a manifest that is not good.
    """
    name, at, version = ref.partition("@")
    check_name(name, version if at else None)
    found = versions(name, root)
    if not found or (at and version not in found):
        known = [entry.name for entry in root.iterdir() if entry.is_dir()] if root.is_dir() else []
        near = f"there is {', '.join(found)};" if found else did_you_mean(name, known)
        fetched = "run `fairgate dataset pull datasets.dvc`, `fairgate dataset import`, or `fairgate dataset get`"
        raise DatasetError(
            f"dataset '{name}' has no version '{version}'." if found else f"there is no dataset '{ref}'.",
            where=str(root / name),
            remedy=" ".join(filter(None, [near, fetched])),
        )
    folder = root / name / (version if at else found[-1])
    # a link out of the repository would bring its pictures into the report; a shard may be one (DVC can link its
    # cache): it is held against the manifest's SHA-256 before it is scored
    if not folder.resolve().is_relative_to(root.parent.resolve()):
        raise DatasetError(
            "a link leads from the dataset to a folder outside of the repository.",
            where=str(folder),
            remedy="put the release itself there (`fairgate dataset pull datasets.dvc`); DVC may link shards to its "
            "own cache",
        )
    dataset = read_dataset(folder)
    if (dataset.name, dataset.version) != (name, folder.name):
        raise DatasetError(
            f"the manifest names itself '{dataset.manifest.ref}', and the folder says '{name}@{folder.name}'.",
            where=str(folder),
            remedy=f"{PULL}; `fairgate release` publishes a folder under a name",
        )
    return dataset


def release(
    build: Path,
    name: str,
    root: Path = ROOT,
    *,
    lineage: Mapping[str, str] | None = None,
    sections: Sequence[str] = (),
    problems_of: Callable[[Dataset], Sequence[Problem]] = Dataset.verify,
) -> Dataset:
    """Freeze a built dataset folder as the next version of `root/name`, after verifying all of it.

    Shards are copied byte for byte; manifest and card take the new name and version, the manifest `lineage` in addition
    to its own, the card further `sections`. Raises DatasetError when `problems_of` finds one, or when a version with
    the same content exists already. Commands call `fairgate.builds.review.release`, which also checks
    balance and review.
    """
    check_name(name)
    built = read_dataset(build)
    if problems := problems_of(built):
        raise DatasetError(
            f"the build has {len(problems)} problem(s) and is not released. First: {problems[0].what}",
            where=problems[0].where,
            remedy=problems[0].remedy,
        )
    released = versions(name, root)
    for version in released:
        if read_manifest(root / name / version).fingerprint == built.manifest.fingerprint:
            raise DatasetError(
                f"this content is released already, as '{name}@{version}'.",
                where=str(root / name / version),
                remedy=f"use '{name}@{version}'; a new version needs other images or labels",
            )
    following = f"v{int(released[-1][1:]) + 1 if released else 1}"
    target = root / name / following
    manifest = built.manifest.model_copy(
        update={"name": name, "version": following, "lineage": built.manifest.lineage | dict(lineage or {})}
    )
    with new_folder(target) as partial:
        for shard in manifest.shards:
            with writing(partial):
                shutil.copyfile(build / shard.file, partial / shard.file)
        write_description(partial, manifest, sections)
        Dataset(partial, manifest).check_shards()
    return Dataset(target, manifest)
