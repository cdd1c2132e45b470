"""From a published dataset's name to a release: fetch or be given the files, compare them, write rows.

Every dataset registers itself when it is imported; installed packages add theirs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue

from fairgate.data import ROOT, Manifest, check_name, read_manifest, refuse_existing, versions, write_dataset
from fairgate.data.published.contract import (
    REGISTERED,
    ByHand,
    HubFiles,
    Published,
    PublishedPart,
    Reading,
    Source,
    WebFiles,
)
from fairgate.data.published.fetching import COMMIT, fetch_file, fetch_hub, newest_commit
from fairgate.data.published.source_files import SourceFiles, read_image
from fairgate.ground.errors import DatasetError, suggestion
from fairgate.ground.hashing import digest, sha256_file

_OWN = (
    "fairface",
    "utkface",
    "social_counterfactuals",
    "pairs",
    "visogender",
    "coco_people",
    "genderbias_vl",
    "pata",
    "chicago_faces",
    "bbq_v",
    "london_faces",
    "multibbq",
)
"""Each is a module of this package."""

DATASETS = REGISTERED.with_modules({name: f"{__package__}.{name}" for name in _OWN})
"""What `fairgate dataset get` knows."""


def find_published(name: str) -> Published:
    """A dataset by name. Raises DatasetError for one that is not known."""
    if name not in DATASETS:
        raise DatasetError(
            f"'{name}' is no published dataset that fairgate knows.",
            remedy=suggestion(
                name, DATASETS, f"known: {', '.join(DATASETS)}; others come in by `fairgate dataset import`"
            ),
        )
    return DATASETS[name]


KIND = "published"
ORIGIN = "source"
"""The manifest's lineage names the origin under this key, and every table and archive by its name."""
PICTURES = "pictures"
TOO_FEW = "images of subjects of fewer than {:,} sets"
ARCHIVES = ("*.zip", "*.tar", "*.tar.gz", "*.tgz")
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Obtained:
    """A release, how many rows were left out of it by reason, and whether it was made now or before."""

    manifest: Manifest
    left_out: Mapping[str, int]
    made: bool


def get_published(  # noqa: PLR0913 -- one keyword per command line option
    name: str,
    downloads: Path,
    *,
    part: str | None = None,
    folder: Path | None = None,
    release: str | None = None,
    version: str = "v1",
    commit: str | None = None,
    fewest_sets: int = 1,
    merge: Mapping[str, Mapping[str, str]] | None = None,
    root: Path = ROOT,
    progress: Progress | None = None,
) -> Obtained:
    """Make a release of a published dataset, from `folder` or from what is fetched into `downloads/NAME`.

    Subjects of fewer than `fewest_sets` sets are left out and counted. `merge` puts groups of an attribute under a new
    name, `{"race": {"Latino_Hispanic": "other"}}`.

    The licence is the caller's to accept. Tables and archives are compared with those of the newest release that was
    made of the same part, and a difference is an error; where that release is the one to be made, it is returned.
    Raises DatasetError.
    """
    published = find_published(name)
    part, chosen = published.part(part)
    release = release or published.release_name(part)
    check_name(release, version)
    target = root / release / version
    asked: dict[str, JsonValue] = {"kind": KIND, "dataset": name, "part": part, "fewest_sets": fewest_sets}
    asked["merged"] = {attribute: dict(names) for attribute, names in (merge or {}).items()}
    attributes = _merged(chosen, merge or {})
    earlier = _earlier(release, asked, root)
    if earlier is None or earlier.version != version:
        refuse_existing(target)
    given = folder or _fetch(published, chosen, downloads / name, commit, earlier)
    files = SourceFiles(given, downloads / name / "unpacked", ARCHIVES, published.name)
    reading = _large_enough(_read(published, files, part, given), fewest_sets)
    hashes = _hashes(files, reading)
    if earlier is not None:
        _require_same(hashes, earlier, root)
        if earlier.version == version:
            return Obtained(earlier, reading.left_out, made=False)
    manifest = write_dataset(
        target,
        _rows(name, reading, merge or {}, progress),
        name=release,
        version=version,
        attributes=attributes,
        recipe={
            **asked,
            "left_out": dict(reading.left_out),
            **reading.facts,
            **({"packages": packages} if (packages := DATASETS.packages_of([name])) else {}),
        },
        licence=published.licence,
        counterfactual=published.counterfactual,
        notice=published.terms,
        lineage={ORIGIN: "files that were given" if folder else _origin(chosen.source, given), **hashes},
        about=f"{published.title}. {chosen.about} Cite: {published.citation}",
    )
    return Obtained(manifest, reading.left_out, made=True)


