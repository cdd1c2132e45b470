"""Does MLflow answer, and do runs wait to be sent?"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from fairgate.doctor.finding import Finding, of_error, ok, trouble, warning
from fairgate.errors import TrackingError
from fairgate.tracking.queue import waiting
from fairgate.tracking.session import redact, session, sqlite_path

AREA = "mlflow"


def look_at_mlflow(uri: str | None, queue: Path, now: datetime) -> list[Finding]:
    """The store of `uri` (None: off), read and never written, and the queue."""
    return [_off() if uri is None else _store(uri), *_queue(queue, now)]


def _off() -> Finding:
    remedy = "without runs there is no history; give `--fairness-mlflow URI`, or `fairness_mlflow` in pytest's ini file"
    return warning(AREA, "MLflow is off: no run is kept.", remedy=remedy)


def _store(uri: str) -> Finding:
    where, database = redact(uri), sqlite_path(uri)
    if database is not None:
        return _file(database, str(database))
    try:
        with session(uri, "MLflow does not answer", "check the address and the server; runs wait until then") as client:
            client.search_experiments(max_results=1)
    except TrackingError as error:
        return of_error(AREA, error)
    return ok(AREA, "the server answers", where=where)


def _file(database: Path, where: str) -> Finding:
    if not database.exists():
        return ok(AREA, "the store is not there yet; the first run makes it", where=where)
    try:
        connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=5)
        try:
            (runs,) = connection.execute("select count(*) from runs").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        remedy = "it is no MLflow store, or a damaged one: name another, or move it away and begin anew"
        return trouble(AREA, f"the store cannot be read: {error}.", where=where, remedy=remedy)
    return ok(AREA, f"the store answers, with {runs:,} run(s)", where=where)


def _queue(queue: Path, now: datetime) -> list[Finding]:
    entries = sorted(waiting(queue)) if queue.is_dir() else []
    if not entries:
        return [ok(AREA, "no run waits to be sent")]
    oldest = min(datetime.fromtimestamp(entry.stat().st_mtime, UTC) for entry in entries)
    days = (now - oldest).days
    since = f"{days} days" if days > 1 else "a day" if days == 1 else "less than a day"
    what = f"{len(entries)} run(s) wait to be sent, the oldest for {since}."
    return [warning(AREA, what, where=str(queue), remedy="`fairgate push` sends them")]
