"""What an engine is (tasks in, results out, in any order; it knows nothing of recipes or files), and the local one.

The local one has a thread per worker, each on its device, in this process. Models are opened one after the other, while
no worker is at work: diffusers and transformers change torch for the whole process while they load (parameters on no
device, another default type). Every operation computes on one thread: sums then have one order, however many workers
there are.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

Work = Callable[[Any], Any]
"""Turns a task's payload into its result. It lives in one worker and keeps that worker's models."""

Bench = Callable[[str, Work | None], Work]
"""Sets up a worker on a device ("cpu", "cuda:0", "mps"): opens models there, or takes over those of the work that the
worker did before (None: it is new). It and its payloads can be pickled."""


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work, for workers that a bench sets up. What comes out must depend on the payload alone.

    `index` orders the tasks `of` something, which messages name.
    """

    index: int
    payload: Any
    bench: Bench
    of: str = ""


class WorkerLost(Exception):
    """A worker was lost with a task, which the others can make; `replaced` waits until another worker is in its place.

    It raises an error that ends the run if there is none.
    """

    def __init__(self, replaced: Callable[[], None]) -> None:
        super().__init__("a worker was lost")
        self.replaced = replaced


class Engine(Protocol):
    """Runs tasks on workers. Exceptions of the work and of `done` stop the run and reach the caller.

    With `mixed`, workers may be set up for different benches at the same time; else all wait when the bench changes.
    """

    name: str
    mixed: bool

    def room(self) -> int:
        """How many workers there can be."""

    def run(self, take: Callable[[], Task | None], done: Callable[[Task, Any], bool]) -> None:
        """Take tasks, a few ahead of what is running; call `done(task, result)`, in this process, as results come in.

        `take` returns None where no task can begin before another result is in; if none is running either, the run
        ends. Once `done` returns False no further task is taken; those that run are finished or abandoned.
        """

    def close(self) -> None:
        """Let go of what is held between runs (a cluster). Called once, at the end."""


_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread_each() -> None:
    """Let BLAS, OpenMP and torch compute on the calling thread alone, from here on, in this process.

    Libraries that are loaded later read it from the environment; those already loaded are set directly. A worker calls
    it before it opens models and after: a model may have imported torch.
    """
    from threadpoolctl import threadpool_limits

    for variable in _VARIABLES:
        os.environ[variable] = "1"
    threadpool_limits(limits=1)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


GRACE = 5.0
"""Seconds that running tasks get to end once a run is interrupted; then they are left behind, and count as not done."""


class LocalEngine:
    """Runs tasks in this process. `devices` names one device per worker: ("cpu", "cpu") are two workers.

    A single worker runs in the calling thread. More take tasks as they come free; libraries that hold Python's lock for
    long gain little from them, GPUs and torch much.
    """

    name, mixed = "local", False

    def __init__(self, devices: Sequence[str] = ("cpu",)) -> None:
        if not devices:
            raise ValueError("an engine needs at least one device")
        self.devices = tuple(devices)

    def room(self) -> int:
        """One worker per device."""
        return len(self.devices)

    def run(self, take: Callable[[], Task | None], done: Callable[[Task, Any], bool]) -> None:
        """Run tasks until there are none or `done` returns False; whatever went wrong in a worker is raised here."""
        one_thread_each()
        works: list[Work | None] = [None] * len(self.devices)
        waiting, more = _Waiting(take), True

        def note(task: Task, result: Any) -> bool:
            nonlocal more
            more = done(task, result)
            return more

        while more and (first := waiting.first(len(self.devices))):
            crew = [
                opened(bench, device, last) for bench, device, last in zip(first, self.devices, works, strict=False)
            ]
            works[: len(crew)] = crew
            if len(self.devices) == 1:
                while more and (task := waiting.take()) is not None:
                    note(task, crew[0](task.payload))
            else:
                run_in_threads(map(_alone, crew).__next__, len(crew), waiting.take, note)

    def close(self) -> None:
        """There is nothing to let go of."""


class _Waiting:
    """Tasks of one bench, up to the first of another."""

    def __init__(self, take: Callable[[], Task | None]) -> None:
        self._source = take
        self._tasks: list[Task] = []
        self.bench: Bench | None = None

    def first(self, number: int) -> list[Bench]:
        """The bench of each of the next tasks, `number` at most, up to another one; `take` returns them."""
        while len(self._tasks) < number and (task := self._source()) is not None:
            self._tasks.append(task)
            if task.bench is not self._tasks[0].bench:
                break
        self.bench = self._tasks[0].bench if self._tasks else None
        return [task.bench for task in self._tasks if task.bench is self.bench]

    def take(self) -> Task | None:
        if not self._tasks and (task := self._source()) is not None:
            self._tasks.append(task)
        return self._tasks.pop(0) if self._tasks and self._tasks[0].bench is self.bench else None


def opened(bench: Bench, device: str, last: Work | None = None) -> Work:
    """A worker with its models on a device, computing on one thread: see `one_thread_each`."""
    one_thread_each()
    work = bench(device, last)
    one_thread_each()
    return work


def _alone(work: Work) -> Callable[[Task], Any]:
    """The work of a thread: torch counts threads by the one that calls it."""

    def make(task: Task) -> Any:
        one_thread_each()
        return work(task.payload)

    return make


def run_in_threads(
    hire: Callable[[], Callable[[Task], Any]],
    room: int,
    take: Callable[[], Task | None],
    done: Callable[[Task, Any], bool],
    leave: Callable[[], None] = lambda: None,
) -> None:
    """A thread for each worker, `room` at most, hired as there are tasks: they work off a queue and report to the
    calling thread, which alone takes tasks and calls `done`. `leave` is called when no further result is wanted, before
    the threads are waited for."""
    stop = threading.Event()
    given: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
    outcomes: queue.SimpleQueue[tuple[Task, Future[Any]]] = queue.SimpleQueue()

    def labour(worker: Callable[[Task], Any]) -> None:
        while (task := given.get()) is not None and not stop.is_set():
            outcome: Future[Any] = Future()
            try:
                try:
                    outcome.set_result(worker(task))
                except WorkerLost as lost:
                    given.put(task)
                    lost.replaced()
                    continue
            except BaseException as error:  # raised again in the calling thread
                outcome.set_exception(error)
            outcomes.put((task, outcome))

    threads: list[threading.Thread] = []
    waited_for, hurried, more = 0, True, True
    try:
        while more:
            while waited_for <= room and (task := take()) is not None:
                given.put(task)  # one more than there are workers: none waits while a result is stored
                waited_for += 1
                if len(threads) < min(waited_for, room):
                    name = f"fairgate-{len(threads)}"
                    threads.append(threading.Thread(target=labour, args=(hire(),), name=name, daemon=True))
                    threads[-1].start()
            if not waited_for:
                break
            finished, outcome = outcomes.get()
            waited_for -= 1
            more = done(finished, outcome.result())
        hurried = False  # the next run finds memory free
    finally:
        stop.set()
        leave()
        for _ in threads:
            given.put(None)
        end = time.monotonic() + GRACE
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()) if hurried else None)