def _fetch(published: Published, part: PublishedPart, into: Path, commit: str | None, earlier: Manifest | None) -> Path:
    """The folder that a part's files were fetched into."""
    source = part.source
    if isinstance(source, ByHand):
        raise DatasetError(
            f"{published.name} is not fetched by a program.",
            where=source.address,
            remedy=f"{source.how} Then `fairgate dataset get {published.name} --from FOLDER --accept-licence`.",
        )
    if isinstance(source, WebFiles):
        for name in source.urls:
            fetch_file(source, name, into / "files")
        return into / "files"
    recorded = earlier.lineage.get(ORIGIN, "").removeprefix(f"{source.address}@") if earlier else ""
    wanted = commit or (recorded if COMMIT.fullmatch(recorded) else None) or source.commit or newest_commit(source)
    fetch_hub(source, into / wanted, wanted)
    return into / wanted


def _read(published: Published, files: SourceFiles, part: str, folder: Path) -> Reading:
    """What a part's files say. Raises DatasetError where they are not there."""
    with DATASETS.blaming(published.name):
        reading = published.read(files, part)
    if not reading.rows:
        raise DatasetError(
            f"nothing of '{published.name}' is in the folder.", where=str(folder), remedy=published.layout
        )
    return reading


def _large_enough(reading: Reading, fewest: int) -> Reading:
    """The reading without subjects of too few sets, which are counted. Raises DatasetError where nothing is left."""
    sets: dict[str, set[str]] = defaultdict(set)
    for row in reading.rows:
        sets[row.subject].add(row.set_id)
    left = [row for row in reading.rows if len(sets[row.subject]) >= fewest]
    if not left:
        raise DatasetError(
            f"no subject has {fewest:,} sets; the largest has {max(map(len, sets.values())):,}.",
            where="--fewest-sets",
            remedy="give a smaller number",
        )
    gone = len(reading.rows) - len(left)
    return replace(
        reading, rows=left, left_out={**reading.left_out, **({TOO_FEW.format(fewest): gone} if gone else {})}
    )


def _hashes(files: SourceFiles, reading: Reading) -> dict[str, str]:
    """SHA-256 by the name of a file; one for all single pictures, over theirs by name."""
    hashes = {files.relative(path): sha256_file(path) for path in reading.files}
    if reading.loose:
        hashes[PICTURES] = digest({files.relative(path): sha256_file(path) for path in reading.loose})
    return hashes


def _origin(source: Source, folder: Path) -> str:
    """Where files were fetched from; of the hub with the commit, which names their folder."""
    return f"{source.address}@{folder.name}" if isinstance(source, HubFiles) else source.address


def _earlier(release: str, made_of: Mapping[str, JsonValue], root: Path) -> Manifest | None:
    """The newest release of this name that was made in the same way of the same part of the same dataset."""
    for version in reversed(versions(release, root)):
        manifest = read_manifest(root / release / version)
        if all(manifest.recipe.get(key) == value for key, value in made_of.items()):
            return manifest
    return None


def _require_same(hashes: Mapping[str, str], earlier: Manifest, root: Path) -> None:
    """Raise DatasetError where a file is another one than at the first download."""
    before = {name: value for name, value in earlier.lineage.items() if name != ORIGIN}
    if changed := sorted(name for name in hashes.keys() | before.keys() if hashes.get(name) != before.get(name)):
        raise DatasetError(
            f"{len(changed)} file(s) are not those that '{earlier.ref}' was made of; the first is '{changed[0]}'.",
            where=str(root / earlier.name / earlier.version),
            remedy="fetch them again, or, where the change is known and wanted, import them under another name (--out)",
        )


def _merged(part: PublishedPart, merge: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """The groups of each attribute, in their order. Raises DatasetError for a name that the part does not have."""
    for attribute, names in merge.items():
        known = part.attributes.get(attribute)
        unknown = attribute if known is None else next((name for name in names if name not in known), None)
        if unknown is not None:
            there = list(part.attributes if known is None else known)
            raise DatasetError(
                f"there is no {'attribute' if known is None else f'group of {attribute} called'} '{unknown}' to merge.",
                where="--merge",
                remedy=suggestion(unknown, there, f"there are: {', '.join(there)}"),
            )
    return {
        attribute: list(dict.fromkeys(merge.get(attribute, {}).get(group, group) for group in groups))
        for attribute, groups in part.attributes.items()
    }


def _rows(
    name: str, reading: Reading, merge: Mapping[str, Mapping[str, str]], progress: Progress | None
) -> Iterator[dict[str, object]]:
    """Rows as the writer takes them, each picture read when its turn comes."""
    with DATASETS.blaming(name):
        for done, row in enumerate(reading.rows, start=1):
            yield {
                "image": read_image(row.image) if isinstance(row.image, Path) else row.image and row.image(),
                "path": row.path,
                "set_id": row.set_id,
                "member": row.member,
                "subject": row.subject,
                "caption": row.caption,
                **{attribute: merge.get(attribute, {}).get(group, group) for attribute, group in row.groups.items()},
                **row.extra,
            }
            if progress is not None:
                progress(done, len(reading.rows))
