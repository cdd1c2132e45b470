"""Datasets are written whole, and never over an existing one; releases are immutable and opened by name."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib import metadata
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from fairgate.data.dataset import Dataset, read_dataset
from fairgate.data.defaults import FOLDER, ROOT
from fairgate.data.manifest import (
    CARD_FILE,
    MANIFEST_FILE,
    PULL,
    VERSION_PATTERN,
    Manifest,
    Shard,
    check_name,
    read_manifest,
)
from fairgate.data.rows import Row, SetReader, Tally, check_attributes, require_distinct
from fairgate.data.shard_writer import ShardWriter, writing
from fairgate.data.verify import Problem
from fairgate.ground.errors import DatasetError, did_you_mean
from fairgate.ground.validation_words import fault_words
from fairgate.version import __version__


def releases_folder(root: Path = Path()) -> Path:
    """The folder of a repository's releases: `datasets`, if it holds releases or DVC's pointers to them, else
    `fairness_data`."""
    old, pointer = root / ROOT, (root / ROOT).with_suffix(".dvc")
    pointers = [pointer, *old.glob("*.dvc"), *old.glob("*/*.dvc"), *old.glob(f"*/v*/{MANIFEST_FILE}")]
    return old if any(path.is_file() for path in pointers) else root / FOLDER


def shadowed_library(root: Path) -> str | None:
    """The reason why `import datasets` gives a folder of the repository instead of the library, which is absent; None
    if it does not."""
    if not (root / ROOT).is_dir() or any(metadata.distributions(name=str(ROOT))):
        return None
    return "Python takes the folder datasets/ for the library `datasets`, which is not installed: transformers fails."


def versions(name: str, root: Path = ROOT) -> list[str]:
    """The versions that `root/name` has, oldest first; empty when there is no such dataset."""
    folder = root / name
    if not folder.is_dir():
        return []
    names = [entry.name for entry in folder.iterdir() if entry.is_dir() and re.fullmatch(VERSION_PATTERN, entry.name)]
    return sorted(names, key=lambda version: int(version[1:]))


def open_dataset(ref: str, root: Path = ROOT) -> Dataset:
    """Open a release by name: "occupations" is the newest version under `root`, "occupations@v1" that one.

    Reads the manifest only. Raises DatasetError for a malformed name (a path is not a name), for a dataset or
    version that is not there, and for a manifest that is not good.
    """
    name, at, version = ref.partition("@")
    check_name(name, version if at else None)
    released = versions(name, root)
    if not released or (at and version not in released):
        known = [entry.name for entry in root.iterdir() if entry.is_dir()] if root.is_dir() else []
        near = f"there is {', '.join(released)};" if released else did_you_mean(name, known)
        pointer = root.parent / f"{root.name}.dvc"
        fetched = "run `fairgate dataset import` or `fairgate dataset get`; of a clone: who has it runs "
        fetched += f"`dvc add {root.name}` and `dvc push`, and commits {pointer.name}"
        if pointer.is_file():
            fetched = f"run `fairgate dataset pull {pointer.name}`, `fairgate dataset import` or `fairgate dataset get`"
        raise DatasetError(
            f"dataset '{name}' has no version '{version}'." if released else f"there is no dataset '{ref}'.",
            where=str(root / name),
            remedy=" ".join(filter(None, [near, fetched])),
        )
    folder = root / name / (version if at else released[-1])
    # a link out of the repository would bring its pictures into the report; a shard may be one (DVC can link its
    # cache): it is held against the manifest's SHA-256 before it is scored
    if not folder.resolve().is_relative_to(root.parent.resolve()):
        raise DatasetError(
            "a link leads from the dataset to a folder outside of the repository.",
            where=str(folder),
            remedy="put the release itself there (`fairgate dataset pull`); DVC may link shards to its own cache",
        )
    dataset = read_dataset(folder)
    if (dataset.name, dataset.version) != (name, folder.name):
        raise DatasetError(
            f"the manifest names itself '{dataset.manifest.ref}', and the folder says '{name}@{folder.name}'.",
            where=str(folder),
            remedy=f"call the folder '{dataset.name}/{dataset.version}', or, if DVC tracks it, {PULL}",
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


SHARD_BYTES = 256 * 2**20
_RECIPE: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


def write_dataset(  # noqa: PLR0913 -- what a dataset must say of itself
    folder: Path,
    rows: Iterable[Mapping[str, object]],
    *,
    name: str,
    version: str,
    attributes: Mapping[str, Sequence[str]],
    recipe: Mapping[str, object],
    licence: str,
    counterfactual: bool,
    notice: str | None = None,
    lineage: Mapping[str, str] | None = None,
    shard_bytes: int = SHARD_BYTES,
    about: str = "",
) -> Manifest:
    """Write rows as a dataset folder (shards, manifest, card) and return its manifest.

    A row is a member: `image` (encoded bytes or None), `path` (text or None), `set_id`, `member`, `subject`,
    `caption`, one text column per attribute, and any extra columns. Rows of a set are consecutive. They are read as
    they come: a row group is held in memory, never the dataset. `attributes` maps each attribute to its groups in
    the order of reports. The folder appears in one rename, whole, or not at all.

    Raises DatasetError when the folder exists, and for the first row that breaks a rule.
    """
    check_name(name, version)
    declared = check_attributes(attributes)
    if not licence:
        raise DatasetError("a dataset needs a licence.", remedy="name it, or say 'unknown'")
    plain_recipe = _plain_recipe(recipe)
    reader = SetReader(declared, counterfactual)
    tally = Tally(declared)
    with new_folder(folder) as partial, closing(ShardWriter(partial, shard_bytes)) as writer:
        shards = _write_shards(reader.sets(rows), writer, tally, folder)
        counts = tally.counts()
        require_distinct(counts.subjects, "subjects", str(folder))
        manifest = Manifest(
            name=name,
            version=version,
            fingerprint=writer.content.hexdigest(),
            about=about,
            notice=notice,
            licence=licence,
            counterfactual=counterfactual,
            attributes=declared,
            subjects=list(counts.subjects),
            members=list(reader.members) if reader.members else None,
            n_sets=sum(shard.sets for shard in shards),
            n_rows=sum(shard.rows for shard in shards),
            counts=counts,
            image_encoding="+".join(sorted(writer.encodings)) or "none",
            recipe=plain_recipe,
            lineage=dict(lineage or {}),
            fairgate=__version__,
            shards=shards,
        )
        write_description(partial, manifest)
    return manifest


def _write_shards(sets: Iterable[list[Row]], writer: ShardWriter, tally: Tally, folder: Path) -> list[Shard]:
    for members in sets:
        writer.add(members)
        for row in members:
            tally.add(row)
    shards = writer.finish()
    if not shards:
        raise DatasetError("there are no rows.", where=str(folder), remedy="give at least one set")
    return shards


def write_description(folder: Path, manifest: Manifest, sections: Sequence[str] = ()) -> None:
    """Write the manifest and the dataset card that is made from it, and from further sections."""
    with writing(folder):
        from fairgate.data.card import dataset_card

        (folder / CARD_FILE).write_text(dataset_card(manifest, sections), encoding="utf-8")
        (folder / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder next to `folder` that takes its place when the block ends, and is removed when it raises."""
    refuse_existing(folder)
    partial = folder.parent / f".{folder.name}.{uuid.uuid4().hex}.partial"
    with writing(folder):
        partial.mkdir(parents=True)
    try:
        yield partial
        refuse_existing(folder)
        with writing(folder):
            partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def refuse_existing(folder: Path) -> None:
    """Raise DatasetError when `folder` is anything other than an empty folder: versions are immutable."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() or folder.is_symlink():
        version = re.fullmatch(r"v([0-9]+)", folder.name)
        following = f"write it as v{int(version[1]) + 1} (`--version v{int(version[1]) + 1}`), or " if version else ""
        raise DatasetError(
            f"'{folder}' exists, and a dataset is never written over.",
            where=str(folder),
            remedy=f"{following}remove the folder first if nobody uses it",
        )


def _plain_recipe(recipe: Mapping[str, object]) -> dict[str, JsonValue]:
    try:
        return _RECIPE.validate_python(dict(recipe))
    except ValidationError as error:
        first = error.errors()[0]
        raise DatasetError(
            f"the recipe cannot be recorded: {fault_words(first)}.",
            where=f"recipe: {first['loc'][0] if first['loc'] else ''}",
            remedy="describe it with text, numbers, lists and mappings",
        ) from error
