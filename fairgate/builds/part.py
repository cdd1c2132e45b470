"""One part of one subject: its shards made in any order, its content decided by their order alone.

The chosen sets are read from the shards on demand.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairgate.builds.recipes import Part
from fairgate.builds.shard_store import Ledger, ShardStore, Watcher, read_part, record_of, shard_path, starts_digest
from fairgate.builds.shards import StoredSet, decode, encode
from fairgate.builds.steps import Meter, SetRows, Trace, run_steps
from fairgate.engines import Engine, Task
from fairgate.ground.errors import RecipeError
from fairgate.ground.hashing import digest, sha256_bytes
from fairgate.models.generation import Offload, offloading

if TYPE_CHECKING:
    import pyarrow as pa

FRUITLESS = 20_000
"""Starting sets after which a part without a single accepted set fails: its models or limits are wrong."""


_BYTES_HELD = 64 << 20
"""Of row groups (1 MiB each, or a single larger set) that stay in memory: what is chosen lies all over the shards."""
_MAPS_HELD = 1000


@dataclass
class Chosen:
    """A finished part of one subject: a recipe's `Before`.

    `shard_of` maps each accepted set to its shard; `chain` is a digest of the choice and of the shards' content.
    """

    set_ids: Sequence[str] = ()
    chain: str = ""
    store: ShardStore | None = None
    shard_of: Mapping[str, int] = field(default_factory=dict)
    _groups: OrderedDict[tuple[int, int], pa.Table] = field(default_factory=OrderedDict)
    _maps: OrderedDict[int, dict[str, tuple[int, int]]] = field(default_factory=OrderedDict)

    def sets(self, set_ids: Sequence[str]) -> Iterator[SetRows]:
        """The stored sets with these ids, in this order. Raises RecipeError for one that was dropped."""
        for stored in self.stored(set_ids):
            yield stored.rows

    def stored(self, set_ids: Sequence[str]) -> Iterator[StoredSet]:
        """As `sets`, with the digests of the members' pixels."""
        for set_id in set_ids:
            if set_id not in self.shard_of:
                raise RecipeError(
                    f"there is no kept set '{set_id}' in the part before.",
                    where=str(self.store.folder if self.store else "the first part has none before it"),
                    remedy="use ids of `before.set_ids`",
                )
            shard = self.shard_of[set_id]
            group, first = self._map(shard)[set_id]
            table = self._group(shard, group)
            yield next(decode(table.slice(first, max(table["members"][first].as_py(), 1))))

    def let_go(self) -> None:
        """Free the memory of what was read; it is read again when it is needed."""
        self._groups.clear()
        self._maps.clear()

    def _group(self, shard: int, number: int) -> pa.Table:
        """A row group, from a least-recently-used cache."""
        if (shard, number) not in self._groups:
            with self._open(shard) as parquet:
                self._groups[shard, number] = parquet.read_row_group(number)
            while len(self._groups) > 1 and sum(table.nbytes for table in self._groups.values()) > _BYTES_HELD:
                self._groups.popitem(last=False)
        self._groups.move_to_end((shard, number))
        return self._groups[shard, number]

    def _map(self, shard: int) -> dict[str, tuple[int, int]]:
        """In which row group each set of a shard is, and its first row there."""
        if shard not in self._maps:
            places = self._maps[shard] = {}
            with self._open(shard) as parquet:
                for group in range(parquet.num_row_groups):
                    set_ids = parquet.read_row_group(group, columns=["set_id"])["set_id"].to_pylist()
                    for row, set_id in enumerate(set_ids):
                        places.setdefault(set_id, (group, row))
            if len(self._maps) > _MAPS_HELD:
                self._maps.popitem(last=False)
        return self._maps[shard]

    def _open(self, shard: int) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        assert self.store is not None  # a part without a store has no sets
        path = shard_path(self.store.folder, shard, "parquet")
        try:
            return pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise RecipeError(
                f"a finished shard cannot be read: {error}.",
                where=str(path),
                remedy="run the build again: a damaged shard is made again",
            ) from error


