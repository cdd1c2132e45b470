"""One queue of work for all subjects of a build: which shard a worker takes next, over subjects and their parts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

from fairgate.builds.part import Chosen, FirstShardAgain, PartBuild
from fairgate.builds.shard_store import Ledger
from fairgate.engines import Task

Parts = Generator[PartBuild | FirstShardAgain, None, Chosen]
"""The parts of one subject: each is begun when the one before is finished; returns what the last one chose."""


class ShardQueue:
    """Shards of several subjects (`mixed`; else of one after the other), no more than there are workers (`room`): what
    a shard holds does not depend on their order.

    The next shard is, in this order, one of the part that was taken last (workers have its models open), of a subject
    that has not begun, of another part; and only where a worker has nothing to do, one that its part may not need.
    """

    def __init__(self, subjects: Mapping[str, Parts], room: Callable[[], int], *, mixed: bool) -> None:
        self.chosen: dict[str, Chosen] = {}
        self._coming = dict(subjects)
        self._begun: dict[str, tuple[Parts, PartBuild | FirstShardAgain]] = {}
        self._room, self._mixed = room, mixed
        self._running = 0
        self._last: PartBuild | FirstShardAgain | None = None

    def take(self) -> Task | None:
        """The next shard to make; None where there is none before another one is finished."""
        part = self._last.part.name if self._last else ""
        begun = list(self._begun)
        same = [subject for subject in begun if self._begun[subject][1].part.name == part]
        for subject in same:
            if (task := self._of(subject, spare=False)) is not None:
                return task
        while self._coming and (not self._begun or (self._mixed and len(self._begun) < self._room())):
            subject = next(iter(self._coming))
            self._advance(subject, self._coming.pop(subject))
            if (task := self._of(subject, spare=False)) is not None:
                return task
        for spare in (False, True):
            if spare and self._running and self._running >= self._room():
                break
            for subject in list(self._begun):
                if (task := self._of(subject, spare=spare)) is not None:
                    return task
        return None

    def done(self, task: Task, made: tuple[Ledger, bytes | None]) -> bool:
        """Take in a finished shard, unless its part has ended without it; False where no subject is left."""
        self._running -= 1
        for subject, (parts, making) in list(self._begun.items()):
            if making.owns(task):
                making.add(task, *made)
                if making.finished:
                    self._advance(subject, parts)
        return bool(self._begun or self._coming)

    def _of(self, subject: str, *, spare: bool) -> Task | None:
        """The next shard of a subject; parts that turn out to be finished are left behind."""
        while subject in self._begun:
            parts, making = self._begun[subject]
            task = making.take(spare=spare)
            if task is not None:
                if self._last is not None and self._last is not making:
                    self._last.before.let_go()  # pictures of one part at a time are in memory
                self._last = making
                self._running += 1
                return task
            if not making.finished:
                return None
            self._advance(subject, parts)
        return None

    def _advance(self, subject: str, parts: Parts) -> None:
        try:
            self._begun[subject] = parts, next(parts)
        except StopIteration as ended:
            self._begun.pop(subject, None)
            self.chosen[subject] = ended.value
