"""Where a run's time goes: spans of its phases, as sums and as a trace in Chrome's format, which Perfetto opens.

Nothing is measured unless a recording is on. A span holds no `yield` of a generator: other phases run there.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final

MOST_EVENTS: Final = 100_000
"""Spans that a trace keeps, 12 MB; later ones are in the sums alone."""


@dataclass(slots=True)
class Phase:
    """How often a phase ran, and its seconds in the thread that recorded and in others; without phases inside of it."""

    calls: int = 0
    seconds: float = 0.0
    elsewhere: float = 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """One run of a phase: start and length in seconds from the beginning of the recording, and the thread."""

    name: str
    start: float
    seconds: float
    thread: int


@dataclass(eq=False)
class Recording:
    """Spans of one run, from its beginning to its end after `seconds` (0 while it is on)."""

    seconds: float = 0.0
    phases: dict[str, Phase] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    threads: dict[int, str] = field(default_factory=dict)
    _began: float = field(default_factory=time.perf_counter)
    _own: int = field(default_factory=threading.get_ident)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _inner: threading.local = field(default_factory=threading.local)

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """A span around the block."""
        siblings = getattr(self._inner, "seconds", 0.0)
        self._inner.seconds = 0.0
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            self._add(Span(name, start - self._began, seconds, threading.get_ident()), seconds - self._inner.seconds)
            self._inner.seconds = siblings + seconds

    def _add(self, span: Span, alone: float) -> None:
        with self._lock:
            phase = self.phases.setdefault(span.name, Phase())
            phase.calls += 1
            if span.thread == self._own:
                phase.seconds += alone
            else:
                phase.elsewhere += alone
            if len(self.spans) < MOST_EVENTS:
                self.spans.append(span)
                self.threads.setdefault(span.thread, threading.current_thread().name)

    def end(self) -> None:
        """Take no more time."""
        self.seconds = time.perf_counter() - self._began

    def trace(self) -> str:
        """The spans in the Trace Event Format: complete events in microseconds, each thread on a track of its own."""
        process, tracks = os.getpid(), {thread: track for track, thread in enumerate(self.threads, start=1)}
        names = [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": tracks[thread], "args": {"name": name}}
            for thread, name in self.threads.items()
        ]
        events = [
            {
                **{"name": span.name, "cat": "fairgate", "ph": "X", "pid": process, "tid": tracks[span.thread]},
                **{"ts": round(span.start * 1e6, 1), "dur": round(span.seconds * 1e6, 1)},
            }
            for span in self.spans
        ]
        return json.dumps({"traceEvents": [*names, *events], "displayTimeUnit": "ms"})


_ON: list[Recording] = []
_OFF: Final = nullcontext()


def span(name: str) -> AbstractContextManager[None]:
    """A span around the block, if a recording is on."""
    return _ON[-1].measured(name) if _ON else _OFF


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record the spans of the block, in whichever thread."""
    recording = Recording()
    _ON.append(recording)
    try:
        yield recording
    finally:
        _ON.remove(recording)
        recording.end()
