"""A build: every subject part by part, then the dataset; whatever is finished is found again, and counted.

`params.yaml` names builds: a recipe and the settings that differ from the paper's.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fairgate.builds import shard_store
from fairgate.builds.assemble import PartTally, assemble
from fairgate.builds.part import Chosen, FirstShardAgain, PartBuild
from fairgate.builds.plan import BuildDependencies, what_changed
from fairgate.builds.recipes import Recipe, open_recipe, recipe_names
from fairgate.builds.shard_queue import Parts, ShardQueue
from fairgate.data import NAME_PATTERN, Manifest
from fairgate.engines import Engine, one_thread_each
from fairgate.ground.errors import RecipeError, SuiteError, did_you_mean
from fairgate.ground.hashing import digest
from fairgate.ground.yaml_source import Source, read_source
from fairgate.models.generation import Offload

PARAMS = Path("params.yaml")
RESERVED = ("status", "run", "preflight")
"""Names that are commands of `fairgate build`."""


@dataclass(frozen=True)
class Factory:
    """One build of a recipe in `out`. `limit` is the most starting sets of a part, per subject, for trying out.

    `params` is the file that names it: for messages. `offload` says where diffusion models lie, and changes no picture.
    `keep_equal` keeps shards that other code of the recipe made, where the first one, made again, is equal.
    """

    name: str
    recipe: Recipe
    out: Path = Path("build")
    limit: int | None = None
    watch: shard_store.Watcher = field(default_factory=shard_store.SilentWatcher)
    params: Path = PARAMS
    offload: Offload = "none"
    keep_equal: bool = False

    @property
    def places(self) -> shard_store.Places:
        return shard_store.Places(self.out / (self.name if self.limit is None else f"{self.name}-limit-{self.limit}"))

    def build(self, engine: Engine, subjects: Sequence[str] = (), part: str | None = None) -> None:
        """Make what is missing of some subjects (default: all), and with `part` of that part alone.

        With a part named, those before it must be finished. Raises RecipeError where the build cannot go on; finished
        shards remain.
        """
        selected = self._subjects(subjects)
        if part is not None:
            shard_store.pick([part], [each.name for each in self.recipe.parts()], "part")
        one_thread_each()
        dependencies = BuildDependencies.of(self.recipe, self.limit, part)
        with self.places.locked(selected):
            self._make(dependencies, selected, engine, part)

    def assemble(self, engine: Engine | None = None) -> Manifest:
        """Write the dataset from all subjects, after making what is missing with an engine.

        A dataset that was made from the same sets is left as it is. Raises RecipeError as `build` does; without an
        engine, also where a subject is not finished.
        """
        one_thread_each()
        dependencies = BuildDependencies.of(self.recipe, self.limit)
        subjects = self._subjects(())
        with self.places.locked([*subjects, shard_store.DATASET]):
            finished = self._make(dependencies, subjects, engine)
            return assemble(self.name, dependencies, self.places, finished, self.watch)

    def _subjects(self, names: Sequence[str]) -> list[str]:
        known = self.recipe.subjects()
        shard_store.require_different_folders(known)
        return shard_store.pick(names, known, "subject")

    def _make(
        self, dependencies: BuildDependencies, subjects: Sequence[str], engine: Engine | None, last: str | None = None
    ) -> dict[str, Chosen]:
        """What every subject chose in its last part, after making what is missing: several subjects at once where the
        engine can, as many as it has workers."""
        parts = {subject: self._parts(dependencies, subject, engine is not None, last) for subject in subjects}
        if engine is None:
            queue = ShardQueue(parts, lambda: 1, mixed=False)
            queue.take()  # raises where something is missing
        else:
            queue = ShardQueue(parts, engine.room, mixed=engine.mixed)
            engine.run(queue.take, queue.done)
        return {subject: queue.chosen[subject] for subject in subjects}

    def _parts(self, dependencies: BuildDependencies, subject: str, making: bool, last: str | None) -> Parts:
        """The parts of a subject up to `last`, which alone may be made where it is named; else all may."""
        limit = f" --limit {self.limit}" if self.limit else ""
        params = f" --params {shlex.quote(str(self.params))}" if self.params != PARAMS else ""
        out = f" --out {shlex.quote(str(self.out))}" if self.out != Path("build") else ""
        command = f"fairgate build {self.name} --subject {shlex.quote(subject)}{limit}{params}{out}"
        attributes, chosen = list(self.recipe.attributes()), Chosen()
        for part in self.recipe.parts():
            plan = dependencies.plan(part, subject, chosen.chain)
            store = shard_store.ShardStore(self.places.part(subject, part.name), plan)
            may = making and last in (None, part.name)
            build = PartBuild(
                part, subject, chosen, store, attributes, self.watch, self.limit, command, may, self.offload
            )
            if self.keep_equal and may and (again := FirstShardAgain.of(build, plan)) is not None:
                yield again
            self._set_aside(store, plan, subject, part.name)
            build.open()
            yield build
            chosen = build.finish()
            if part.name == last:
                break
        return chosen

    def _set_aside(self, store: shard_store.ShardStore, plan: dict[str, object], subject: str, part: str) -> None:
        """Move shards of another plan away, and bring back those of this one: two plans are never mixed."""
        recorded = shard_store.read_part(store.folder)
        old = recorded.get("plan") or next((ledger.plan for ledger in store.ledgers_of()), None)
        if old == store.digest:
            return
        with shard_store.storing(self.places.root):
            if store.folder.exists() and any(store.folder.glob("shard-*")):
                target = self.places.aside(str(old or "unknown"), subject, part)
                if target.exists():
                    shutil.rmtree(target)
                target.parent.mkdir(parents=True, exist_ok=True)
                store.folder.rename(target)
                changed = what_changed(recorded.get("depends_on") or {}, plan)
                what = f"'{subject}', part '{part}': what is here was made otherwise ({changed})"
                self.watch.note(f"{what}. It is set aside in {target}")
            earlier = self.places.aside(store.digest, subject, part)
            if shard_store.read_part(earlier).get("plan") == store.digest:
                if store.folder.exists():
                    shutil.rmtree(store.folder)
                store.folder.parent.mkdir(parents=True, exist_ok=True)
                earlier.rename(store.folder)
                self.watch.note(f"'{subject}', part '{part}': made before under this plan; restored from {earlier}")


State = Literal["absent", "unfinished", "finished", "stale"]


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One part of one subject; `stale` says in words what has changed since its shards were made."""

    subject: str
    part: str
    state: State
    shards: int
    chosen: int | None
    tally: PartTally
    stale: str | None = None
    wanted: int | None = None

    @property
    def short(self) -> bool:
        """Whether the part ended with fewer sets than are wanted."""
        return self.state == "finished" and self.wanted is not None and self.tally.kept < self.wanted


