"""Runs that MLflow did not take wait in a folder until `fairgate push` sends them.

The queue lies in the repository, so that a branch can bring entries of its own. An address in one could send what the
environment holds for a tracking server (a token, a password) to a host of the branch's author. So a folder is sealed:
an HMAC of its files and its address, with a key that lies in the person's home and in no repository.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from pydantic import ValidationError

from fairgate.ground.atomic import atomic_write
from fairgate.ground.ci import in_ci
from fairgate.ground.errors import TrackingError, disk_errors
from fairgate.ground.hashing import read_bounded, sha256_file
from fairgate.ground.seals import KeyTrouble, is_sealed, stored_key
from fairgate.ground.seals import seal as sealed
from fairgate.models.checkpoints import repositories_of
from fairgate.records import RunRecord
from fairgate.tracking import content
from fairgate.tracking.defaults import DEFAULT_QUEUE, DEFAULT_URI
from fairgate.tracking.run_environment import asking_pull_request
from fairgate.tracking.runs import log_run
from fairgate.tracking.store_session import redact, sqlite_path, unanswered

_RECORD = "record.json"
_FILES = "files"
_DESTINATION = "destination.json"
_MAX_BYTES = 50 << 20
_OF_STRANGERS = ("results.json", "scores.parquet")
"""Files that are sent of an entry that somebody else made: a browser that shows its pages would run what they hold."""
_INCOMING, _SENT = ".incoming-", ".sent-"


@dataclass(frozen=True, slots=True)
class LogOutcome:
    """What became of a run: its id with the tracking service, or its folder in the queue, where it waits if it has no
    id; `message` says which, for a person."""

    run_id: str | None
    queued: Path | None
    message: str


def log_or_queue(
    record: RunRecord,
    files: Sequence[Path],
    uri: str,
    queue: Path = DEFAULT_QUEUE,
    *,
    outage: TrackingError | None = None,
) -> LogOutcome:
    """Log a run; when MLflow is out, keep it in `queue`, with the address that it was meant for, without its secrets.
    Never raises for an outage: that changes no verdict.

    `outage` is the error of an earlier attempt in this process: the run is queued at once, without another.
    """
    if outage is not None:
        return _keep(record, files, queue, uri, outage)
    database = sqlite_path(uri)
    first = database is not None and not database.exists()
    try:
        run_id = log_run(record, files, uri=uri)
    except TrackingError as error:
        return _keep(record, files, queue, uri, error)
    note = " (a new database: the first run takes some seconds longer)" if first else ""
    return LogOutcome(
        run_id, None, f"MLflow: run {run_id} in {content.experiment_of(record.suite)}, {redact(uri)}{note}"
    )


def _keep(record: RunRecord, files: Sequence[Path], queue: Path, uri: str, error: TrackingError) -> LogOutcome:
    try:
        entry = _enqueue(record, files, queue, uri)
    except OSError as full:
        return LogOutcome(
            None,
            None,
            f"{error.problem}\n"
            f"The verdict stands, but the run could not be kept for later either: {full.strerror or full}.\n"
            f"  where:  {queue}\n"
            "  remedy: keep the report folder, `fairgate push --from DIR` sends it; or make the queue's folder "
            "writable, with room in it, and run the suite again",
        )
    meant = stored_destination(entry)
    there = f" to {meant.uri}" if meant is not None and _disbelieved(meant) is None else ", with `--mlflow URI`"
    return LogOutcome(
        None,
        entry,
        f"{error}\nThe verdict stands; the run waits in {entry}: `fairgate push --queue {queue}` sends it{there}.",
    )


def _enqueue(record: RunRecord, files: Sequence[Path], queue: Path, uri: str) -> Path:
    """Copy a run into the queue, whole or not at all."""
    make_queue(queue)
    started = content.started_at(record)
    plain_time = "".join(filter(str.isalnum, record.created_at)) or "undated"  # of a time that is not ISO 8601
    stamp = started.strftime("%Y%m%dT%H%M%SZ") if started else plain_time
    name = f"{stamp}-{content.safe_part(record.suite)}-{record.model.fingerprint[:8]}"
    entry = queue / name
    if entry.exists() and _key(entry) != content.run_key(record):
        entry = queue / f"{name}-{content.run_key(record)[:8]}"
    if entry.exists():
        return entry
    with tempfile.TemporaryDirectory(prefix=_INCOMING, dir=queue) as scratch:
        parcel = Path(scratch) / "run"
        (parcel / _FILES).mkdir(parents=True)
        for path in files:
            if path.is_file():
                shutil.copy2(path, parcel / _FILES / path.name)
        (parcel / _RECORD).write_text(record.model_dump_json(indent=2), encoding="utf-8")
        seal(parcel, destination_of(uri))
        parcel.rename(entry)
    return entry


def make_queue(queue: Path) -> None:
    """Make a folder of waiting runs, which git ignores. OSError for a link of the checkout, which leads elsewhere."""
    ignore = queue / ".gitignore"
    for step in (queue.parent, queue, ignore):
        if step.is_symlink():
            raise OSError(errno.ELOOP, "a link would lead the run elsewhere", str(step))
    queue.mkdir(parents=True, exist_ok=True)
    if not ignore.exists():
        atomic_write(ignore, "*\n")


def push(queue: Path = DEFAULT_QUEUE, uri: str | None = None) -> list[LogOutcome]:
    """Send every waiting run, oldest first, and remove each one that MLflow has taken.

    Each goes to `uri`; without one, to the address that it was meant for, where this machine itself has queued it and
    is no CI runner, and to the default store where its folder holds no address, as before there were any. What
    somebody else queued is sent as a run of an unknown pull request, without its pages: it can claim anything.
    Safe to repeat and to interrupt: a run's key is a tag, by which it is not logged twice. A run that cannot be sent
    stays where it is, and its message says why. A server that did not answer is not tried again for the others.
    Raises TrackingError for a queue that cannot be written: what was sent could not be removed.
    """
    from filelock import FileLock

    if not queue.is_dir():
        return []
    remedy = "make it writable, or send a copy of it with `--queue COPY`; no run is logged twice"
    with disk_errors(TrackingError, "the queue cannot be written", queue, remedy), FileLock(queue / ".push.lock"):
        for leftover in queue.glob(f"{_SENT}*"):  # of a push that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        for leftover in queue.glob(f"{_INCOMING}*"):  # of a run that was never whole
            if time.time() - leftover.stat().st_mtime > 24 * 3600:
                shutil.rmtree(leftover, ignore_errors=True)
        return _send_all(sorted(waiting(queue)), uri)


def _send_all(entries: Sequence[Path], uri: str | None) -> list[LogOutcome]:
    """Send runs one after the other; an address that does not answer is not tried again."""
    sent: list[LogOutcome] = []
    silent: set[str] = set()
    for entry in entries:
        parcel = _opened(entry, uri)
        if isinstance(parcel, str):
            sent.append(LogOutcome(None, entry, f"{entry} {parcel}"))
        elif parcel.uri in silent:
            skipped = f"not tried, since {redact(parcel.uri)} did not answer"
            sent.append(LogOutcome(None, entry, f"{entry.name}: {skipped}"))
        else:
            try:
                run_id = log_run(parcel.record, parcel.files, uri=parcel.uri, more_tags=parcel.tags)
                gone = entry.rename(entry.with_name(f"{_SENT}{entry.name}"))  # at once: half would wait for ever
                shutil.rmtree(gone, ignore_errors=True)
                sent.append(LogOutcome(run_id, entry, f"sent {entry.name} as run {run_id}{parcel.note}"))
            except TrackingError as error:
                sent.append(LogOutcome(None, entry, str(error)))
                silent |= {parcel.uri} if unanswered(error) else set()
    return sent


def waiting(queue: Path) -> Iterator[Path]:
    """Folders of the queue that hold a run."""
    return (path for path in queue.iterdir() if path.is_dir() and not path.name.startswith("."))


@dataclass(frozen=True, slots=True)
class _Parcel:
    """A waiting run that may be sent: where to, what it consists of, and what is said of it."""

    uri: str
    record: RunRecord
    files: list[Path]
    tags: dict[str, str]
    note: str


def _opened(entry: Path, uri: str | None) -> _Parcel | str:
    """What an entry holds and where it goes; in words, why it stays."""
    if not plain(entry):
        return "holds a link or something else that is no file; it stays: remove it, this machine did not make it."
    try:
        record = RunRecord.model_validate_json(read_bounded(entry / _RECORD, _MAX_BYTES))
        files = sorted((entry / _FILES).iterdir())
    except (OSError, ValidationError) as error:
        first = str(error).splitlines()[0]
        return f"does not hold a run that this version reads ({first}); it stays."
    meant = stored_destination(entry)
    if uri is None:
        if meant is not None and (reason := _disbelieved(meant)) is not None:
            return f"{reason}; it stays: name the address with `--mlflow URI` or FAIRGATE_MLFLOW."
        uri = DEFAULT_URI if meant is None else meant.uri
    if meant is not None and meant.own:
        return _Parcel(uri, record, files, {}, f" to {redact(uri)}")
    files = [path for path in files if path.name in _OF_STRANGERS]
    tags = {content.PULL_REQUEST: asking_pull_request(os.environ) or "unknown"}
    who = "no address was queued with it" if meant is None else "this machine did not queue it"
    note = f" to {redact(uri)}; {who}, so that it is kept as a run of pull request {tags[content.PULL_REQUEST]!r}"
    return _Parcel(uri, record, files, tags, note)


def _disbelieved(meant: Destination) -> str | None:
    """Why an entry is not sent to the address in it, where nobody gives another; None where it is."""
    if not meant.own:
        return "was not queued by this machine, so that its address is not believed"
    if not meant.complete:
        return f"was meant for {meant.uri or 'an address'} with a login or options, which are not written to disk"
    return "waits on a CI runner, where an address in a queue is not believed" if in_ci(os.environ) else None


def _key(entry: Path) -> str | None:
    try:
        return content.run_key(RunRecord.model_validate_json((entry / _RECORD).read_bytes()))
    except (OSError, ValidationError):
        return None


@dataclass(frozen=True, slots=True)
class Destination:
    """A tracking address without its secrets: `complete` where nothing had to be left out of it, `own` where it is
    known that this machine wrote it."""

    uri: str
    complete: bool
    own: bool = False


_UNKNOWN: Final = Destination("", False)


def destination_of(uri: str) -> Destination:
    """An address as it may be written to disk: without user, password, query and fragment; local paths absolute.

    >>> destination_of("https://me:secret@mlflow.example/api?token=1")
    Destination(uri='https://mlflow.example/api', complete=False, own=False)
    """
    if uri in ("databricks", "databricks-uc"):  # addresses of MLflow that look like a folder's name
        return Destination(uri, True)
    if uri and ":" not in uri:
        return Destination(str(Path(uri).absolute()), True)
    try:
        parts = urlsplit(uri)
    except ValueError:
        return _UNKNOWN
    if (database := sqlite_path(uri)) is not None:
        return Destination(f"{parts.scheme}:///{database}", not (parts.query or parts.fragment))
    if not parts.scheme or ("@" in parts.path and parts.netloc):  # a password with a slash in it looks like a path
        return _UNKNOWN
    host = parts.netloc.rpartition("@")[2]
    complete = not (parts.query or parts.fragment or "@" in parts.netloc)
    return Destination(urlunsplit((parts.scheme, host, parts.path, "", "")), complete)


def seal(entry: Path, destination: Destination) -> None:
    """Write an entry's address with the seal of this machine. Where no key can be stored, nothing is written."""
    key = _own_key(entry, make=True)
    if key is None:
        return
    address = {"uri": destination.uri, "complete": destination.complete}
    sealed_address = {**address, "seal": sealed(key, _content(entry, address))}
    (entry / _DESTINATION).write_text(json.dumps(sealed_address), encoding="utf-8")


