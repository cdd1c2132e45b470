"""Is a dataset what its manifest says? Reads every byte and names each shard, set and row that is not.

Which content it is, is computed from what is read: what a manifest says of its own content is a claim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, Literal

from fairgate.data.manifest import PULL, Counts, Manifest, Shard
from fairgate.data.parquet_file import encoded
from fairgate.data.rows import TEXT_COLUMNS, Tally, require_distinct
from fairgate.data.shard_reader import ShardReader
from fairgate.data.shard_writer import ContentHash
from fairgate.ground.errors import DatasetError
from fairgate.ground.hashing import digest
from fairgate.ground.pixels import Pixels, many_pixels
from fairgate.ground.seals import SealedNotes

Kind = Literal[
    "missing_shard",
    "extra_shard",
    "changed_shard",
    "unreadable_shard",
    "unreadable_image",
    "undeclared_group",
    "look_alikes",
    "bad_value",
    "split_set",
    "incomplete_set",
    "doubled_member",
    "member_order",
    "wrong_counts",
    "wrong_fingerprint",
    "doubled_image",
]
REBUILD = "build the dataset again and release it as a new version"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: its kind, a sentence, the place (shard, set, row), and what to do."""

    kind: Kind
    what: str
    where: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}\n  where:  {self.where}\n  remedy: {self.remedy}"


MOST_OF_A_KIND = 50
Watch = Callable[[int, str], None]
"""Receives each image's row in the dataset, and the SHA-256 of its pixels."""
ReadSoFar = Callable[[int, int], None]
"""Receives the number of pictures read so far, and how many there are."""

_RULES: Final = 1
"""Raised whenever `verify` or the decoder of pictures becomes stricter: what older rules accepted is read again."""
_HARMLESS: Final[frozenset[Kind]] = frozenset({"extra_shard"})
"""A Parquet file that the manifest does not name is never read."""
_intact: set[str] = set()
"""What this process found intact: several suites of a run share a dataset."""


def require_intact(dataset: ShardReader, memory: SealedNotes | None, progress: ReadSoFar | None) -> str:
    """The fingerprint of a dataset's content, once its shards, columns, pictures and counts are what its manifest says.

    All of it is read and decoded (about 3,500 small PNG pictures a second on two cores). `memory` and this process
    remember, by the digest of the whole manifest, what was found intact: the shards are hashed then, and nothing is
    decoded. A manifest names its shards by SHA-256, so that no other content can have its place. Raises DatasetError.
    """
    dataset.check_shards()
    manifest = dataset.manifest
    name, release = digest([_RULES, version("pillow"), manifest.to_json()]), f"{manifest.ref} {manifest.fingerprint}"
    if name in _intact or (memory is not None and memory.has(name, release)):
        return manifest.fingerprint

    def seen(row: int, _sha256: str) -> None:
        if progress is not None:
            progress(row + 1, manifest.n_rows)

    problems = [problem for problem in find_problems(dataset, seen) if problem.kind not in _HARMLESS]
    if problems:
        worst = next((problem for problem in problems if problem.kind == "wrong_fingerprint"), problems[0])
        more = f" ({len(problems) - 1} more problems)" if len(problems) > 1 else ""
        raise DatasetError(
            f"dataset '{manifest.ref}' cannot be scored: {worst.what}{more}",
            where=worst.where,
            remedy=f"`fairgate dataset verify {manifest.ref}` names every problem; run `fairgate dataset pull --force` "
            "on its pointer, or release other content as a new version (`fairgate release`)",
        )
    _intact.add(name)
    if memory is not None:
        memory.add(name, release)
    return manifest.fingerprint


def find_problems(dataset: ShardReader, watch: Watch | None = None) -> list[Problem]:
    """Every problem found by reading the whole dataset once; after 50 of a kind, only their number."""
    problems, kinds = list[Problem](), Counter[Kind]()
    for problem in _Verification(dataset, watch).problems():
        kinds[problem.kind] += 1
        if kinds[problem.kind] <= MOST_OF_A_KIND:
            problems.append(problem)
    for kind, count in kinds.items():
        if (hidden := count - MOST_OF_A_KIND) > 0:
            problems.append(Problem(kind, f"{hidden:,} more of this kind.", str(dataset.folder), REBUILD))
    return problems


