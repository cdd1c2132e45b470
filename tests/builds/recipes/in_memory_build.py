"""Runs a recipe's parts in this process, with nothing on disk: what a build does, without engines and files."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from fairgate.builds.steps import Meter, SetRows, Trace, run_steps
from fairgate.builds.steps.pictures import png


@dataclass
class Finished:
    """A finished part: its chosen sets, all traces, and what was spent."""

    set_ids: list[str] = field(default_factory=list)
    kept: dict[str, SetRows] = field(default_factory=dict)
    traces: list[Trace] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)

    def sets(self, set_ids):
        return (self.kept[set_id] for set_id in set_ids)


def run_part(part, subject, before, most_shards=None) -> Finished:
    """One part, shard after shard, until its shards or the wanted sets are there."""
    done = Finished()
    steps = part.steps(subject, "cpu", part.context(subject, before))
    for shard in itertools.islice(part.shards(subject, before), most_shards):
        done.traces += run_steps(steps, shard, done.meter)
        done.kept |= {rows.set_id: stored(rows) for rows in shard if rows.drop is None}
        if (target := part.target_sets(subject)) is not None and len(done.kept) >= target:
            break
    done.set_ids = part.choose(subject, done.traces)
    return done


def stored(rows: SetRows) -> SetRows:
    """Pictures as the bytes that a shard on disk keeps."""
    for row in rows.rows:
        if not isinstance(row["image"], bytes):
            row["image"] = png(row["image"])
    return rows


def run_recipe(recipe, subject, most_shards=None) -> list[Finished]:
    """All parts of one subject."""
    parts, before = [], Finished()
    for part in recipe.parts():
        before = run_part(part, subject, before, most_shards)
        parts.append(before)
    return parts


def rows_of(recipe, finished: Finished) -> list[dict]:
    """The finished dataset's rows."""
    return [row for rows in finished.sets(finished.set_ids) for row in recipe.finish(rows)]
