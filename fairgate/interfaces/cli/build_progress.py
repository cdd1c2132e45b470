"""The lines that a build prints while it runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from fairgate import builds
from fairgate.ground.errors import harmless

_COLUMNS = (
    SpinnerColumn(),
    TextColumn("{task.description}"),
    BarColumn(bar_width=20),
    TextColumn("{task.fields[summary]}"),
    TimeElapsedColumn(),
)

EVERY = 60.0
"""Seconds between two lines about one part where there is no terminal."""


class BuildProgress:
    """A line per part: in a terminal it moves; elsewhere one about every minute. One stays when the part ends."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._bar = Progress(*_COLUMNS, console=self._console, disable=not self._console.is_terminal)
        self._lines: dict[tuple[str, str], tuple[_Line, TaskID]] = {}
        self._printed = clock()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        for subject, part in list(self._lines):
            self.end(subject, part)
        self._bar.stop()

    def part(self, subject: str, part: str, *, wanted_sets: int | None, shards: int | None) -> None:
        """A line for a part that begins."""
        line = _Line(harmless(f"{subject} {part}"), wanted_sets, shards, self._clock)
        if not self._lines:
            self._printed = self._clock()
        self._lines[subject, part] = line, self._bar.add_task(escape(line.name), total=line.total, summary="")

    def shard(self, subject: str, part: str, ledger: builds.Ledger, *, images: int, found: bool) -> None:
        """Move the part's line, or print it where the last one is old."""
        line, task = self._lines[subject, part]
        line.add(ledger, images, found)
        self._bar.update(task, completed=line.done, summary=escape(line.summary()))
        if self._bar.disable and self._clock() - self._printed >= EVERY:
            self._print(line, line.summary())

    def note(self, text: str) -> None:
        """A sentence above the lines."""
        self._console.print(escape(harmless(text)))

    def end(self, subject: str, part: str) -> None:
        """The last line of a part."""
        line, task = self._lines.pop((subject, part))  # before anything else: an interrupt here ends no part twice
        self._bar.remove_task(task)  # of many bars a terminal shows the first ones alone
        self._print(line, line.summary(ended=True))

    def _print(self, line: _Line, summary: str) -> None:
        self._console.print(escape(f"{line.name}: {summary}"))
        self._printed = self._clock()


class _Line:
    """Progress of one part."""

    def __init__(self, name: str, wanted: int | None, shards: int | None, clock: Callable[[], float]) -> None:
        self.name = name
        self._wanted, self._shards = wanted, shards
        self._clock, self._since = clock, clock()
        self._finished = self._found = self._kept = self._fresh = self._images = 0
        self._seconds = 0.0
        self._reasons: Counter[str] = Counter()

    @property
    def total(self) -> int | None:
        """In finished sets where a number is wanted, else in shards."""
        return self._wanted if self._wanted is not None else self._shards

    @property
    def done(self) -> int:
        """Of `total`."""
        return self._kept if self._wanted is not None else self._finished

    def add(self, ledger: builds.Ledger, images: int, found: bool) -> None:
        """Count a shard. Rates are of made ones: what it took to find others is no part of them."""
        before, since, self._since = self.done, self._since, self._clock()
        self._finished += 1
        self._kept += sum(record.kept for record in ledger.sets)
        self._reasons.update(record.reason for record in ledger.sets if record.reason is not None)
        if found:
            self._found += 1
        else:
            self._images += images
            self._fresh += self.done - before
            self._seconds += self._since - since

    def summary(self, *, ended: bool = False) -> str:
        """One line of words; of what has ended, no time left."""
        reused = f" ({self._found} found)" if self._found else ""
        drops = ", ".join(f"{reason} {count:,}" for reason, count in self._reasons.most_common(4))
        of = f" of {self._wanted:,}" if self._wanted is not None else ""
        words = [f"{self._finished:,} shards{reused}", f"{self._kept:,}{of} sets kept"]
        words += [f"dropped: {drops}"] if drops else []
        words += [f"{self._images / self._seconds:.2f} images/s"] if self._images and self._seconds else []
        left = None if ended else self._left()
        return "; ".join(words + ([f"about {left} left"] if left else []))

    def _left(self) -> str | None:
        if self.total is None or not self._fresh or self.done >= self.total:
            return None
        left = int((self.total - self.done) * self._seconds / self._fresh)
        return f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
