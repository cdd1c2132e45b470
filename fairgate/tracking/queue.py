"""Runs that MLflow did not take wait in a folder until `fairgate push` sends them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from fairgate.errors import TrackingError
from fairgate.records import RunRecord
from fairgate.tracking import content
from fairgate.tracking.runs import DEFAULT_URI, log_run
from fairgate.tracking.session import redact, sqlite_path

DEFAULT_QUEUE = Path(".fairgate/queue")

_RECORD = "record.json"
_FILES = "files"


@dataclass(frozen=True, slots=True)
class LogOutcome:
    """What became of a run: its id in MLflow, or the folder where it waits; `message` says which, for a person."""

    run_id: str | None
    queued: Path | None
    message: str


@dataclass(frozen=True, slots=True)
class Pushed:
    """One waiting run after a push: `run_id` when MLflow took it and the folder is gone, else why it still waits."""

    entry: Path
    run_id: str | None
    message: str


def log_or_queue(record: RunRecord, files: Sequence[Path], uri: str, queue: Path = DEFAULT_QUEUE) -> LogOutcome:
    """Log a run; when MLflow is out, keep it in `queue`. Never raises for an outage: the verdict stands."""
    database = sqlite_path(uri)
    first = database is not None and not database.exists()
    try:
        run_id = log_run(record, files, uri=uri)
    except TrackingError as error:
        return _keep(record, files, queue, error)
    note = " (its tables were made now, which takes seconds, once)" if first else ""
    return LogOutcome(run_id, None, f"MLflow: run {run_id} in {content.experiment_name(record)}, {redact(uri)}{note}")


def _keep(record: RunRecord, files: Sequence[Path], queue: Path, error: TrackingError) -> LogOutcome:
    try:
        entry = _enqueue(record, files, queue)
    except OSError as full:
        return LogOutcome(
            None,
            None,
            f"{error}\nThe verdict stands, but the run could not be kept for later either: {full}\n"
            "  remedy: keep the report folder; make the queue's folder writable and run the suite again",
        )
    return LogOutcome(
        None, entry, f"{error}\nThe verdict stands; the run waits in {entry}: `fairgate push --queue {queue}` sends it."
    )


def _enqueue(record: RunRecord, files: Sequence[Path], queue: Path) -> Path:
    """Copy a run into the queue, whole or not at all."""
    queue.mkdir(parents=True, exist_ok=True)
    ignore = queue / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    name = f"{_stamp(record)}-{content.safe_part(record.suite)}-{record.model.fingerprint[:8]}"
    entry = queue / name
    if entry.exists() and _key(entry) != content.run_key(record):
        entry = queue / f"{name}-{content.run_key(record)[:8]}"
    if entry.exists():
        return entry
    with tempfile.TemporaryDirectory(prefix=".incoming-", dir=queue) as scratch:
        parcel = Path(scratch) / "run"
        (parcel / _FILES).mkdir(parents=True)
        for path in files:
            if path.is_file():
                shutil.copy2(path, parcel / _FILES / path.name)
        (parcel / _RECORD).write_text(record.model_dump_json(indent=2), encoding="utf-8")
        parcel.rename(entry)
    return entry


def push(queue: Path = DEFAULT_QUEUE, uri: str = DEFAULT_URI) -> list[Pushed]:
    """Send every waiting run, oldest first, and remove each one that MLflow has taken.

    Safe to repeat and to interrupt: a run's key, kept as a tag, keeps it from being logged twice. A run that cannot
    be sent stays where it is and says why.
    """
    from filelock import FileLock

    if not queue.is_dir():
        return []
    with FileLock(queue / ".push.lock"):
        return [_send(entry, uri) for entry in sorted(waiting(queue))]


def waiting(queue: Path) -> Iterator[Path]:
    """Folders of the queue that hold a run."""
    return (path for path in queue.iterdir() if path.is_dir() and not path.name.startswith("."))


def _send(entry: Path, uri: str) -> Pushed:
    try:
        record = RunRecord.model_validate_json((entry / _RECORD).read_bytes())
        files = sorted((entry / _FILES).iterdir())
    except (OSError, ValidationError) as error:
        first = str(error).splitlines()[0]
        return Pushed(entry, None, f"{entry} does not hold a run that this version reads ({first}); it stays.")
    try:
        run_id = log_run(record, files, uri=uri)
    except TrackingError as error:
        return Pushed(entry, None, str(error))
    shutil.rmtree(entry)
    return Pushed(entry, run_id, f"sent {entry.name} as run {run_id}")


def _key(entry: Path) -> str | None:
    try:
        return content.run_key(RunRecord.model_validate_json((entry / _RECORD).read_bytes()))
    except (OSError, ValidationError):
        return None


def _stamp(record: RunRecord) -> str:
    """`20260301T101500Z`; a time that is not ISO 8601 keeps its digits and letters."""
    started = content.started_at(record)
    if started is None:
        return "".join(filter(str.isalnum, record.created_at)) or "undated"
    return started.strftime("%Y%m%dT%H%M%SZ")
