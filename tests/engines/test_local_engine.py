"""The local engine: tasks in order, a few ahead; one device per worker; whatever goes wrong is raised to the caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from fairgate.engines import Task, open_engine
from fairgate.engines.local import LocalEngine
from fairgate.ground.errors import DeviceError, ModelError, SettingsError

DEVICES = [("cpu",), ("cpu", "cpu", "cpu")]


class Bench:
    """Squares numbers; knows which devices were set up, and in which threads."""

    def __init__(self) -> None:
        self.devices: list[str] = []
        self.threads: set[int] = set()

    def __call__(self, device: str, _: object) -> Any:
        self.devices.append(device)
        return self.square

    def square(self, number: int) -> int:
        self.threads.add(threading.get_ident())
        return number * number


def tasks(number: int, bench: Any, taken: list[int] | None = None) -> Callable[[], Task | None]:
    def each() -> Iterator[Task]:
        for index in range(number):
            if taken is not None:
                taken.append(index)
            yield Task(index, index, bench)

    return partial(next, each(), None)


@pytest.mark.parametrize("devices", DEVICES)
def test_every_task_is_done_once_and_its_result_handed_to_the_calling_thread(devices: tuple[str, ...]) -> None:
    done: dict[int, int] = {}
    callers = set()

    def note(task: Task, result: int) -> bool:
        assert task.index not in done
        done[task.index] = result
        callers.add(threading.get_ident())
        return True

    bench = Bench()
    LocalEngine(devices).run(tasks(50, bench), note)
    assert done == {index: index * index for index in range(50)}
    assert callers == {threading.get_ident()}
    assert len(bench.devices) <= len(devices)


@pytest.mark.parametrize("devices", DEVICES)
def test_tasks_are_taken_a_few_ahead_and_no_more_once_there_is_enough(devices: tuple[str, ...]) -> None:
    taken: list[int] = []
    seen: list[int] = []

    def note(task: Task, result: int) -> bool:
        assert len(taken) <= len(seen) + len(devices) + 1
        seen.append(task.index)
        return len(seen) < 10

    LocalEngine(devices).run(tasks(10**9, Bench(), taken), note)
    assert len(seen) == 10
    assert taken == list(range(len(taken)))


@pytest.mark.parametrize("devices", DEVICES)
def test_errors_of_the_bench_of_the_work_and_of_the_caller_end_the_run(devices: tuple[str, ...]) -> None:
    def no_model(device: str, last: object) -> Any:
        raise ModelError("no model.", remedy="make one")

    def bad_work(device: str, last: object) -> Any:
        return lambda _: 1 // 0

    def bad_note(task: Task, result: int) -> bool:
        raise KeyError("the disk is full")

    engine = LocalEngine(devices)
    for bench, note, error in (
        (no_model, lambda *_: True, ModelError),
        (bad_work, lambda *_: True, ZeroDivisionError),
        (Bench(), bad_note, KeyError),
    ):
        with pytest.raises(error):
            engine.run(tasks(5, bench), note)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fairgate-")]


def test_models_are_opened_one_after_the_other_before_anybody_works() -> None:
    """While they load, libraries change torch for the whole process."""
    told: list[str] = []

    def bench(device: str, last: object) -> Any:
        told.append(f"begins {device}")
        time.sleep(0.02)
        told.append(f"ends {device}")
        return lambda _: told.append("works")

    LocalEngine(("a", "b", "c")).run(tasks(5, bench), lambda *_: True)
    assert told == [f"{what} {device}" for device in "abc" for what in ("begins", "ends")] + ["works"] * 5


@pytest.mark.parametrize("devices", DEVICES)
def test_where_the_bench_changes_every_worker_is_set_up_anew_while_none_works(devices: tuple[str, ...]) -> None:
    told: list[str] = []

    def bench(name: str, device: str, last: Any) -> Any:
        told.append(f"{name} {last('of') if last else 'new'}")
        return lambda payload: name if payload == "of" else told.append(f"{name} works") or time.sleep(0.002)

    benches = [partial(bench, name) for name in "ab"]
    given = iter([Task(index, index, benches[index // 7]) for index in range(14)])
    LocalEngine(devices).run(partial(next, given, None), lambda *_: True)
    number = len(devices)
    assert told == ["a new"] * number + ["a works"] * 7 + ["b a"] * number + ["b works"] * 7


@pytest.mark.parametrize("devices", DEVICES)
def test_tasks_that_come_only_after_a_result_are_done(devices: tuple[str, ...]) -> None:
    bench, done, left = Bench(), list[int](), [3, 2, 1]

    def note(task: Task, result: int) -> bool:
        done.append(result)
        return True

    def take() -> Task | None:
        return Task(0, left.pop(), bench) if left and len(done) == 3 - len(left) else None

    LocalEngine(devices).run(take, note)
    assert done == [1, 4, 9]


def test_no_more_models_are_opened_than_there_are_tasks() -> None:
    bench = Bench()
    LocalEngine(("a", "b", "c")).run(tasks(2, bench), lambda *_: True)
    assert bench.devices == ["a", "b"]


def test_an_interrupted_run_waits_for_all_its_workers_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairgate.engines.local.GRACE", 1.0)
    free = threading.Event()

    def work(number: int) -> int:
        return 0 if number == 0 else int(free.wait(30))

    def interrupted(task: Task, result: Any) -> bool:
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        LocalEngine(("cpu",) * 8).run(tasks(20, lambda *_: work), interrupted)
    assert time.monotonic() - started < 6  # one GRACE, not eight
    free.set()


def test_nothing_is_set_up_where_there_is_nothing_to_do() -> None:
    bench = Bench()
    LocalEngine().run(tasks(0, bench), lambda *_: True)
    assert bench.devices == []


def test_torch_computes_on_one_thread_in_every_worker() -> None:
    import torch

    before = torch.get_num_threads()
    found: list[int] = []

    def bench(device: str, last: object) -> Any:
        return lambda _: torch.get_num_threads()

    torch.set_num_threads(2)
    try:
        for devices in DEVICES:
            LocalEngine(devices).run(tasks(6, bench), lambda _, result: found.append(result) is None)
    finally:
        torch.set_num_threads(before)
    assert found == [1] * 12


def test_an_engine_is_opened_by_name_with_a_device_per_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_engine("local", workers=3, device="cpu")
    assert isinstance(engine, LocalEngine)
    assert engine.devices == ("cpu", "cpu", "cpu")
    monkeypatch.setattr("fairgate.models.checkpoints.device.cuda_generations", lambda: [9, 9])
    monkeypatch.setattr("fairgate.models.checkpoints.cuda_generations", lambda: [9, 9])
    monkeypatch.setattr("fairgate.models.checkpoints.device.torch_is_built_for_cuda", lambda: True)
    assert open_engine().devices == ("cuda:0", "cuda:1")  # type: ignore[attr-defined]
    assert open_engine(device="cuda", workers=1).devices == ("cuda:0",)  # type: ignore[attr-defined]
    assert open_engine(device="cuda:1").devices == ("cuda:1",)  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match="3 workers need as many GPUs, and 2 are to be used"):
        open_engine(workers=3)


def test_an_engine_that_there_is_not_is_refused_with_its_name() -> None:
    with pytest.raises(SettingsError, match="did you mean 'ray'"):
        open_engine("rya")
    with pytest.raises(SettingsError, match="at least one worker"):
        open_engine(workers=0)
    with pytest.raises(ValueError, match="at least one device"):
        LocalEngine(())


def test_without_ray_the_engine_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingsError, match=r"pip install 'fairgate\[ray\]'"):
        open_engine("ray")
