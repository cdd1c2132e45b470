"""What a worker does: a shard's starting sets through the steps, and the result as bytes for the one who writes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairgate.builds.shard_log import SetRecord, record_of
from fairgate.builds.shards import encode
from fairgate.errors import RecipeError
from fairgate.recipes import Part
from fairgate.steps import Meter, SetRows, Step, run_steps


@dataclass(frozen=True, slots=True)
class MadeShard:
    """A finished shard: the file's bytes (None for no set), the outcome of every starting set, the work it took."""

    parquet: bytes | None
    content: str
    records: list[SetRecord]
    counts: Counter[str]
    seconds: float


@dataclass(frozen=True)
class ShardBench:
    """Opens a part's steps on a device; it can be pickled, and travels to the worker."""

    part: Part
    subject: str
    context: Any
    attributes: tuple[str, ...]

    def __call__(self, device: str) -> ShardWork:
        return ShardWork(self.part.steps(self.subject, device, self.context), list(self.attributes))


@dataclass(frozen=True)
class ShardWork:
    """Makes shards, one after the other, with the models that its steps hold."""

    steps: Sequence[Step]
    attributes: list[str]

    def __call__(self, sets: list[SetRows]) -> MadeShard:
        """All starting sets through all steps. Raises RecipeError where ids of sets are not different."""
        started = time.perf_counter()
        _require_different(sets)
        meter = Meter()
        traces = run_steps(self.steps, sets, meter)
        kept = [rows for rows in sets if rows.drop is None]
        encoded = encode(kept)
        records = [record_of(trace, rows, self.attributes) for trace, rows in zip(traces, sets, strict=True)]
        seconds = time.perf_counter() - started
        return MadeShard(encoded.parquet, encoded.content, records, meter.counts, seconds)


def _require_different(sets: list[SetRows]) -> None:
    doubled = [set_id for set_id, times in Counter(rows.set_id for rows in sets).items() if times > 1]
    if doubled:
        raise RecipeError(
            f"set '{doubled[0]}' starts twice.",
            where="the part's shards",
            remedy="give every starting set of a subject its own set_id",
        )