def part_states(factory: Factory, dependencies: BuildDependencies | None) -> Iterator[PartStatus]:
    """Every part of every subject, as it lies there. Shards are counted by their ledgers; their bytes are not read.

    Without `dependencies` (the models are on another machine) nothing is called stale.
    """
    for subject in factory.recipe.subjects():
        before = ""
        for part in factory.recipe.parts():
            folder = factory.places.part(subject, part.name)
            recorded = shard_store.read_part(folder)
            stale = None
            if dependencies and recorded:
                plan = dependencies.plan(part, subject, before)
                if recorded.get("plan") != digest(plan):
                    changed = what_changed(recorded.get("depends_on") or {}, plan)
                    stale = changed or "it does not say of what plan it is"
            sets = part.target_sets(subject) if factory.limit is None else None
            tally, shards = PartTally(), 0
            for path in sorted(folder.glob("shard-*.json")):
                ledger = shard_store.read_ledger(path)
                if ledger is not None and not (recorded.get("complete") and ledger.index >= recorded["shards"]):
                    tally.add(ledger)
                    shards += 1
            # more sets are wanted than there are, and more than when the part ended
            short = sets is not None and tally.kept < sets and sets > (recorded.get("wanted") or 0)
            complete = bool(recorded.get("complete")) and not short
            state: State = "absent" if not recorded else "stale" if stale else "finished" if complete else "unfinished"
            chosen = len(recorded["chosen"]) if complete else None
            yield PartStatus(subject, part.name, state, shards, chosen, tally, stale, sets)
            before = str(recorded.get("chain", ""))


def read_build(name: str, params: Path = PARAMS) -> Recipe:
    """The recipe of a named build, with its settings. Raises RecipeError for a file that is not plain YAML, an unknown
    name, recipe or setting.

    The recipe is the one that `recipe:` names, or else the build's own name. Recipes are those of fairgate: a file that
    comes with a pull request names no code.
    """
    source, builds = _builds(params)
    if name not in builds:
        raise RecipeError(
            f"there is no build '{name}'.",
            where=f"{source.shown}: builds",
            remedy=did_you_mean(name, [*builds, *RESERVED]) or f"builds: {', '.join(builds) or 'none yet'}",
        )
    where = source.where(("builds", name))
    if name in RESERVED or not re.fullmatch(NAME_PATTERN, name):
        raise RecipeError(
            f"a build cannot be called '{name}'.",
            where=where,
            remedy="use small letters, digits, - and _; 'status', 'run' and 'preflight' are commands",
        )
    entry = builds[name] or {}
    if not isinstance(entry, dict):
        raise RecipeError("a build is a mapping of settings.", where=where, remedy=f"write `{name}: {{recipe: NAME}}`")
    settings = {setting: value for setting, value in entry.items() if setting != "recipe"}
    recipe = entry.get("recipe", name)
    if not isinstance(recipe, str) or ("recipe" not in entry and name not in recipe_names()):
        raise RecipeError(
            f"build '{name}' does not say which recipe it is.",
            where=where,
            remedy=f"add `recipe: NAME`; recipes: {', '.join(recipe_names())}",
        )
    return open_recipe(recipe, settings, where=where)


def build_names(params: Path = PARAMS) -> list[str]:
    """Every build of the file, in its order."""
    return list(_builds(params)[1])


def _builds(params: Path) -> tuple[Source, dict[str, Any]]:
    try:
        source = read_source(params)
    except SuiteError as error:  # the reader of suites: the same care, other words
        raise RecipeError(
            error.problem.replace("the suite", "the file").replace("a suite", "this file"),
            where=error.where,
            remedy="name builds under `builds:` in params.yaml, or name another file with --params",
        ) from error
    builds = source.data.get("builds")
    if not isinstance(builds, dict):
        raise RecipeError(
            "the file names no builds.",
            where=source.shown,
            remedy="add `builds:` with a mapping of names to recipes and settings",
        )
    return source, builds
