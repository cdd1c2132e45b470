"""One part of one subject: its shards made in any order, its content decided by their order alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from fairgate.builds.part_output import Chosen
from fairgate.builds.shard_log import Ledger, Watcher, starts_digest
from fairgate.builds.shard_store import ShardStore
from fairgate.builds.worker import MadeShard, ShardBench
from fairgate.engines import Engine, Task
from fairgate.errors import RecipeError
from fairgate.hashing import digest
from fairgate.recipes import Part
from fairgate.steps import SetRows, Trace

FRUITLESS = 20_000
"""Starting sets after which a part without a single accepted set fails: its models or limits are wrong."""


@dataclass(frozen=True, slots=True)
class PartJob:
    """A part to be built for a subject, after what came before, into a shard store."""

    part: Part
    subject: str
    before: Chosen
    store: ShardStore
    attributes: tuple[str, ...]
    limit: int | None = None
    command: str = "fairgate build"

    def starts(self) -> Iterator[list[SetRows]]:
        """The starting sets of every shard; no more than `limit` sets in all."""
        shards = self.part.shards(self.subject, self.before)
        if self.limit is None:
            yield from shards
            return
        left = self.limit
        for sets in shards:
            if left <= 0:
                return
            yield sets[:left]
            left -= len(sets)

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.subject}, part '{self.part.name}'"


@dataclass(slots=True)
class _Finished:
    """What is remembered of a finished shard: little, for there may be many."""

    starts: int
    kept: list[str]
    content: str
    traces: list[Trace] | None


@dataclass
class _Run:
    """The prefix rule: a part is the shortest unbroken run of shards, from the first, that holds enough."""

    job: PartJob
    watch: Watcher
    shards: dict[int, _Finished] = field(default_factory=dict)
    prefix: int = 0
    started: int = 0
    kept: int = 0
    end: int | None = None
    total: int = 0

    @property
    def target(self) -> int | None:
        """Number of accepted sets that ends the part."""
        return self.job.part.target_sets(self.job.subject)

    @property
    def chooses(self) -> bool:
        """Whether the part chooses by its traces, which are then held in memory."""
        return type(self.job.part).choose is not Part.choose

    def note(self, ledger: Ledger, found: bool) -> None:
        """A shard is there."""
        subject = self.job.subject
        traces = [record.trace(subject) for record in ledger.sets] if self.chooses else None
        self.shards[ledger.index] = _Finished(len(ledger.sets), ledger.kept_ids, ledger.content, traces)
        self.watch.shard(ledger, images=sum(len(each.members) for each in ledger.sets if each.kept), found=found)
        while self.end is None and self.prefix in self.shards:
            shard = self.shards[self.prefix]
            self.prefix += 1
            self.started += shard.starts
            self.kept += len(shard.kept)
            if self.target is not None and self.kept >= self.target:
                self.end = self.prefix
            elif not self.kept and self.started >= FRUITLESS:
                raise RecipeError(
                    f"not one of the first {self.started:,} sets was kept.",
                    where=self.job.where,
                    remedy="see with `fairgate build status` why they are dropped, and check models and limits",
                )

    def tasks(self) -> Iterator[Task]:
        """What is still to be made, in order; shards that are there are noted on the way."""
        number = 0
        for index, sets in enumerate(self.job.starts()):
            if self.end is not None:
                return
            number = index + 1
            if index in self.shards:
                continue
            ledger = self.job.store.ledger(index, starts_digest(sets))
            if ledger is not None:
                self.note(ledger, found=True)
            else:
                yield Task(index, sets)
        self.total = number


def build_part(job: PartJob, engine: Engine | None, watch: Watcher) -> Chosen:
    """Make what is missing of a part, and choose. Without an engine, raises RecipeError where something is missing."""
    job.store.open()
    run = _Run(job, watch)
    sets = run.target
    watch.part(job.subject, job.part.name, wanted_sets=sets, shards=_number_of_shards(job))
    tasks = run.tasks()
    first = next(tasks, None)
    if first is not None:
        if engine is None:
            raise _unfinished(job)
        _make(run, engine, chain([first], tasks))
    number = run.total if run.end is None else run.end
    missing = [index for index in range(number) if index not in run.shards]
    assert not missing, f"shards {missing} were neither found nor made"
    stocked = max(number, job.store.stocked)
    job.store.keep_first(stocked)
    chosen = _choose(run, number, {"wanted": sets, "stocked": stocked})
    if sets is not None and run.kept < sets and job.limit is None:
        watch.note(
            f"{job.where}: {run.kept:,} of {sets:,} wanted sets were kept, and every starting set was tried; start "
            "from more, or be less strict"
        )
    return chosen


def _make(run: _Run, engine: Engine, tasks: Iterator[Task]) -> None:
    job = run.job
    job.store.write_facts({"complete": False, "stocked": job.store.stocked})
    context = job.part.context(job.subject, job.before)
    bench = ShardBench(job.part, job.subject, context, job.attributes)
    starts: dict[int, str] = {}

    def noted() -> Iterator[Task]:
        for task in tasks:
            starts[task.index] = starts_digest(task.payload)
            yield task

    def done(task: Task, made: MadeShard) -> bool:
        ledger = job.store.write(task.index, starts.pop(task.index), made, list(job.attributes))
        run.note(ledger, found=False)
        return run.end is None

    engine.run(noted(), bench, done)


def _choose(run: _Run, number: int, facts: dict[str, Any]) -> Chosen:
    job = run.job
    shard_of: dict[str, int] = {}
    for index in range(number):
        for set_id in run.shards[index].kept:
            if set_id in shard_of:
                raise RecipeError(
                    f"set '{set_id}' is in two shards.",
                    where=job.where,
                    remedy="give every starting set of a subject its own set_id",
                )
            shard_of[set_id] = index
    chosen = _chosen_ids(run, number, shard_of)
    contents = [run.shards[index].content for index in range(number)]
    link = digest({"chosen": chosen, "contents": contents})
    started = sum(run.shards[index].starts for index in range(number))
    job.store.write_facts(
        {
            "complete": True,
            "shards": number,
            "started": started,
            "kept": len(shard_of),
            "chain": link,
            "chosen": chosen,
            **facts,
        }
    )
    return Chosen(chosen, link, job.store, shard_of)


def _chosen_ids(run: _Run, number: int, shard_of: dict[str, int]) -> list[str]:
    if not run.chooses:
        return list(shard_of)
    traces: Sequence[Trace] = [trace for index in range(number) for trace in run.shards[index].traces or ()]
    chosen = run.job.part.choose(run.job.subject, traces)
    odd = [set_id for set_id in chosen if set_id not in shard_of]
    if odd or len(set(chosen)) < len(chosen):
        raise RecipeError(
            f"'{odd[0]}' was chosen and not kept." if odd else "a set was chosen twice.",
            where=run.job.where,
            remedy="choose among the traces that are kept, each once",
        )
    return chosen


def _number_of_shards(job: PartJob) -> int | None:
    """Counted where starting sets are cheap (no part before) and come to an end by themselves; for time left only."""
    if job.before.set_ids or job.part.target_sets(job.subject) is not None:
        return None
    return sum(1 for _ in islice(job.starts(), 1_000_000))


def _unfinished(job: PartJob) -> RecipeError:
    return RecipeError(
        f"part '{job.part.name}' of '{job.subject}' is not finished.",
        where=str(job.store.folder),
        remedy=f"build it first: `{job.command}`",
    )
