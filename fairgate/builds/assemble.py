"""From chosen sets to a dataset: streamed, counted, searched for duplicates, and swapped in whole; and its yields: how
much of what was started came out, and why the rest did not, per subject, member and group."""

from __future__ import annotations

import json
import shutil
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairgate.builds import shard_store
from fairgate.builds.part import Chosen
from fairgate.builds.plan import BuildDependencies
from fairgate.builds.recipes import Recipe
from fairgate.builds.shards import pixel_digest, stored
from fairgate.data import Manifest, read_manifest, write_dataset
from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import DatasetError, RecipeError
from fairgate.ground.hashing import digest
from fairgate.ground.text import csv_text
from fairgate.records import DROPS_FILE, PLOT_FILE, YIELD_FILE, BuildYield, GroupYield, PartYield, SubjectYield

VERSION = "v1"
"""Of every build; a release counts on."""


def assemble(
    name: str,
    dependencies: BuildDependencies,
    places: shard_store.Places,
    finished: Mapping[str, Chosen],
    watch: shard_store.Watcher,
) -> Manifest:
    """Write the dataset of a build and its yield tables. Raises RecipeError where no set was chosen at all."""
    recipe = dependencies.recipe
    if not any(chosen.set_ids for chosen in finished.values()):
        raise RecipeError(
            "no set of any subject was kept.",
            where=str(places.root),
            remedy=f"see with `fairgate build status {name}` why they were dropped",
        )
    facts = _facts(name, dependencies, places, finished)
    for left in places.root.glob(f".*{shard_store.DATASET}*"):  # of a killed run; this one holds the lock
        shutil.rmtree(left, ignore_errors=True)
    if (existing := _up_to_date(places, facts)) is not None:
        watch.note(f"{places.dataset} holds these sets already")
        return existing
    watch.note("putting the dataset together")
    census = Census(recipe.attributes())
    fresh = places.root / f".{shard_store.DATASET}.new"
    try:
        manifest = write_dataset(fresh, _rows(recipe, finished, census), version=VERSION, **facts)
    except DatasetError as error:
        raise RecipeError(
            f"the dataset cannot be put together: {error.problem}",
            where=error.where,
            remedy=f"{error.remedy or 'check what the recipe writes'}; finished shards are kept",
        ) from error
    write_yields(places, recipe, finished, manifest, census)
    with shard_store.storing(places.root):
        if places.dataset.exists():
            places.dataset.rename(places.root / f".{shard_store.DATASET}.old")
        fresh.rename(places.dataset)
        shutil.rmtree(places.root / f".{shard_store.DATASET}.old", ignore_errors=True)
    return manifest


def _facts(
    name: str, dependencies: BuildDependencies, places: shard_store.Places, finished: Mapping[str, Chosen]
) -> dict[str, Any]:
    recipe = dependencies.recipe
    settings = recipe.settings
    made: dict[str, Any] = {
        "name": recipe.name,
        "paper": recipe.paper,
        "code": dependencies.code,
        "knobs": settings.model_dump(mode="json"),
        "models": dict(recipe.models()),
    }
    if dependencies.limit is not None:
        made["limit"] = dependencies.limit
    parts = (shard_store.read_part(places.part(subject, part.name)) for subject in finished for part in recipe.parts())
    if earlier := {code for recorded in parts for code in shard_store.earlier_code(recorded)}:
        made[shard_store.EARLIER_CODE] = sorted(earlier)
    lineage = {"sets": digest({subject: chosen.chain for subject, chosen in finished.items()})}
    lineage |= {f"model {role}": fingerprint for role, fingerprint in dependencies.models.items()}
    lineage |= {f"input {role}": fingerprint for role, fingerprint in dependencies.inputs.items()}
    limited = (
        f" A trial: at most {dependencies.limit} starting sets per subject and part." if dependencies.limit else ""
    )
    return {
        "name": settings.name or name,
        "attributes": recipe.attributes(),
        "recipe": made,
        "licence": settings.licence,
        "counterfactual": recipe.counterfactual,
        "notice": settings.notice,
        "lineage": lineage,
        "about": recipe.about() + limited,
    }


