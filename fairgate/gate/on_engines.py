"""One record from the workers of an engine (`check --engine ray`): each scores a shard; this process decides."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from fairgate import models
from fairgate.engines import Engine, Task, open_engine
from fairgate.gate.evaluation import Evaluation, evaluate
from fairgate.gate.model_runs import Progress
from fairgate.gate.parts import ENTRIES, ReadPart, ScoredPart, evaluate_parts, score_shard
from fairgate.gate.preparation import Prepared
from fairgate.ground.errors import FairgateError
from fairgate.ground.spans import span
from fairgate.suites import Settings


class WorkersTrouble(Exception):
    """What ended the scoring: `error`, for the record."""

    def __init__(self, error: FairgateError) -> None:
        super().__init__(str(error))
        self.error = error


def evaluate_on(
    engine: str, workers: int | None, prepared: Prepared, settings: Settings, *, progress: Progress | None = None
) -> Evaluation:
    """Evaluate as every check does, on what the workers of an engine (`ray`) scored: as many shards as workers, so
    that each opens a model once, and this process none. Numbers that the cache here has are not made again where a
    worker has them too, and new ones are kept in it. Trouble of a worker makes a record with verdict `error`.

    Raises SettingsError and DeviceError for an engine that cannot be had.
    """
    with tempfile.TemporaryDirectory(prefix="fairgate-", ignore_cleanup_errors=True) as scratch:
        try:
            with span("workers"), closing(open_engine(engine, workers=workers, device=settings.device)) as crew:
                parts = _scored(crew, prepared, settings, Path(scratch), progress)
        except WorkersTrouble as trouble:
            return evaluate(replace(prepared, trouble=trouble.error), settings, progress=progress)
        return evaluate_parts(parts, prepared, settings, progress=progress, user=settings.cache)


def _scored(
    crew: Engine, prepared: Prepared, settings: Settings, scratch: Path, progress: Progress | None
) -> list[ReadPart]:
    """The parts that the workers score, in order, in folders below `scratch`. Raises WorkersTrouble."""
    count, parts = crew.room(), list[ReadPart]()

    def done(task: Task, scored: tuple[ScoredPart, dict[str, bytes]]) -> bool:
        part, files = scored
        folder = scratch / str(task.index)
        for name, content in files.items():
            path = folder / ENTRIES / f"{name}.safetensors"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        parts.append(ReadPart(folder, part))
        if progress is not None:
            progress("shards scored", len(parts), count)
        return True

    bench = partial(_worker, prepared, settings, models.known_names(settings.cache))
    tasks = (Task(number, (number, count), bench) for number in range(1, count + 1))
    try:
        crew.run(partial(next, tasks, None), done)
    except FairgateError as error:
        raise WorkersTrouble(error) from error
    return sorted(parts, key=lambda read: read.part.shard)


def _worker(
    prepared: Prepared, settings: Settings, known: Collection[str], device: str, _: object
) -> Callable[[tuple[int, int]], tuple[ScoredPart, dict[str, bytes]]]:
    """A worker, which scores one shard at a time: the part, and its files by name."""
    settings = replace(settings, device=device)

    def work(shard: tuple[int, int]) -> tuple[ScoredPart, dict[str, bytes]]:
        with tempfile.TemporaryDirectory(prefix="fairgate-", ignore_cleanup_errors=True) as scratch:
            part = score_shard(prepared, settings, shard, Path(scratch), known=known)
            return part, {name: (Path(scratch) / f"{name}.safetensors").read_bytes() for name in part.entries}

    return work
