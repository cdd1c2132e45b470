"""The engine of a cluster: Ray actors hold the models, the driver alone writes.

Plain actors and not Ray Data: a shard is a task as a whole, and the rule that ends a part and the checkpoints stay in
one place, the same for every engine.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from fairgate.engines.local import Bench, Task, Work, WorkerLost, opened, run_in_threads
from fairgate.ground.errors import DeviceError, RecipeError, SettingsError, harmless
from fairgate.version import __version__

LIVES = 3
"""How often a task may lose its worker before the build is given up: it is likely the task that kills it."""

PATIENCE = 10.0
"""Seconds in which the cluster must answer."""
START_PATIENCE = 120
"""Seconds that a Ray of our own may take to start: on a busy machine its many processes need more than Ray's 30."""
ROOM_PATIENCE = 600.0
"""Seconds that a run without a worker waits until the cluster has room for one: a machine may be on its way."""


class RayEngine:
    """Runs tasks on actors: one GPU each where the cluster has GPUs, else one CPU.

    `RAY_ADDRESS` names an existing cluster; without it a local one is started, and stopped at the end. `workers` is
    None for as many as the cluster has room for. All machines need the same fairgate, and the files of the models
    under the same paths. The task of a worker that is lost goes to the others; the worker is replaced as soon as the
    cluster has room for one, which is later if its machine was lost.
    """

    name, mixed = "ray", True

    def __init__(self, *, workers: int | None = None, device: str = "auto") -> None:
        self.workers = workers
        self.device = device
        self._own = False
        if device not in ("auto", "cpu", "cuda"):
            raise DeviceError(
                f"on Ray no single device can be chosen, and '{device}' was.",
                where="--device",
                remedy="use auto, cpu or cuda: Ray gives each worker a GPU of its own",
            )
        _ray()

    def room(self) -> int:
        """How many workers the cluster, which is joined, has room for: `workers` at most."""
        ray = _ray()
        if not ray.is_initialized():
            _connect(ray, self.workers)
            self._own = True
        room = max(_room(ray, self.device)[1], 1)
        return min(self.workers or room, room)

    def run(self, take: Callable[[], Task | None], done: Callable[[Task, Any], bool]) -> None:
        """Run tasks until there are none or `done` returns False; what went wrong in a worker is raised here."""
        waiting, hands, crew = [take()], list[_Hand](), _Crew()
        if waiting == [None]:
            return
        room, ray = self.room(), _ray()
        on_gpu = _room(ray, self.device)[0]

        def hire() -> _Hand:
            hands.append(_Hand(ray, on_gpu, crew))
            return hands[-1]

        def leave() -> None:
            for hand in hands:
                hand.leave()

        run_in_threads(hire, room, lambda: waiting.pop() if waiting else take(), done, leave)

    def close(self) -> None:
        """Leave the cluster; end it where this engine started it."""
        if self._own:
            _ray().shutdown()
            self._own = False


class _Worker:
    """Lives in a process of its own, somewhere in the cluster."""

    def __init__(self, device: str, folder: str, version: str) -> None:
        if Path(folder).is_dir():
            os.chdir(folder)  # relative paths of models are the driver's
        self._device = device
        self._expected = version
        self._work: Work | None = None

    def set_up(self, bench: Bench) -> None:
        """Open what a bench needs, in place of what the bench before needed."""
        if __version__ != self._expected:
            raise SettingsError(
                f"a worker has fairgate {__version__}, and this is {self._expected}.",
                where="the Ray cluster",
                remedy="install the same version on all machines: shards of two versions are not mixed",
            )
        self._work = opened(bench, self._device, self._work)

    def placed(self) -> None:
        """Answer: the cluster had room for this worker."""

    def work(self, payload: Any) -> Any:
        assert self._work is not None  # nobody gives tasks to a worker that is not ready
        return self._work(payload)


@dataclass
class _Crew:
    """What the hands of a run know of each other: which have a worker, and how many workers each task lost."""

    placed: set[_Hand] = field(default_factory=set)
    lost: Counter[int] = field(default_factory=Counter)