def _up_to_date(places: shard_store.Places, facts: Mapping[str, Any]) -> Manifest | None:
    """The dataset that is there, where it was made from these sets and says the same of itself; files are held
    against their sizes alone (`fairgate dataset verify` reads them)."""
    try:
        manifest = read_manifest(places.dataset)
    except DatasetError:
        return None
    same = all(_plain(getattr(manifest, fact)) == _plain(facts[fact]) for fact in facts)
    sizes = [
        (path := places.dataset / shard.file).is_file() and path.stat().st_size == shard.bytes
        for shard in manifest.shards
    ]
    yields = all((places.root / name).is_file() for name in WRITTEN)
    return manifest if same and all(sizes) and yields else None


def _plain(value: object) -> object:
    return json.loads(json.dumps(value, default=dict))


def _rows(recipe: Recipe, finished: Mapping[str, Chosen], census: Census) -> Iterator[dict[str, object]]:
    """Rows of the dataset as they come off the shards; every one is shown to `census` on its way."""
    for subject, chosen in finished.items():
        for each in chosen.stored(chosen.set_ids):
            # The stored digest of a picture that the recipe hands on unchanged: it need not be decoded again.
            stored_rows = zip(each.rows.rows, each.pixels, strict=False)
            known = {row["image"]: pixels for row, pixels in stored_rows if isinstance(row.get("image"), bytes)}
            for row in recipe.finish(each.rows):
                where = f"set '{row.get('set_id')}', member '{row.get('member')}'"
                values = {name: stored(value, f"{where}, column '{name}'") for name, value in row.items()}
                image = row.get("image")
                pixels = known.get(image) if isinstance(image, bytes) else None
                census.add(subject, values, pixels or pixel_digest(image, values.get("image")))
                yield {name: cell.tolist() if isinstance(cell, np.ndarray) else cell for name, cell in values.items()}
        chosen.let_go()


class Census:
    """Takes rows one by one; holds eight bytes per image. The dataset's own subjects may put several together."""

    def __init__(self, attributes: Mapping[str, Sequence[str]]) -> None:
        self._attributes = attributes
        self._pixels: defaultdict[str, array[int]] = defaultdict(lambda: array("Q"))
        self._groups: Counter[tuple[str, str, str]] = Counter()

    def add(self, subject: str, row: Mapping[str, Any], pixels: str | None) -> None:
        if pixels is not None:
            self._pixels[subject].append(int(pixels[:16], 16))
        for attribute in self._attributes:
            self._groups[subject, attribute, str(row.get(attribute))] += 1

    def exact(self, subject: str | None = None) -> int:
        """Images whose pixels another image before them has, of all subjects or within one."""
        parts = self._pixels.values() if subject is None else [self._pixels[subject]]
        names = np.concatenate([np.array(part, dtype=np.uint64) for part in parts])
        return len(names) - len(np.unique(names))

    def images_of(self, subject: str) -> int:
        return len(self._pixels[subject])

    def groups_of(self, subject: str) -> dict[str, dict[str, int]]:
        """Attribute -> group -> rows of one subject; 0 for a group that it has none of."""
        return {
            attribute: {group: self._groups[subject, attribute, group] for group in groups}
            for attribute, groups in self._attributes.items()
        }


WRITTEN = (YIELD_FILE, PLOT_FILE, DROPS_FILE)
WHOLE = "(set)"
"""In place of the member, where a set was dropped as a whole."""


@dataclass
class PartTally:
    """What became of the starting sets of one part. `blamed` counts (reason, attribute or "member", group).

    `tried` and `failed` count members by (attribute, group): those made, and those that failed where a set was dropped.
    A set is blamed on one member, the one that its drop names.
    """

    started: int = 0
    kept: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    blamed: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, ledger: shard_store.Ledger) -> None:
        self.counts.update(ledger.counts)
        self.seconds += ledger.seconds
        self.started += len(ledger.sets)
        self.kept += len(ledger.kept_ids)
        for record in ledger.sets:
            if record.reason is not None:
                self.reasons[record.reason] += 1
                self.blamed[record.reason, "member", record.member or WHOLE] += 1
            for member, groups in zip(record.members, record.groups, strict=False):  # groups as far as they are known
                for attribute, group in zip(ledger.attributes, groups, strict=True):
                    if not group:
                        continue
                    self.tried[attribute, group] += 1
                    if member in (record.member, *record.also):
                        self.failed[attribute, group] += 1
                    if record.reason is not None and member == record.member:
                        self.blamed[record.reason, attribute, group] += 1