def stored_destination(entry: Path) -> Destination | None:
    """Where an entry was meant to go; None where it holds no address. A folder that holds a link is nobody's."""
    path = entry / _DESTINATION
    if not path.is_symlink() and not path.exists():
        return None
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > 64 << 10:
            return _UNKNOWN
        saved: Any = json.loads(path.read_bytes())
        address = {"uri": saved["uri"], "complete": saved["complete"]}
        key = _own_key(entry, make=False)
        own = key is not None and is_sealed(key, _content(entry, address), saved["seal"])
        return Destination(str(address["uri"]), address["complete"] is True, own)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return _UNKNOWN


def plain(entry: Path) -> bool:
    """Whether an entry is a folder of plain files: no links, pipes or devices, which could lead out of it."""
    if entry.is_symlink():
        return False
    return all(not path.is_symlink() and (path.is_dir() or path.is_file()) for path in entry.rglob("*"))


def _content(entry: Path, address: Mapping[str, Any]) -> dict[str, Any]:
    files = {
        str(path.relative_to(entry)): sha256_file(path)
        for path in sorted(entry.rglob("*"))
        if path.is_file() and path != entry / _DESTINATION
    }
    return {"address": address, "files": files}


def _own_key(entry: Path, *, make: bool) -> bytes | None:
    """This person's key on this machine; None if it is not there, cannot be stored or does not count."""
    try:
        home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        return stored_key(Path(home) / "fairgate" / "queue.key", repositories_of(entry), make=make)
    except (KeyTrouble, RuntimeError):
        return None