class SetLedger:
    """Which members of which sets went by. Remembers whole sets by id, and members only of those that are not."""

    def __init__(self, manifest: Manifest) -> None:
        self._expected = tuple(manifest.members) if manifest.members is not None else None
        self._whole: dict[str, str] = {}
        self._odd: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        self._current: tuple[str, str] | None = None
        self._members: list[str] = []
        self.split = False

    def __len__(self) -> int:
        self._close()
        return len(self._whole) + len(self._odd)

    def add(self, shard: str, set_id: str, member: str) -> None:
        """Note one row, in stored order."""
        if self._current != (shard, set_id):
            self._close()
            self._current = (shard, set_id)
        self._members.append(member)

    def _close(self) -> None:
        if self._current is None:
            return
        (shard, set_id), members = self._current, tuple(self._members)
        self._current, self._members = None, []
        good = members == self._expected if self._expected is not None else len(set(members)) == len(members)
        if set_id in self._whole:
            self._odd[set_id] = [(self._whole.pop(set_id), self._expected or ())]
        if set_id in self._odd:
            self.split = True
            self._odd[set_id].append((shard, members))
        elif good:
            self._whole[set_id] = shard
        else:
            self._odd[set_id] = [(shard, members)]

    def problems(self) -> Iterator[Problem]:
        """What is wrong with sets, once all rows have gone by."""
        self._close()
        for set_id, pieces in self._odd.items():
            shards = list(dict.fromkeys(shard for shard, _ in pieces))
            members = [member for _, piece in pieces for member in piece]
            where = f"{', '.join(shards)}, set '{set_id}'"
            if len(pieces) > 1:
                places = f"over the shards {', '.join(shards)}" if len(shards) > 1 else "within its shard"
                what = f"set '{set_id}' is split {places}."
                yield Problem("split_set", what, where, REBUILD)
            yield from self._wrong_members(set_id, members, where)

    def _wrong_members(self, set_id: str, members: list[str], where: str) -> Iterator[Problem]:
        expected = self._expected if self._expected is not None else tuple(dict.fromkeys(members))
        if missing := [member for member in expected if member not in members]:
            what = f"set '{set_id}' is incomplete: member {_quoted(missing)} is missing."
            yield Problem("incomplete_set", what, where, f"{PULL}, or {REBUILD}")
        if foreign := [member for member in dict.fromkeys(members) if member not in expected]:
            what = f"set '{set_id}' has member {_quoted(foreign)}, which other sets do not have."
            yield Problem("incomplete_set", what, where, REBUILD)
        if doubled := [member for member, count in Counter(members).items() if count > 1]:
            what = f"set '{set_id}' has member {_quoted(doubled)} more than once."
            yield Problem("doubled_member", what, where, REBUILD)
        elif not missing and not foreign and members != list(expected):
            what = f"set '{set_id}' has its members in the order {_quoted(members)}, not {_quoted(expected)}."
            yield Problem("member_order", what, where, REBUILD)


def _quoted(members: Sequence[str]) -> str:
    return ", ".join(f"'{member}'" for member in members)


