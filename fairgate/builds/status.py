"""How far a build is, read from its folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from fairgate.builds.build import Factory
from fairgate.builds.plan import Ground, plan_digest, what_changed
from fairgate.builds.shard_log import read_ledger
from fairgate.builds.shard_store import read_part
from fairgate.builds.yields import PartTally

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


def part_states(factory: Factory, ground: Ground | None) -> Iterator[PartStatus]:
    """Every part of every subject, as it lies there. Shards are counted by their ledgers; their bytes are not read.

    Without `ground` (the models are on another machine) nothing is called stale.
    """
    for subject in factory.recipe.subjects():
        before = ""
        for part in factory.recipe.parts():
            folder = factory.places.part(subject, part.name)
            said = read_part(folder)
            stale = _stale(said, ground.plan(part, subject, before)) if ground and said else None
            sets = part.target_sets(subject) if factory.limit is None else None
            tally, shards = PartTally(), 0
            for path in sorted(folder.glob("shard-*.json")):
                ledger = read_ledger(path)
                if ledger is not None and not (said.get("complete") and ledger.index >= said["shards"]):
                    tally.add(ledger)
                    shards += 1
            complete = bool(said.get("complete")) and not _would_go_on(said, tally.kept, sets)
            state: State = "absent" if not said else "stale" if stale else "finished" if complete else "unfinished"
            chosen = len(said["chosen"]) if complete else None
            yield PartStatus(
                subject,
                part.name,
                state,
                shards,
                chosen,
                tally,
                stale,
                sets,
            )
            before = str(said.get("chain", ""))


def _would_go_on(said: dict[str, Any], kept: int, sets: int | None) -> bool:
    """Whether more sets are wanted than there are, and more than when the part ended."""
    return sets is not None and kept < sets and sets > (said.get("wanted") or 0)


def _stale(said: dict[str, Any], plan: dict[str, Any]) -> str | None:
    """What makes a part's shards stale, or None."""
    if said.get("plan") == plan_digest(plan):
        return None
    return what_changed(said.get("depends_on") or {}, plan) or "it does not say of what plan it is"
