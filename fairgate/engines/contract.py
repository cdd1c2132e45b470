"""What an engine is: tasks in, results out, in any order; it knows nothing of recipes or files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

Work = Callable[[Any], Any]
"""Turns a task's payload into its result. It lives in one worker and keeps that worker's models."""

Bench = Callable[[str], Work]
"""Sets up a worker on a device ("cpu", "cuda:0", "mps"): opens models there. It and its payloads can be pickled."""


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work. `index` orders tasks; what comes out must depend on the payload alone."""

    index: int
    payload: Any


class Engine(Protocol):
    """Runs tasks on workers. Exceptions of the work and of `done` stop the run and reach the caller."""

    name: str

    def run(self, tasks: Iterable[Task], bench: Bench, done: Callable[[Task, Any], bool]) -> None:
        """Take tasks lazily and in order, a few ahead of what is running; call `done(task, result)`, in this process.

        Once `done` returns False no further task is taken; those that run are finished or abandoned.
        """

    def close(self) -> None:
        """Let go of what is held between runs (a cluster). Called once, at the end."""