@dataclass(slots=True)
class _Finished:
    """What is remembered of a finished shard: little, for there may be many."""

    starts: int
    kept: list[str]
    content: str
    traces: list[Trace]


@dataclass(frozen=True)
class ShardBench:
    """Opens a part's steps on a device; it can be pickled, and travels to the worker."""

    part: Part
    subject: str
    context: Any
    attributes: list[str]
    plan: str
    offload: Offload = "none"

    def __call__(self, device: str) -> Callable[[tuple[int, list[SetRows]]], tuple[Ledger, bytes | None]]:
        """What makes shards, one after the other, with the models that the steps hold."""
        with offloading(self.offload):
            steps = self.part.steps(self.subject, device, self.context)

        def make(numbered: tuple[int, list[SetRows]]) -> tuple[Ledger, bytes | None]:
            """The ledger and the file (None for no set) of a shard, from its index and its starting sets."""
            started, (index, sets) = time.perf_counter(), numbered
            if doubled := [set_id for set_id, times in Counter(rows.set_id for rows in sets).items() if times > 1]:
                raise RecipeError(
                    f"set '{doubled[0]}' starts twice.",
                    where="the part's shards",
                    remedy="give every starting set of a subject its own set_id",
                )
            meter = Meter()
            traces = run_steps(steps, sets, meter)
            encoded = encode([rows for rows in sets if rows.drop is None])
            data = encoded.parquet
            ledger = Ledger(
                plan=self.plan,
                index=index,
                starts=starts_digest(sets),
                content=encoded.content,
                file=None if data is None else shard_path(Path(), index, "parquet").name,
                sha256=None if data is None else sha256_bytes(data),
                bytes=0 if data is None else len(data),
                attributes=self.attributes,
                counts=dict(sorted(meter.counts.items())),
                seconds=round(time.perf_counter() - started, 3),
                sets=[record_of(trace, rows, self.attributes) for trace, rows in zip(traces, sets, strict=True)],
            )
            return ledger, data

        return make