def write_yields(
    places: shard_store.Places, recipe: Recipe, finished: Mapping[str, Chosen], manifest: Manifest, census: Census
) -> None:
    """Write `yield.json` (for `dvc metrics show`), `yield.csv` (for `dvc plots`) and `drops.csv` (by group)."""
    subjects: dict[str, SubjectYield] = {}
    lines: list[tuple[str, ...]] = []
    total: Counter[str] = Counter()
    for subject, chosen in finished.items():
        parts = {part.name: PartTally() for part in recipe.parts()}
        spent: Counter[str] = Counter()
        for name, tally in parts.items():
            for ledger in shard_store.finished_ledgers(places.part(subject, name)):
                tally.add(ledger)
            spent.update(tally.counts)
        subjects[subject] = _subject(subject, parts, len(chosen.set_ids), census, spent)
        total.update(spent)
        lines += _lines(subject, parts)
    summary = BuildYield(
        sets=manifest.n_sets,
        images=manifest.n_rows,
        per_image=_per_image(total, manifest.n_rows),
        balance={name: _balance(groups) for name, groups in manifest.counts.groups.items()},
        exact_duplicates=census.exact(),
        subjects=subjects,
    ).model_dump()
    # A plot adds up what it is given: sets are in it once, and not again for each of their groups.
    once = [(subject, f"{part}: {reason}", count) for subject, part, over, _, reason, count in lines if over == "all"]
    with shard_store.storing(places.root):
        atomic_write(places.root / YIELD_FILE, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
        atomic_write(places.root / PLOT_FILE, csv_text(("subject", "outcome", "count"), once))
        atomic_write(
            places.root / DROPS_FILE, csv_text(("subject", "part", "attribute", "group", "reason", "count"), lines)
        )


def _subject(
    subject: str, parts: Mapping[str, PartTally], chosen: int, census: Census, spent: Mapping[str, int]
) -> SubjectYield:
    made: dict[str, PartYield] = {}
    for name, tally in parts.items():
        # Members may be made one after the other until one fails, later groups less often: shares compare.
        groups: dict[str, dict[str, GroupYield]] = {}
        for (attribute, group), tried in sorted(tally.tried.items()):
            failed = tally.failed[attribute, group]
            shares = GroupYield(tried=tried, failed=failed, passed_share=round(1 - failed / tried, 4))
            groups.setdefault(attribute, {})[group] = shares
        made[name] = PartYield(
            started=tally.started,
            kept=tally.kept,
            kept_share=round(tally.kept / tally.started, 4) if tally.started else 0.0,
            dropped=dict(sorted(tally.reasons.items())),
            groups=groups,
        )
    return SubjectYield(
        sets=chosen,
        images=census.images_of(subject),
        exact_duplicates=census.exact(subject),
        balance={name: _balance(groups) for name, groups in census.groups_of(subject).items()},
        parts=made,
        per_image=_per_image(spent, census.images_of(subject)),
    )


def _per_image(spent: Mapping[str, int], images: int) -> dict[str, float]:
    """Evaluations per image of the finished dataset, all dropped ones paid for."""
    return {what: round(count / images, 3) for what, count in sorted(spent.items())} if images else {}


def _balance(groups: Mapping[str, int]) -> float:
    """Images of the smallest group over those of the largest: 1 is balanced, 0 where a group has none."""
    return round(min(groups.values()) / max(groups.values()), 4) if groups and max(groups.values()) else 0.0


def _lines(subject: str, parts: Mapping[str, PartTally]) -> Iterator[tuple[str, ...]]:
    for name, tally in parts.items():
        yield subject, name, "all", "all", "started", str(tally.started)
        yield subject, name, "all", "all", "kept", str(tally.kept)
        for reason, count in sorted(tally.reasons.items()):
            yield subject, name, "all", "all", reason, str(count)
        for (reason, attribute, group), count in sorted(tally.blamed.items()):
            yield subject, name, attribute, group, reason, str(count)