class _Hand:
    """A worker of the cluster, set up anew by a task of another bench. One that is lost is replaced; when the run ends
    it is ended with it."""

    def __init__(self, ray: ModuleType, on_gpu: bool, crew: _Crew) -> None:
        self._ray, self._on_gpu, self._crew = ray, on_gpu, crew
        self._worker = self._hired()
        self._bench: Bench | None = None
        self._left = False

    def __call__(self, task: Task) -> Any:
        """What the worker makes of a task. Raises WorkerLost if it is lost with it, or has no place while others have
        one; RecipeError if it cannot begin, or if this task has lost several."""
        errors = self._ray.exceptions
        lost = (errors.RayActorError, errors.WorkerCrashedError, errors.OutOfMemoryError, errors.ObjectLostError)
        if self not in self._crew.placed and not self._has_place(beside_others=False):
            raise WorkerLost(self._replaced)  # others may leave no room for this one: its task would never be made
        try:
            if self._bench is not task.bench:
                self._ray.get(self._worker.set_up.remote(task.bench))
                self._bench = task.bench
            made = self._ray.get(self._worker.work.remote(task.payload))
            self._crew.lost.pop(id(task), None)
            return made
        except errors.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from error
        except lost as error:
            if self._left:
                return None  # the run has ended, and nobody waits
            self._crew.lost[id(task)] += 1
            self._replace(task, error, last=self._crew.lost[id(task)] == LIVES)
            raise WorkerLost(self._replaced) from error

    def leave(self) -> None:
        """End the worker, whatever it is at."""
        self._left = True
        self._ray.kill(self._worker)

    def _hired(self) -> Any:
        resources = {"num_gpus": 1, "num_cpus": 0} if self._on_gpu else {"num_cpus": 1}
        actor = self._ray.remote(max_restarts=0, max_task_retries=0, **resources)(_Worker)
        return actor.remote("cuda" if self._on_gpu else "cpu", str(Path.cwd()), __version__)

    def _replace(self, task: Task, error: Exception, *, last: bool) -> None:
        self._ray.kill(self._worker)
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        why = harmless(lines[-1][:300]) if lines else type(error).__name__
        if "creation task" in str(error):
            raise RecipeError(
                f"a worker could not begin: {why}",
                where="Ray: the worker's start",
                remedy="install the same fairgate, with what it needs, on all machines of the cluster",
            ) from error
        if last:
            work = f"at the same piece of work (shard {task.index}{f' of {task.of}' if task.of else ''})"
            what = work if self._bench is task.bench else "while it set up its models"
            raise RecipeError(
                f"{LIVES} workers were lost {what}.",
                where=f"Ray: {type(error).__name__}: {why}",
                remedy="see Ray's logs; often memory ran out: use fewer --workers, or a smaller `shard_sets` of builds",
            ) from error
        self._worker, self._bench = self._hired(), None

    def _replaced(self) -> None:
        """Return when the cluster has room for the worker that was hired, or the run ends."""
        self._crew.placed.discard(self)
        self._has_place(beside_others=True)

    def _has_place(self, *, beside_others: bool) -> bool:
        """True when the cluster has room for the worker that was hired, or the run ends. Unless it is to wait
        `beside_others`, False if another worker has a place and this one has none. Raises RecipeError if no worker of
        the run has had any for ROOM_PATIENCE."""
        answer, since = self._worker.placed.remote(), time.monotonic()
        while not self._ray.wait([answer], timeout=1.0)[0] and not self._left:
            if self._crew.placed:
                if not beside_others:
                    return False
                since = time.monotonic()
            elif time.monotonic() - since > ROOM_PATIENCE:
                raise RecipeError(
                    f"no worker of this run has had a place in the cluster for {ROOM_PATIENCE:.0f} s.",
                    where="the Ray cluster",
                    remedy=f"each worker needs a free {'GPU' if self._on_gpu else 'CPU'} (see `ray status`): end other "
                    "jobs or start machines, and repeat the command: finished work is not made again",
                )
        self._crew.placed.add(self)
        return True


def _ray() -> ModuleType:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's coming default, which it warns of
    try:
        import ray
    except ImportError as error:
        raise SettingsError(
            "the engine 'ray' needs Ray, which is not installed.",
            where="--engine ray",
            remedy="pip install 'fairgate[ray]', or use --engine local",
        ) from error
    return ray  # type: ignore[no-any-return] # Ray is untyped


def _connect(ray: ModuleType, workers: int | None) -> None:
    """Join the cluster of RAY_ADDRESS, or start one on this machine."""
    address = os.environ.get("RAY_ADDRESS")
    try:
        if address:
            host, colon, port = address.removeprefix("ray://").rpartition(":")
            if colon and port.isdigit():  # without a listener Ray itself would try for minutes
                socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        else:
            cpus = max(workers or 1, os.cpu_count() or 1)
            os.environ.setdefault("RAY_raylet_start_wait_time_s", str(START_PATIENCE))
            ray.init("local", num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray raises a plain one where its own processes are too slow
        raise SettingsError(
            f"Ray cannot be reached: {error}.",
            where=f"RAY_ADDRESS={address}" if address else "a Ray of our own",
            remedy="check that it runs (`ray status`) and, where it requires a token, set RAY_AUTH_MODE=token; "
            "or unset RAY_ADDRESS for a local one",
        ) from error


def _room(ray: ModuleType, device: str) -> tuple[bool, int]:
    """Whether workers get GPUs, and how many the cluster can hold."""
    resources = ray.cluster_resources()
    gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 0))
    if device == "cuda" and not gpus:
        raise DeviceError("the Ray cluster has no GPU.", where="--device cuda", remedy="use --device cpu")
    return (True, gpus) if gpus and device != "cpu" else (False, cpus)
