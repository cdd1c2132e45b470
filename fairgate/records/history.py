"""Earlier runs of a suite, and the series that their numbers form: what history pages and sparklines are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

RULE: Final = (
    "A number moved if it differs between two consecutive runs, of the same dataset and question, by more than both "
    "intervals allow together: √(a² + b²), where a and b lead from each number to the end of its interval that is "
    "nearer to the other number."
)


RESULTS, SCORES = "results.json", "scores.parquet"
"""The two files of a saved record."""


@dataclass(frozen=True, slots=True)
class RecordFiles:
    """A record's files on this disk. `commit` is where git had them, `origin` how errors name them."""

    results: Path
    scores: Path
    commit: str | None = None
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What a check measured; numbers with the same `digest` can be compared on the same dataset."""

    metric: str
    better: str | None
    rule: str
    against: str | None
    digest: str
    k: int | None = None

    @property
    def held(self) -> bool:
        """Whether the number itself is held to a bound, and not its change to a margin."""
        return self.rule in ("at_least", "at_most")


@dataclass(frozen=True, slots=True)
class PastRun:
    """A finished run. `height` counts the commits that led to it, `model` is the checkpoint's fingerprint; what the run
    did not know is None. `weights` and `other_architecture` are its record's."""

    run_id: str
    created_at: str
    started_ms: int
    commit: str | None
    branch: str | None
    height: int | None
    dirty: bool
    pull_request: str | None
    verdict: str
    dataset: str
    fingerprint: str
    model: str | None
    notice: str | None
    metrics: Mapping[str, float]
    questions: Mapping[str, Question]
    weights: int | None = None
    other_architecture: bool = False


@dataclass(frozen=True, slots=True)
class PastValue:
    """What one run measured of one item (`check.item`), in the unit of its metric, where dataset and question are the
    same.

    `commit` None: the run was of no commit. `value` None: it measured nothing. `created_at` is ISO. `model` is the
    checkpoint's fingerprint, None where it is not known.
    """

    commit: str | None
    created_at: str
    item: str
    value: float | None
    lo: float | None
    hi: float | None
    bound: float | None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """What one run measured of an item, in the unit of its metric. `place` counts the runs of the whole history.

    `shared`: runs of several checkpoints have the commit of this one, so that the commit does not identify it. `cut`
    says why the numbers before cannot be compared with this one; None where they can. `anchor` is the number of the
    suite's anchor in that run; None if it was compared with none. The number of a comparison in groups is that of
    `group`; if the run before has another group's, `regrouped` says so and `earlier` is what it measured of this one.
    """

    run: PastRun
    place: int
    value: float
    lo: float | None
    hi: float | None
    bound: float | None
    shared: bool = False
    cut: str | None = None
    anchor: float | None = None
    group: str | None = None
    regrouped: str | None = None
    earlier: Point | None = None


def steps(points: Sequence[Point]) -> list[tuple[Point, Point]]:
    """Each point with what the run before measured of the same; left out if the two cannot be compared."""
    return [
        (after.earlier or before, after)
        for before, after in pairwise(points)
        if after.cut is None and (after.regrouped is None or after.earlier is not None)
    ]


@dataclass(frozen=True, slots=True)
class Move:
    """A change from `before` to `after` of more than `allowed`. `unseen` commits between them were not measured; None
    where that is not known, or where the two runs differ in more than their commits."""

    before: Point
    after: Point
    delta: float
    allowed: float
    unseen: int | None

    @property
    def same_commit(self) -> bool:
        """Whether both runs are of one commit, which then explains nothing."""
        return self.before.run.commit is not None and self.before.run.commit == self.after.run.commit

    @property
    def same_model(self) -> bool:
        """Whether both runs are of one checkpoint."""
        return self.before.run.model is not None and self.before.run.model == self.after.run.model

    @property
    def by_commit(self) -> bool:
        """Whether the commit is what changed, as far as is known: not where an untracked checkpoint did."""
        untracked = not self.same_model and (self.before.shared or self.after.shared)
        return not self.same_commit and not untracked


@dataclass(frozen=True, slots=True)
class Series:
    """One item over the runs, oldest first. `drift`: since the last cut it went further than intervals allow, in steps
    of which none did. `without` are runs of the same check that have no finite number of the item."""

    item: str
    question: Question
    points: tuple[Point, ...]
    moves: tuple[Move, ...]
    drift: Move | None
    without: tuple[Point, ...] = ()

    @property
    def unjudged(self) -> list[Point]:
        """Points whose number differs from the one before, where one of the two has no interval."""
        return [
            after
            for before, after in steps(self.points)
            if before.value != after.value and None in (before.lo, before.hi, after.lo, after.hi)
        ]

    @property
    def stretches(self) -> list[list[Point]]:
        """The points between cuts."""
        segments: list[list[Point]] = []
        for point in self.points:
            if point.cut is not None or not segments:
                segments.append([])
            segments[-1].append(point)
        return segments


@dataclass(frozen=True, slots=True)
class History:
    """A suite's series. `by_commit`: runs are in the order of their commits, else of time. `repeats` are items that
    are left out because they measure, of the same subject, what another item does; `others` are runs that are left out
    because another architecture is another product."""

    suite: str
    runs: tuple[PastRun, ...]
    series: tuple[Series, ...]
    by_commit: bool
    repeats: tuple[str, ...] = ()
    others: tuple[PastRun, ...] = ()
