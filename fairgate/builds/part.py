"""One part of one subject: its shards made in any order, its content decided by their order alone.

The chosen sets are read from the shards on demand.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from fairgate.builds.recipes import Part
from fairgate.builds.shard_bench import ShardBench
from fairgate.builds.shard_store import Ledger, ShardStore, Watcher, read_part, shard_path, starts_digest
from fairgate.builds.shards import StoredSet, decode
from fairgate.builds.steps import SetRows, Trace
from fairgate.engines import Task
from fairgate.ground.errors import RecipeError
from fairgate.ground.hashing import digest
from fairgate.models.generation import Offload

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
    making: bool
    offload: Offload = "none"
    shards: dict[int, _Finished] = field(default_factory=dict)
    prefix: int = 0
    started: int = 0
    kept: int = 0
    end: int | None = None
    total: int | None = None

    def __post_init__(self) -> None:
        self.where = f"{self.subject}, part '{self.part.name}'"
        self.target = self.part.target_sets(self.subject)
        # a part that chooses by its traces has them held in memory
        self.chooses = type(self.part).choose is not Part.choose
        self._missing = self._unmade()
        self._running: dict[int, int] = {}  # shards that are being made, with their starting sets
        self._accepted = 0  # of all finished shards, also those after a gap
        self._bench: ShardBench | None = None
        self._makes = False

    def open(self) -> None:
        """Begin: what an earlier run made is found as `take` comes to it."""
        self.store.open()
        number = None
        if not self.before.set_ids and self.target is None:  # for the time left: such starts are cheap, and have an end
            number = sum(1 for _ in islice(self.starts(), 1_000_000))
        self.watch.part(self.subject, self.part.name, wanted_sets=self.target, shards=number)

    @property
    def finished(self) -> bool:
        """Whether no further shard is needed."""
        return self.end is not None or (self.total is not None and not self._running)

    def take(self, *, spare: bool) -> Task | None:
        """The next shard to make, if there is one. Without `spare` only one that is needed for certain: the sets that
        are kept, and all of those that are being made, would be too few.

        Raises RecipeError where nothing is to be made.
        """
        if not spare and self.target is not None and self._accepted + sum(self._running.values()) >= self.target:
            return None
        missing = next(self._missing, None)
        if missing is None:
            return None
        if not self.making:
            raise RecipeError(
                f"part '{self.part.name}' of '{self.subject}' is not finished.",
                where=str(self.store.folder),
                remedy=f"build it first: `{self.command}`",
            )
        if not self._makes:
            self._makes = True
            self.store.write_facts({"complete": False, "stocked": self.store.stocked})
        self._running[missing[0]] = len(missing[1])
        return self.task(*missing)

    def task(self, index: int, sets: list[SetRows]) -> Task:
        """To make one shard, whether it is there or not."""
        if self._bench is None:
            context = self.part.context(self.subject, self.before)
            self._bench = ShardBench(self.part, self.subject, context, self.attributes, self.store.digest, self.offload)
        return Task(index, (index, sets), self._bench, self.where)

    def owns(self, task: Task) -> bool:
        """Whether a task is one of this part's."""
        return task.bench is self._bench

    def add(self, task: Task, ledger: Ledger, data: bytes | None) -> None:
        """Store a shard that was made."""
        self.store.write(ledger, data)
        del self._running[task.index]
        self._note(ledger, found=False)

    def finish(self) -> Chosen:
        """Choose among the sets of a part that is finished."""
        number = self.end if self.end is not None else self.total
        assert number is not None
        missing = [index for index in range(number) if index not in self.shards]
        assert not missing, f"shards {missing} were neither found nor made"
        stocked = max(number, self.store.stocked)
        self.store.keep_first(stocked)
        chosen = self._choose([self.shards[index] for index in range(number)], stocked)
        self.watch.end(self.subject, self.part.name)
        if self.target is not None and self.kept < self.target and self.limit is None:
            self.watch.note(
                f"{self.where}: {self.kept:,} of {self.target:,} wanted sets were kept, and every starting set was "
                "tried; start from more, or be less strict"
            )
        self.before.let_go()
        return chosen

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

    def _unmade(self) -> Iterator[tuple[int, list[SetRows]]]:
        """What is still to be made, in order; shards that are there are noted on the way."""
        number = 0
        for index, sets in enumerate(self.starts()):
            if self.end is not None:
                return
            number = index + 1
            ledger = self.store.ledger(index, starts_digest(sets))
            if ledger is not None:
                self._note(ledger, found=True)
            else:
                yield index, sets
        self.total = number

    def _note(self, ledger: Ledger, found: bool) -> None:
        traces = [record.trace(self.subject) for record in ledger.sets] if self.chooses else []
        self.shards[ledger.index] = shard = _Finished(len(ledger.sets), ledger.kept_ids, ledger.content, traces)
        self._accepted += len(shard.kept)
        images = sum(len(each.members) for each in ledger.sets if each.kept)
        self.watch.shard(self.subject, self.part.name, ledger, images=images, found=found)
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


@dataclass
class FirstShardAgain:
    """The first shard with a kept set of a part that other code of the recipe made, to be made again: if its content is
    the same, and so is what was noted of its sets, the part's shards are taken over."""

    build: PartBuild
    recorded: Mapping[str, Any]
    first: Ledger
    taken: bool = False
    finished: bool = False

    def __post_init__(self) -> None:
        self.part, self.before, self.owns = self.build.part, self.build.before, self.build.owns

    @classmethod
    def of(cls, build: PartBuild, plan: Mapping[str, Any]) -> Self | None:
        """None where more than the code has changed, or nothing is there to compare."""
        recorded = read_part(build.store.folder)
        was = recorded.get("depends_on")
        first = next((each for each in build.store.ledgers_of(str(recorded.get("plan"))) if each.kept_ids), None)
        if first is None or not isinstance(was, dict) or was == plan or {**was, "code": plan["code"]} != plan:
            return None
        return cls(build, recorded, first)

    def take(self, *, spare: bool) -> Task | None:
        """The one shard."""
        if self.taken or spare:
            return None
        self.taken = True
        return self.build.task(self.first.index, next(islice(self.build.starts(), self.first.index, None), []))

    def add(self, _: Task, again: Ledger, __: bytes | None) -> None:
        """Compare, and take over."""
        self.finished = True
        fields = {"starts", "content", "sets"}
        if again.model_dump_json(include=fields) == self.first.model_dump_json(include=fields):
            kept = self.build.store.take_over(self.recorded, self.first)
            same = f"shard {again.index}, made again, is equal: the finished shards are kept ({kept:,})"
            self.build.watch.note(f"{self.build.where}: {same}")
