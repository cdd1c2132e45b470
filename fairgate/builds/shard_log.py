"""The log of a finished shard, next to its sets, and what a build reports while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from fairgate.hashing import digest
from fairgate.steps import Drop, SetRows, Trace

MAX_BYTES = 1 << 28


class _Logged(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class SetRecord(_Logged):
    """The outcome of one starting set: accepted (`reason` is None), or dropped for a reason.

    `also` are members that failed like `member`. `groups[m]` are member m's groups, one per attribute of the ledger;
    None where it had none yet.
    """

    set_id: str
    step: str | None = None
    reason: str | None = None
    measured: float | None = None
    limit: float | None = None
    member: str | None = None
    also: list[str] = []
    numbers: dict[str, float] = {}
    members: list[str] = []
    groups: list[list[str | None]] = []

    @property
    def kept(self) -> bool:
        """Whether no step dropped it."""
        return self.reason is None

    def trace(self, subject: str) -> Trace:
        """As `Part.choose` sees it."""
        why = (self.measured, self.limit, self.member, tuple(self.also))
        drop = None if self.reason is None else Drop(self.reason, *why)
        return Trace(self.set_id, subject, self.step, drop, self.numbers, tuple(self.members))


class Ledger(_Logged):
    """A finished shard. `starts` is the digest of the starting sets; `file` is None where all were dropped.

    `seconds` is the time that a worker took. It is no part of the content.
    """

    plan: str
    index: int
    starts: str
    content: str
    file: str | None
    sha256: str | None
    bytes: int
    attributes: list[str]
    counts: dict[str, int]
    seconds: float
    sets: list[SetRecord]

    @property
    def kept_ids(self) -> list[str]:
        """Ids of the accepted sets, in stored order."""
        return [record.set_id for record in self.sets if record.kept]


def starts_digest(sets: list[SetRows]) -> str:
    """The name of a shard's starting sets."""
    return digest([rows.set_id for rows in sets])


def record_of(trace: Trace, rows: SetRows, attributes: list[str]) -> SetRecord:
    """A trace with the groups of its members, as far as they are known by then."""
    drop = trace.drop
    return SetRecord(
        set_id=trace.set_id,
        step=trace.step,
        reason=drop.reason if drop else None,
        measured=None if drop is None or drop.measured is None else float(drop.measured),
        limit=None if drop is None or drop.limit is None else float(drop.limit),
        member=drop.member if drop else None,
        also=list(drop.also) if drop else [],
        numbers=trace.numbers,
        members=list(trace.members),
        groups=[[_text(row.get(name)) for name in attributes] for row in rows.rows] if attributes else [],
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def read_ledger(path: Path) -> Ledger | None:
    """The ledger in a file, or None for what is none: absent, cut short, of another form."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        return Ledger.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


class Watcher(Protocol):
    """Receives the progress of a build: every part that begins, every finished shard."""

    def part(self, subject: str, part: str, *, wanted_sets: int | None, shards: int | None) -> None:
        """A part begins. It ends with `wanted_sets` accepted sets or after `shards`; None where that is not known."""
        ...

    def shard(self, ledger: Ledger, *, images: int, found: bool) -> None:
        """A shard is finished: `images` in its accepted sets; `found` where an earlier run had made it."""
        ...

    def note(self, text: str) -> None:
        """A sentence that the one who builds should read."""
        ...


class Quiet(Watcher):
    """A watcher that reports nothing."""
