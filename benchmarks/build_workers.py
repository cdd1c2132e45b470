"""How busy the workers of a cluster are during a build: the build's own code, with time that is simulated.

    python -m benchmarks.build_workers [--workers 64]
    python -m benchmarks.build_workers --measure occupations-embedded chef pilot

Subjects, parts, shards, the end of a part and the order of work are those of `fairgate.builds`, which writes shards and
ledgers as always; sets are numbers instead of pictures. The engine below stands for Ray's: it takes tasks as
`run_in_threads` does, and a clock of its own says when which worker is free. The driver's clock goes on by the time of
its processor, and by the time to store pictures of that size. A shard takes the mean time of its part times a number
drawn from MEASURED over their mean. "in series" is the order up to 0.2: a part of a subject at a time, models opened
for each, and what still runs at its end killed.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fairgate.builds import Factory, read_build
from fairgate.builds.recipes import Before, Part, Recipe, RecipeSettings
from fairgate.builds.steps import Drop, SetRows, Step
from fairgate.engines import Engine, Task, Work
from fairgate.engines.local import opened


@dataclass(frozen=True)
class Shape:
    """A part of one subject: its shards, the sets of each, the share that is kept, the pictures of a set and their
    side, seconds of a shard; the part of MEASURED whose spread it has; the kept sets that end it."""

    shards: int
    sets: int
    kept: float
    pictures: int
    side: int
    seconds: float
    like: str
    target: int | None = None


MEASURED = {
    "pool": (1.01, 1.01, 1.03, 0.94, 0.95, 0.74, 0.71, 0.93, 0.83, 0.77, 0.70, 0.73, 0.71, 0.76, 0.75, 0.78, 0.81),
    "sets": (3.17, 3.23, 3.22, 3.01, 2.95, 2.97, 2.83, 2.89, 3.01, 3.10, 2.97, 3.17, 3.26),
    "social": (7.39, 6.57, 6.28, 6.35, 6.54, 6.27, 6.54, 6.61),
}
"""Processor seconds of the demonstration's shards, by `--measure`: how much shards of one part differ."""

PICTURE = {"sd15": 3.05 / 8 / 50, "sdxl": 12.4 / 8 / 40}
"""Seconds of a picture and a sampling step on an H100, in batches of 8: docs/evidence/cost.md."""
OPENING = 30.0
"""Seconds to open the models of a part: stated, not measured."""
BYTES, DISK = 329e3 / 512**2, 265e6
"""Bytes of a stored pixel, and of a second of a disk: docs/evidence/scale.md."""

RECIPES: dict[str, tuple[int, dict[str, Shape]]] = {
    # as published: 4 prefixes, 100 attempts at 12 members each, 100 steps
    "social_counterfactuals": (258, {"sets": Shape(16, 25, 0.5, 12, 512, 25 * 12 * 100 * PICTURE["sd15"], "social")}),
    # as published: 7,500 pictures of 50 steps; 28 steps for each of 4 variants
    "occupations": (
        5,
        {
            "pool": Shape(938, 8, 0.5, 1, 1024, 8 * 50 * PICTURE["sdxl"], "pool"),
            "sets": Shape(250, 8, 0.75, 4, 1024, 8 * 4 * 28 * PICTURE["sdxl"], "sets", target=1200),
        },
    ),
}


class DrawnSettings(RecipeSettings):
    """Nothing but what every recipe has."""


@dataclass(frozen=True)
class KeepShare:
    """Keeps a share of the sets, drawn."""

    share: float
    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()

    def judge(self, rows: SetRows) -> Drop | None:
        """Dropped for no reason but chance."""
        return None if rows.stream("keep").random() < self.share else Drop("drawn")


class DrawnPart(Part):
    """A part of this shape."""

    def __init__(self, name: str, shape: Shape) -> None:
        super().__init__(DrawnSettings())
        self.name = name  # type: ignore[misc] # a class of its own for each would say no more
        self.shape = shape

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """Sets without members."""
        for shard in range(self.shape.shards):
            names = [f"{subject}-{self.name}-{shard}-{number}" for number in range(self.shape.sets)]
            yield [SetRows(name, subject, ("drawn", name)) for name in names]

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        """One."""
        return [KeepShare(self.shape.kept)]

    def target_sets(self, subject: str) -> int | None:
        """That of the shape."""
        return self.shape.target


class Drawn(Recipe):
    """A recipe whose parts have these shapes."""

    name: ClassVar[str] = "drawn"
    paper: ClassVar[str] = "none"
    Settings = DrawnSettings
    counterfactual = False

    def __init__(self, subjects: int, shapes: Mapping[str, Shape]) -> None:
        super().__init__(DrawnSettings())
        self._subjects, self._shapes = subjects, shapes

    def parts(self) -> Sequence[Part]:
        """In their order."""
        return [DrawnPart(name, shape) for name, shape in self._shapes.items()]

    def subjects(self) -> list[str]:
        """Numbered."""
        return [f"subject {number}" for number in range(self._subjects)]

    def attributes(self) -> Mapping[str, Sequence[str]]:
        """None."""
        return {}

    def models(self) -> Mapping[str, str]:
        """None."""
        return {}


