"""Writing a dataset: all of it or nothing, and never over an existing one."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from fairgate.data.card import dataset_card
from fairgate.data.manifest import CARD_FILE, MANIFEST_FILE, Manifest, check_name
from fairgate.data.rows import SetReader, Tally, check_attributes, require_distinct
from fairgate.data.shards import ShardWriter, writing
from fairgate.ground.errors import DatasetError
from fairgate.version import __version__

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
        for members in reader.sets(rows):
            writer.add(members)
            for row in members:
                tally.add(row)
        shards = writer.finish()
        if not shards:
            raise DatasetError("there are no rows.", where=str(folder), remedy="give at least one set")
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


def write_description(folder: Path, manifest: Manifest, sections: Sequence[str] = ()) -> None:
    """Write the manifest and the dataset card that is made from it, and from further sections."""
    with writing(folder):
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
        following = f"write it as v{int(version[1]) + 1}, or " if version else ""
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
            f"the recipe cannot be recorded: {first['msg']}.",
            where=f"recipe: {first['loc'][0] if first['loc'] else ''}",
            remedy="describe it with text, numbers, lists and mappings",
        ) from error
