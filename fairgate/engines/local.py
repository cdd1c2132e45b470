"""The engine of one machine: a thread per worker, each on its device, in this process.

Models are opened one after the other, before the first worker begins: diffusers and transformers change torch for the
whole process while they load (parameters on no device, another default type). Every operation computes on one thread:
sums then have one order, however many workers there are.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import chain, islice
from typing import Any

from fairgate.engines.contract import Bench, Task, Work

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

    name = "local"

    def __init__(self, devices: Sequence[str] = ("cpu",)) -> None:
        if not devices:
            raise ValueError("an engine needs at least one device")
        self.devices = tuple(devices)

    def run(self, tasks: Iterable[Task], bench: Bench, done: Callable[[Task, Any], bool]) -> None:
        """Run tasks until they are used up or `done` returns False; whatever went wrong in a worker is raised here."""
        one_thread_each()
        if len(self.devices) > 1:
            _Threads(self.devices, iter(tasks), bench).run(done)
            return
        work: Work | None = None
        for task in tasks:
            work = work or opened(bench, self.devices[0])
            if not done(task, work(task.payload)):
                return

    def close(self) -> None:
        """There is nothing to let go of."""


def opened(bench: Bench, device: str) -> Work:
    """A worker with its models on a device, computing on one thread: see `one_thread_each`."""
    one_thread_each()
    work = bench(device)
    one_thread_each()
    return work


class _Threads:
    """Threads that work off a queue and report to the calling thread, which alone takes tasks and calls `done`."""

    def __init__(self, devices: Sequence[str], tasks: Iterator[Task], bench: Bench) -> None:
        first = list(islice(tasks, len(devices)))
        self._tasks = chain(first, tasks)
        self._stop = threading.Event()
        self._given: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[tuple[Task, Future[Any]]] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._labour, args=(work,), name=f"fairgate-{number}", daemon=True)
            for number, work in enumerate([opened(bench, device) for device in devices[: len(first)]])
        ]

    def run(self, done: Callable[[Task, Any], bool]) -> None:
        for thread in self._threads:
            thread.start()
        hurried = True
        try:
            self._hand_out(done)
            hurried = False  # the next run finds memory free
        finally:
            self._stop.set()
            for _ in self._threads:
                self._given.put(None)
            end = time.monotonic() + GRACE
            for thread in self._threads:
                thread.join(max(0.0, end - time.monotonic()) if hurried else None)

    def _hand_out(self, done: Callable[[Task, Any], bool]) -> None:
        waited_for = 0
        while True:
            while waited_for <= len(self._threads) and (task := next(self._tasks, None)) is not None:
                self._given.put(task)  # one more than there are workers: none waits while a result is stored
                waited_for += 1
            if not waited_for:
                return
            task, outcome = self._outcomes.get()
            waited_for -= 1
            if not done(task, outcome.result()):
                return

    def _labour(self, work: Work) -> None:
        one_thread_each()
        while (task := self._given.get()) is not None and not self._stop.is_set():
            outcome: Future[Any] = Future()
            try:
                outcome.set_result(work(task.payload))
            except BaseException as error:  # raised again by `run`, in the calling thread
                outcome.set_exception(error)
            self._outcomes.put((task, outcome))
