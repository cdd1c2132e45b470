"""What a Ray crew makes of workers that die, without a cluster: the cluster's own tests are in tests/builds."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest

from fairgate.engines import Task, ray_engine
from fairgate.engines.local import WorkerLost, run_in_threads
from fairgate.engines.ray_engine import LIVES, _Crew, _Hand
from fairgate.ground.errors import RecipeError

TASK = Task(3, None, lambda *_: lambda _: None, "baker, part 'pool'")


class Died(Exception):
    """As Ray's RayActorError."""


class Room:
    """A cluster whose workers die with some words at some calls, and that has room for the first `room` of them."""

    def __init__(self, words: str, dies: Callable[[str, object], bool], *, room: int = 99) -> None:
        kinds = ("RayActorError", "WorkerCrashedError", "OutOfMemoryError", "ObjectLostError")
        other = type("Other", (Exception,), {})
        self.exceptions = SimpleNamespace(**dict.fromkeys(kinds, Died), RayTaskError=other)
        self.words, self.dies, self.room, self.hired = words, dies, room, list[object]()

    def get(self, answer: tuple[str, object]) -> object:
        if self.dies(*answer):
            raise Died(self.words)
        return answer

    def wait(self, answers: list[tuple[str, int]], timeout: float) -> tuple[list[Any], list[Any]]:
        placed = answers[0][1] < self.room
        time.sleep(0.0 if placed else min(timeout, 0.01))
        return (answers, []) if placed else ([], answers)

    def kill(self, worker: object) -> None: ...

    def remote(self, **_: object) -> Any:
        def hire(*_: object) -> Any:
            names, number = ("set_up", "work", "placed"), len(self.hired)
            calls = {name: SimpleNamespace(remote=lambda *_, name=name: (name, number)) for name in names}
            self.hired.append(SimpleNamespace(**calls))
            return self.hired[-1]

        return lambda _: SimpleNamespace(remote=hire)

    def hand(self, crew: _Crew | None = None) -> _Hand:
        return _Hand(self, False, crew or _Crew())  # type: ignore[arg-type]


def made(room: Room, tasks: list[Task], workers: int) -> dict[int, object]:
    """What `workers` of a cluster make of tasks."""
    results: dict[int, object] = {}
    crew, hands = _Crew(), list[_Hand]()

    def hire() -> _Hand:
        hands.append(room.hand(crew))
        return hands[-1]

    def leave() -> None:
        for hand in hands:
            hand.leave()

    def done(task: Task, result: Any) -> bool:
        results[task.index] = result
        return True

    run_in_threads(hire, workers, lambda: tasks.pop() if tasks else None, done, leave)
    return results


def test_a_worker_that_cannot_begin_is_named_at_once_with_its_reason() -> None:
    words = "The actor died because of an error raised in its creation task\nModuleNotFoundError: No module named 'x'\n"
    with pytest.raises(RecipeError, match="a worker could not begin: ModuleNotFoundError: No module named 'x'"):
        Room(words, lambda call, _: call == "set_up").hand()(TASK)


SHARD = r"at the same piece of work \(shard 3 of baker, part 'pool'\)"


@pytest.mark.parametrize(("at", "what"), [("work", SHARD), ("set_up", "while it set up its models")])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_task_that_loses_several_workers_ends_the_run_with_their_last_words(at: str, what: str, workers: int) -> None:
    room = Room("The actor is dead\nits owner ran out of memory", lambda call, _: call == at)
    with pytest.raises(RecipeError, match=f"3 workers were lost {what}") as refused:
        made(room, [TASK], workers)
    assert "its owner ran out of memory" in str(refused.value)
    assert len(room.hired) == LIVES


def test_a_worker_that_is_lost_once_is_replaced() -> None:
    room = Room("killed", lambda call, number: call == "work" and number == 0)
    assert made(room, [TASK], 1) == {3: ("work", 1)}


def test_where_the_cluster_has_no_room_for_a_replacement_the_others_make_its_task() -> None:
    room = Room("the node is gone", lambda call, number: call == "work" and number == 0, room=2)
    tasks = [Task(index, None, TASK.bench) for index in range(20)]
    results = made(room, tasks, 2)
    assert set(results) == set(range(20))
    assert set(results.values()) == {("work", 1)}


def test_a_worker_that_never_has_a_place_keeps_no_task_from_those_that_have() -> None:
    tasks = [Task(index, None, TASK.bench) for index in range(5)]
    results = made(Room("", lambda *_: False, room=1), tasks, 2)
    assert results == dict.fromkeys(range(5), ("work", 0))


@pytest.mark.parametrize("room", [0, 1], ids=["never had", "has lost"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_has_no_worker_for_long_ends_with_an_error(
    room: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "ROOM_PATIENCE", 0.0)
    cluster = Room("the node is gone", lambda call, _: call == "work", room=room)
    with pytest.raises(RecipeError, match="no worker of this run has had a place") as refused:
        made(cluster, [TASK], workers)
    assert "each worker needs a free CPU" in str(refused.value)


def test_a_worker_whose_run_has_ended_is_not_replaced() -> None:
    room = Room("killed", lambda call, _: call == "work")
    hand = room.hand()
    hand.leave()
    assert hand(TASK) is None
    assert len(room.hired) == 1


def test_losses_of_other_tasks_are_not_counted_together() -> None:
    turns = cycle([True, False])
    room = Room("killed", lambda call, _: call == "work" and next(turns))
    hand = room.hand()
    for index in range(2 * LIVES):
        task = Task(index, None, TASK.bench)
        with pytest.raises(WorkerLost):
            hand(task)
        hand(task)