class _Verification:
    def __init__(self, dataset: ShardReader, watch: Watch | None) -> None:
        self._dataset = dataset
        self._watch = watch
        self._manifest = dataset.manifest
        self._sets = SetLedger(dataset.manifest)
        self._tally = Tally(dataset.manifest.attributes)
        self._content = ContentHash()
        self._rows = 0
        self._whole = True
        """Whether every row could be read, so that counts and fingerprint can be compared."""

    def problems(self) -> Iterator[Problem]:
        yield from self._stray_shards()
        yield from self._look_alikes()
        for shard in self._manifest.shards:
            yield from self._shard(shard)
        yield from self._sets.problems()
        if self._whole:
            yield from self._totals()

    def _stray_shards(self) -> Iterator[Problem]:
        named = {shard.file for shard in self._manifest.shards}
        for path in sorted(self._dataset.folder.glob("*.parquet")):
            if path.name not in named:
                remedy = "remove it: it is no part of this version, and a glob would load it"
                yield Problem("extra_shard", f"shard '{path.name}' is not in the manifest.", str(path), remedy)

    def _look_alikes(self) -> Iterator[Problem]:
        manifest = self._manifest
        named = {"subjects": manifest.subjects, "attributes": list(manifest.attributes)}
        named |= {f"groups of '{attribute}'": groups for attribute, groups in manifest.attributes.items()}
        for what, names in named.items():
            try:
                require_distinct(names, what, str(self._dataset.folder / "manifest.json"))
            except DatasetError as error:
                yield Problem("look_alikes", error.problem, str(error.where), REBUILD)

    def _shard(self, shard: Shard) -> Iterator[Problem]:
        where = str(self._dataset.folder / shard.file)
        computed = self._dataset.sha256_of(shard)
        if computed is None:
            self._whole = False
            yield Problem("missing_shard", f"shard '{shard.file}' is missing.", where, PULL)
            return
        if computed != shard.sha256:
            what = f"shard '{shard.file}' is not the file that was released: its SHA-256 is {computed}."
            yield Problem("changed_shard", what, where, PULL)
        rows, sets = self._rows, len(self._sets)
        try:
            for columns, images, first in self._row_groups(shard):
                yield from self._group_of_rows(shard, columns, images, first)
        except DatasetError as error:
            self._whole = False
            yield Problem("unreadable_shard", error.problem, error.where or where, error.remedy or PULL)
            return
        counted = (self._rows - rows, len(self._sets) - sets)
        if counted != (shard.rows, shard.sets) and not self._sets.split:
            what = f"shard '{shard.file}' has {counted[0]} rows in {counted[1]} sets; the manifest says "
            yield Problem("wrong_counts", f"{what}{shard.rows} in {shard.sets}.", where, PULL)

    def _row_groups(self, shard: Shard) -> Iterator[tuple[list[dict[str, Any]], list[bytes | None], int]]:
        """(columns of each row, encoded images, number of the first row within the shard)."""
        parquet = self._dataset.parquet(shard)
        needed = ["image", *TEXT_COLUMNS, *self._manifest.attributes]
        if lacking := [column for column in needed if column not in parquet.schema_arrow.names]:
            raise DatasetError(
                f"shard '{shard.file}' has no column '{lacking[0]}'.",
                where=str(self._dataset.folder / shard.file),
                remedy=PULL,
            )
        first = 0
        for group in range(parquet.num_row_groups):
            table = self._dataset.read_group(parquet, shard, group)
            images = [encoded(image) for image in table["image"].to_pylist()]
            yield table.drop_columns(["image"]).to_pylist(), images, first
            first += len(images)

    def _group_of_rows(
        self, shard: Shard, columns: list[dict[str, Any]], images: list[bytes | None], first: int
    ) -> Iterator[Problem]:
        decoded = iter(many_pixels([image for image in images if image is not None]))
        for number, (row, image) in enumerate(zip(columns, images, strict=True), start=first):
            where = f"{shard.file}, row {number}, set '{row['set_id']}', member '{row['member']}'"
            pixels = next(decoded) if image is not None else None
            self._rows += 1
            self._sets.add(shard.file, str(row["set_id"]), str(row["member"]))
            self._tally.add(row)
            for attribute, groups in self._manifest.attributes.items():
                if row[attribute] not in groups:
                    what = f"{row[attribute]!r} is not a declared group of '{attribute}' ({', '.join(groups)})."
                    yield Problem("undeclared_group", what, where, REBUILD)
            if (pixels is None) != (self._manifest.image_encoding == "none"):
                what = "the image is missing." if pixels is None else "there is an image in a dataset of labels only."
                yield Problem("unreadable_image", what, where, PULL)
            if pixels is not None and not isinstance(pixels, Pixels):
                self._whole = False
                yield Problem("unreadable_image", f"the image cannot be read: {pixels}.", where, PULL)
                continue
            if pixels is not None and self._watch is not None:
                self._watch(self._rows - 1, pixels.sha256)
            try:
                self._content.add(row, pixels.sha256 if pixels else None)
            except DatasetError as error:
                self._whole = False
                yield Problem("bad_value", error.problem, where, error.remedy or REBUILD)

    def _totals(self) -> Iterator[Problem]:
        manifest, where = self._manifest, str(self._dataset.folder / "manifest.json")
        stated = {"rows": manifest.n_rows, "sets": manifest.n_sets, **_flat(manifest.counts)}
        counted = {"rows": self._rows, "sets": len(self._sets), **_flat(self._tally.counts())}
        differing = [name for name in {**stated, **counted} if stated.get(name, 0) != counted.get(name, 0)]
        if differing or set(manifest.subjects) != set(self._tally.counts().subjects):
            name = differing[0] if differing else "subjects"
            what = f"the manifest counts {stated.get(name, 0)} for {name}, and there are {counted.get(name, 0)}"
            rest = f" ({len(differing) - 1} more counts differ)." if len(differing) > 1 else "."
            yield Problem("wrong_counts", what + rest, where, PULL)
        if (content := self._content.hexdigest()) != manifest.fingerprint:
            what = f"the content's fingerprint is {content}; the manifest says {manifest.fingerprint}."
            yield Problem("wrong_fingerprint", what, where, f"{PULL}; if the content was meant to change, {REBUILD}")


def _flat(counts: Counts) -> dict[str, int]:
    """Every count under a readable name; zeros are left out."""
    named = {f"subject '{subject}'": count for subject, count in counts.subjects.items()}
    for attribute, groups in counts.groups.items():
        named |= {f"{attribute} '{group}'": count for group, count in groups.items()}
    for subject, attributes in counts.subject_groups.items():
        for attribute, groups in attributes.items():
            named |= {f"subject '{subject}', {attribute} '{group}'": count for group, count in groups.items()}
    for crossed, cells in counts.intersections.items():
        named |= {f"{crossed} '{cell}'": count for cell, count in cells.items()}
    return {name: count for name, count in named.items() if count}