class SimulatedCluster(Engine):
    """Workers on a clock of their own; a task is made at once, and its result handed over when its time has come."""

    name = "simulated"

    def __init__(self, workers: int, *, mixed: bool) -> None:
        self.workers, self.mixed = workers, mixed
        self.busy = self.opening = self.wasted = 0.0
        self.opened = self.made = self.stored = 0
        self.now = 0.0

    def room(self) -> int:
        """All of them."""
        return self.workers

    def run(self, take: Callable[[], Task | None], done: Callable[[Task, Any], bool]) -> None:
        """As `run_in_threads`, with one task more than there are workers in its queue."""
        free = list(range(self.workers))
        has = dict.fromkeys(free)  # the bench or the part that a worker has its models open for
        running: list[tuple[float, int, int, Task, float]] = []
        queued: list[tuple[float, Task]] = []
        more, bench = True, None

        def start(worker: int, at: float, task: Task) -> None:
            part: DrawnPart = task.bench.part  # type: ignore[attr-defined]
            key = part.name if self.mixed else task.bench
            begin = at + (OPENING if has[worker] != key else 0.0)
            self.opened += has[worker] != key
            self.opening += begin - at
            has[worker] = key
            draw = random.Random(f"{task.of}/{task.index}")
            self.made += 1
            measured = MEASURED[part.shape.like]
            seconds = part.shape.seconds * draw.choice(measured) * len(measured) / sum(measured)
            heapq.heappush(running, (begin + seconds, self.made, worker, task, seconds))

        while more:
            while len(running) + len(queued) <= self.workers and (task := self._driver(take)) is not None:
                if not self.mixed and task.bench is not bench:
                    self._kill(running, queued, free)
                    bench = task.bench
                if free:
                    start(free.pop(), self.now, task)
                else:
                    queued.append((self.now, task))
            if not running:
                break
            end, _, worker, task, seconds = heapq.heappop(running)
            self.busy += seconds
            if queued:
                put, following = queued.pop(0)
                start(worker, max(end, put), following)
            else:
                free.append(worker)
            shape: Shape = task.bench.part.shape  # type: ignore[attr-defined]
            stored = shape.sets * shape.kept * shape.pictures * shape.side**2 * BYTES
            self.now = max(self.now, end) + stored / DISK
            made = task.bench("cpu", None)(task.payload)
            more = self._driver(lambda made=made, task=task: done(task, made))

    def _driver(self, act: Callable[[], Any]) -> Any:
        begin = time.process_time()
        result = act()
        self.now += time.process_time() - begin
        return result

    def _kill(self, running: list[Any], queued: list[Any], free: list[int]) -> None:
        """End what a part does not need any more."""
        for end, _, worker, _, seconds in running:
            self.busy += max(0.0, seconds - (end - self.now))
            free.append(worker)
        running.clear()
        queued.clear()


def simulate(recipe: str, workers: int, *, mixed: bool) -> dict[str, float | int | str]:
    """One build with so many workers, in a folder that is thrown away."""
    number, shapes = RECIPES[recipe]
    cluster = SimulatedCluster(workers, mixed=mixed)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        Factory("drawn", Drawn(number, shapes), Path(folder)).build(cluster)
        stored = len(list(Path(folder).rglob("shard-*.json")))
    whole = cluster.now * workers
    return {
        "recipe": recipe,
        "subjects": "at once" if mixed else "in series",
        "busy": f"{cluster.busy / whole:.1%}",
        "opening models": f"{cluster.opening / whole:.1%}",
        "models opened": cluster.opened,
        "shards": stored,
        "in vain": cluster.made - stored,
        "hours": round(cluster.now / 3600, 2),
    }


class Timed(Engine):
    """One worker, and the processor time of every shard and every opening by part."""

    name, mixed = "timed", False

    def __init__(self) -> None:
        self.shards, self.openings = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)

    def room(self) -> int:
        """One."""
        return 1

    def run(self, take: Callable[[], Task | None], done: Callable[[Task, Any], bool]) -> None:
        """In order."""
        work: Work | None = None
        bench, more = None, True
        while more and (task := take()) is not None:
            part, begin = task.bench.part.name, time.process_time()  # type: ignore[attr-defined]
            if work is None or task.bench is not bench:
                bench, work = task.bench, opened(task.bench, "cpu", work)
                self.openings[part].append(round(time.process_time() - begin, 3))
                begin = time.process_time()
            made = work(task.payload)
            self.shards[part].append(round(time.process_time() - begin, 3))
            more = done(task, made)


def measure(name: str, subjects: Sequence[str]) -> None:
    """Print the times of a demonstration build."""
    engine = Timed()
    with tempfile.TemporaryDirectory() as folder:
        Factory(name, read_build(name), Path(folder)).build(engine, subjects)
    print(json.dumps({"shards": engine.shards, "openings": engine.openings}))


def main() -> None:
    """Print a table, or what was measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--measure", nargs="+", metavar="NAME", help="a build of params.yaml, and subjects")
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], options.measure[1:])
        return
    for recipe in RECIPES:
        for mixed in (False, True):
            row = simulate(recipe, options.workers, mixed=mixed)
            if (recipe, mixed) == (next(iter(RECIPES)), False):
                print("| " + " | ".join(row) + " |\n|" + "---|" * len(row))
            shown = [f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()]
            print("| " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
