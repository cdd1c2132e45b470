"""A build: subject by subject, part by part, then the dataset; whatever is finished is found again."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairgate.builds.assemble import assemble
from fairgate.builds.params import PARAMS
from fairgate.builds.part import PartJob, build_part
from fairgate.builds.part_output import Chosen
from fairgate.builds.paths import DATASET, Places, pick, require_different_folders
from fairgate.builds.plan import Ground, plan_digest, what_changed
from fairgate.builds.shard_log import Quiet, Watcher
from fairgate.builds.shard_store import ShardStore, read_part, storing
from fairgate.data import Manifest
from fairgate.engines import Engine, one_thread_each
from fairgate.recipes import Part, Recipe


@dataclass(frozen=True)
class Factory:
    """One build of a recipe in `out`. `limit` is the most starting sets of a part, per subject, for trying out.

    `params` is the file that names it: for messages.
    """

    name: str
    recipe: Recipe
    out: Path = Path("build")
    limit: int | None = None
    watch: Watcher = field(default_factory=Quiet)
    params: Path = PARAMS

    @property
    def places(self) -> Places:
        """Where its files lie."""
        return Places.of(self.out, self.name, self.limit)

    def build(self, engine: Engine, subjects: Sequence[str] = (), part: str | None = None) -> None:
        """Make what is missing of some subjects (default: all), and with `part` of that part alone.

        With a part named, those before it must be finished. Raises RecipeError where the build cannot go on; finished
        shards remain.
        """
        selected = self._subjects(subjects)
        if part is not None:
            pick([part], [each.name for each in self.recipe.parts()], "part")
        one_thread_each()
        ground = Ground.of(self.recipe, self.limit)
        with self.places.held(selected):
            for subject in selected:
                self._subject(ground, subject, engine, part)

    def assemble(self, engine: Engine | None = None) -> Manifest:
        """Write the dataset from all subjects, after making what is missing with an engine.

        A dataset that was made from the same sets is left as it is. Raises RecipeError as `build` does; without an
        engine, also where a subject is not finished.
        """
        one_thread_each()
        ground = Ground.of(self.recipe, self.limit)
        subjects = self._subjects(())
        with self.places.held([*subjects, DATASET]):
            finished = {subject: self._subject(ground, subject, engine) for subject in subjects}
            return assemble(self.name, ground, self.places, finished, self.watch)

    def _subjects(self, names: Sequence[str]) -> list[str]:
        known = self.recipe.subjects()
        require_different_folders(known)
        return pick(names, known, "subject")

    def _subject(self, ground: Ground, subject: str, engine: Engine | None, last: str | None = None) -> Chosen:
        """The parts of a subject up to `last`, which alone may be made where it is named; else all, by the engine."""
        chosen = Chosen()
        for part in self.recipe.parts():
            chosen = self._part(ground, part, subject, chosen, engine if last in (None, part.name) else None)
            if part.name == last:
                break
        return chosen

    def _part(self, ground: Ground, part: Part, subject: str, before: Chosen, engine: Engine | None) -> Chosen:
        plan = ground.plan(part, subject, before.chain)
        store = ShardStore(self.places.part(subject, part.name), plan, plan_digest(plan))
        self._set_aside(store, plan, subject, part.name)
        job = PartJob(part, subject, before, store, tuple(self.recipe.attributes()), self.limit, self._command(subject))
        chosen = build_part(job, engine, self.watch)
        before.let_go()
        return chosen

    def _command(self, subject: str) -> str:
        limit = f" --limit {self.limit}" if self.limit else ""
        params = f" --params {shlex.quote(str(self.params))}" if self.params != PARAMS else ""
        out = f" --out {shlex.quote(str(self.out))}" if self.out != Path("build") else ""
        return f"fairgate build {self.name} --subject {shlex.quote(subject)}{limit}{params}{out}"

    def _set_aside(self, store: ShardStore, plan: dict[str, object], subject: str, part: str) -> None:
        """Move shards of another plan away, and bring back those of this one: two plans are never mixed."""
        found = read_part(store.folder)
        old = found.get("plan") or store.plan_of_ledgers()
        if old == store.digest:
            return
        with storing(self.places.root):
            if store.folder.exists() and any(store.folder.glob("shard-*")):
                target = self.places.aside(str(old or "unknown"), subject, part)
                if target.exists():
                    shutil.rmtree(target)
                target.parent.mkdir(parents=True, exist_ok=True)
                store.folder.rename(target)
                changed = what_changed(found.get("depends_on") or {}, plan)
                what = f"'{subject}', part '{part}': what is here was made otherwise ({changed})"
                self.watch.note(f"{what}. It is set aside in {target}")
            earlier = self.places.aside(store.digest, subject, part)
            if read_part(earlier).get("plan") == store.digest:
                if store.folder.exists():
                    shutil.rmtree(store.folder)
                store.folder.parent.mkdir(parents=True, exist_ok=True)
                earlier.rename(store.folder)
                self.watch.note(f"'{subject}', part '{part}': made before under this plan; restored from {earlier}")
