"""Shards of all subjects are one queue of work: what is built does not depend on who makes a shard, or when."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nightly import some
from toy_recipe import Toy, ToySettings

from fairgate.builds import Factory
from fairgate.builds.opening import open_model
from fairgate.builds.part import Chosen
from fairgate.builds.shard_bench import ShardBench
from fairgate.data import Manifest
from fairgate.engines import Engine, Task, open_engine

SUBJECTS = ("baker", "car mechanic", "pilot", "doctor")


class Cluster(Engine):
    """As a cluster: workers that finish in any order. Notes what was being made at every moment; `last` is the most
    shards that it makes before it is interrupted."""

    name, mixed = "cluster", True

    def __init__(self, workers: int, last: int | None = None) -> None:
        self.workers, self.left, self.made, self.moments = workers, last, list[Task](), list[list[Task]]()

    def room(self) -> int:
        return self.workers

    def run(self, take: Callable[[], Task | None], done: Callable[[Task, Any], bool]) -> None:
        draw, running, more = random.Random(self.workers), list[Task](), True
        while more:
            while len(running) <= self.workers and (task := take()) is not None:
                running.append(task)
            if not running:
                return
            if len(self.made) == self.left:
                raise KeyboardInterrupt
            self.moments.append(list(running))
            task = running.pop(draw.randrange(min(len(running), self.workers)))
            self.made.append(task)
            more = done(task, task.bench("cpu", None)(task.payload))


def built(engine: Engine, out: Path, **settings: Any) -> Manifest:
    small = {"candidates": 20, "pool": 12, "sets": 5, **settings}
    return Factory("toys", Toy(ToySettings(subjects=SUBJECTS, **small)), out).assemble(engine)


def subject_of(task: Task) -> str:
    return task.of.partition(",")[0]


@pytest.fixture(scope="module")
def in_series(tmp_path_factory: pytest.TempPathFactory) -> str:
    return built(open_engine("local", device="cpu"), tmp_path_factory.mktemp("series")).fingerprint


@pytest.mark.parametrize("workers", some([1, 2, 4, 64], few=2))
def test_any_number_of_workers_in_any_order_builds_what_one_worker_builds(
    workers: int, in_series: str, tmp_path: Path
) -> None:
    cluster = Cluster(workers)
    assert built(cluster, tmp_path).fingerprint == in_series
    at_once = max(len({subject_of(task) for task in moment}) for moment in cluster.moments)
    assert min(workers, 2) <= at_once <= workers
    stored = len(list(tmp_path.rglob("shard-*.json")))
    if workers == 1:
        assert len(cluster.made) == stored
    if workers == 64:
        assert len(cluster.made) > stored  # what comes late is not stored


def test_pictures_of_few_parts_are_in_memory_however_many_subjects_have_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, most, read = list[Chosen](), 0, Chosen._group

    def group(chosen: Chosen, shard: int, number: int) -> Any:
        nonlocal most
        table = read(chosen, shard, number)
        reading.extend([] if chosen in reading else [chosen])
        most = max(most, sum(bool(each._groups) for each in reading))
        return table

    monkeypatch.setattr(Chosen, "_group", group)
    cluster = Cluster(64)
    built(cluster, tmp_path)
    assert most <= 2  # that of the shard before is let go once this one is read
    assert max(len({subject_of(task) for task in moment}) for moment in cluster.moments) > 2


def test_no_shard_is_made_in_vain_while_subjects_wait(tmp_path: Path) -> None:
    cluster = Cluster(2)
    built(cluster, tmp_path)
    first = [task for task in cluster.made if subject_of(task) == SUBJECTS[0]]
    assert len(first) == len(list(tmp_path.rglob(f"{SUBJECTS[0]}/*/shard-*.json")))


@pytest.mark.parametrize("made", [3, 20])
def test_a_build_that_is_interrupted_among_subjects_goes_on_with_what_was_stored(
    made: int, in_series: str, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        built(Cluster(4, last=made), tmp_path)
    assert len(list(tmp_path.rglob("shard-*.json"))) == made
    second = Cluster(2)
    assert built(second, tmp_path).fingerprint == in_series
    whole = Cluster(2)
    built(whole, tmp_path / "whole")
    assert len(second.made) <= len(whole.made) - made + 2


def test_a_worker_opens_a_model_once_for_all_subjects_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[tuple[str, str]]()

    class Opening:
        def __init__(self, name: str) -> None:
            self.name = name

        def steps(self, _: str, device: str, __: object) -> list[Any]:
            return [open_model("painter", f"{self.name}:model", device=device) for _ in range(2)]

    monkeypatch.setattr(
        "fairgate.models.generation.open_model", lambda _, uri, device: opened.append((uri, device)) or object()
    )
    work = None
    for part in ("pool", "pool", "pool", "sets", "sets"):
        work = ShardBench(Opening(part), "baker", None, [], "plan")("cuda:1", work)  # type: ignore[arg-type]
    assert opened == [("pool:model", "cuda:1"), ("sets:model", "cuda:1")]
    other = ShardBench(Opening("sets"), "baker", None, [], "plan")("cpu", None)  # type: ignore[arg-type]
    assert other
    assert opened[2:] == [("sets:model", "cpu")]