@dataclass
class PartBuild:
    """A part of a subject, made after what came before into a shard store.

    The prefix rule: a part is the shortest unbroken run of shards, from the first, that holds enough.
    """

    part: Part
    subject: str
    before: Chosen
    store: ShardStore
    attributes: list[str]
    watch: Watcher
    limit: int | None
    command: str
    offload: Offload = "none"
    shards: dict[int, _Finished] = field(default_factory=dict)
    prefix: int = 0
    started: int = 0
    kept: int = 0
    end: int | None = None
    total: int = 0

    def __post_init__(self) -> None:
        self.where = f"{self.subject}, part '{self.part.name}'"
        self.target = self.part.target_sets(self.subject)
        # a part that chooses by its traces has them held in memory
        self.chooses = type(self.part).choose is not Part.choose

    def run(self, engine: Engine | None) -> Chosen:
        """Make what is missing, and choose. Without an engine, raises RecipeError where something is missing."""
        self.store.open()
        number = None
        if not self.before.set_ids and self.target is None:  # for the time left: such starts are cheap, and have an end
            number = sum(1 for _ in islice(self._starts(), 1_000_000))
        self.watch.part(self.subject, self.part.name, wanted_sets=self.target, shards=number)
        tasks = self._tasks()
        if (first := next(tasks, None)) is not None:
            if engine is None:
                raise RecipeError(
                    f"part '{self.part.name}' of '{self.subject}' is not finished.",
                    where=str(self.store.folder),
                    remedy=f"build it first: `{self.command}`",
                )
            self._make(engine, chain([first], tasks))
        number = self.total if self.end is None else self.end
        missing = [index for index in range(number) if index not in self.shards]
        assert not missing, f"shards {missing} were neither found nor made"
        stocked = max(number, self.store.stocked)
        self.store.keep_first(stocked)
        chosen = self._choose([self.shards[index] for index in range(number)], stocked)
        if self.target is not None and self.kept < self.target and self.limit is None:
            self.watch.note(
                f"{self.where}: {self.kept:,} of {self.target:,} wanted sets were kept, and every starting set was "
                "tried; start from more, or be less strict"
            )
        return chosen

    def keep_equal(self, plan: Mapping[str, Any], engine: Engine) -> None:
        """Take over shards that other code of the recipe made, if the first of them, made again, has the same content.

        Nothing is done where more than the code has changed, or nothing is there to compare.
        """
        recorded = read_part(self.store.folder)
        was = recorded.get("depends_on")
        first = next(self.store.ledgers_of(str(recorded.get("plan"))), None)
        if first is None or not isinstance(was, dict) or was == plan or {**was, "code": plan["code"]} != plan:
            return
        sets = next(islice(self._starts(), first.index, None), [])
        again: list[Ledger] = []

        def done(_: Task, made: tuple[Ledger, bytes | None]) -> bool:
            again.append(made[0])
            return True

        engine.run(iter([Task(first.index, (first.index, sets))]), self._bench(), done)
        if (again[0].starts, again[0].content) == (first.starts, first.content):
            kept = self.store.take_over(recorded)
            self.watch.note(
                f"{self.where}: shard {first.index}, made again, is equal: the finished shards are kept ({kept:,})"
            )

    def _starts(self) -> Iterator[list[SetRows]]:
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

    def _tasks(self) -> Iterator[Task]:
        """What is still to be made, in order; shards that are there are noted on the way."""
        number = 0
        for index, sets in enumerate(self._starts()):
            if self.end is not None:
                return
            number = index + 1
            if index in self.shards:
                continue
            ledger = self.store.ledger(index, starts_digest(sets))
            if ledger is not None:
                self._note(ledger, found=True)
            else:
                yield Task(index, (index, sets))
        self.total = number

    def _make(self, engine: Engine, tasks: Iterator[Task]) -> None:
        self.store.write_facts({"complete": False, "stocked": self.store.stocked})

        def done(_: Task, made: tuple[Ledger, bytes | None]) -> bool:
            self.store.write(*made)
            self._note(made[0], found=False)
            return self.end is None

        engine.run(tasks, self._bench(), done)

    def _bench(self) -> ShardBench:
        context = self.part.context(self.subject, self.before)
        return ShardBench(self.part, self.subject, context, self.attributes, self.store.digest, self.offload)

    def _note(self, ledger: Ledger, found: bool) -> None:
        traces = [record.trace(self.subject) for record in ledger.sets] if self.chooses else []
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
                    where=self.where,
                    remedy="see with `fairgate build status` why they are dropped, and check models and limits",
                )

    def _choose(self, shards: list[_Finished], stocked: int) -> Chosen:
        shard_of: dict[str, int] = {}
        for index, shard in enumerate(shards):
            for set_id in shard.kept:
                if set_id in shard_of:
                    raise RecipeError(
                        f"set '{set_id}' is in two shards.",
                        where=self.where,
                        remedy="give every starting set of a subject its own set_id",
                    )
                shard_of[set_id] = index
        chosen = list(shard_of)
        if self.chooses:
            chosen = self.part.choose(self.subject, [trace for shard in shards for trace in shard.traces])
        odd = [set_id for set_id in chosen if set_id not in shard_of]
        if odd or len(set(chosen)) < len(chosen):
            raise RecipeError(
                f"'{odd[0]}' was chosen and not kept." if odd else "a set was chosen twice.",
                where=self.where,
                remedy="choose among the traces that are kept, each once",
            )
        link = digest({"chosen": chosen, "contents": [shard.content for shard in shards]})
        facts = {
            "complete": True,
            "shards": len(shards),
            "started": sum(shard.starts for shard in shards),
            "kept": len(shard_of),
            "chain": link,
            "chosen": chosen,
            "wanted": self.target,
            "stocked": stocked,
        }
        self.store.write_facts(facts)
        return Chosen(chosen, link, self.store, shard_of)
