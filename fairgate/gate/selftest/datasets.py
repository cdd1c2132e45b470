"""Whether datasets are complete and can be pulled, whether MLflow answers, and which runs wait to be sent."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fairgate.data import Dataset
from fairgate.gate.selftest.finding import TOOK_TOO_LONG, Finding, of_error, ok, run, trouble, warning
from fairgate.ground.errors import DatasetError, TrackingError
from fairgate.ground.git import run_git
from fairgate.tracking import redact, session, sqlite_path, waiting

AREA = "mlflow"


def look_at_mlflow(uri: str | None, queue: Path, now: datetime) -> list[Finding]:
    """The store of `uri` (None: off), read and never written, and the queue."""
    if uri is None:
        remedy = "runs make a history; give `--fairness-mlflow URI`, or `fairness_mlflow` in pytest's ini file"
        return [warning(AREA, "MLflow is off: no run is logged.", remedy=remedy), *_queue(queue, now)]
    return [_store(uri), *_queue(queue, now)]


def _store(uri: str) -> Finding:
    where, database = redact(uri), sqlite_path(uri)
    if database is not None:
        return _file(database)
    try:
        with session(uri, "MLflow does not answer", "check the address and the server; runs wait until then") as client:
            client.search_experiments(max_results=1)
    except TrackingError as error:
        return of_error(AREA, error)
    return ok(AREA, "the server answers", where=where)


def _file(database: Path) -> Finding:
    where = str(database)
    if not database.exists():
        return ok(AREA, "the store is not there yet; the first run makes it", where=where)
    try:
        connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=5)
        try:
            (runs,) = connection.execute("select count(*) from runs").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        remedy = "it is no MLflow store, or a damaged one: name another, or move it away and start a new one"
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


PATIENCE: Final = 20.0
"""Seconds that DVC's remote is given."""
_SHOWN: Final = 3


def look_at_dataset(dataset: Dataset, full: bool) -> list[Finding]:
    """Shards against the manifest; with `full` every row and picture too."""
    area, manifest = f"dataset {dataset.manifest.ref}", dataset.manifest
    notice = f". Note: {manifest.notice}" if manifest.notice else ""
    if full:
        problems = dataset.verify()
        if problems:
            first = [trouble(area, problem.what, problem.where, problem.remedy) for problem in problems[:_SHOWN]]
            more = f"{len(problems) - _SHOWN} more problems; `fairgate dataset verify {manifest.ref}` names them all."
            return first + ([trouble(area, more)] if len(problems) > _SHOWN else [])
        return [ok(area, f"all {manifest.n_rows:,} rows are what was released{notice}", where=str(dataset.folder))]
    try:
        dataset.check_shards()
    except DatasetError as error:
        return [of_error(area, error)]
    what = f"{len(manifest.shards)} shard(s) of {manifest.n_rows:,} rows are the files that were released{notice}"
    return [ok(area, what, where=str(dataset.folder))]


def look_at_dvc(root: Path) -> list[Finding]:
    """Is the data pulled, and has its remote what others will pull?"""
    if not (root / ".dvc").is_dir():
        return [ok("dvc", "this repository does not use DVC"), *_untracked(root)]
    target = ["datasets.dvc"] if (root / "datasets.dvc").is_file() else []
    here = _status(root, *target)
    if isinstance(here, Finding):
        return [here]
    findings = []
    if here:
        remedy = f"run `dvc pull {' '.join(target)}`".rstrip() + "; `dvc status` says what differs"
        names = ", ".join(list(here)[:_SHOWN])
        findings.append(trouble("dvc", f"{names} is not the data that the commit names.", remedy=remedy))
    if not run([sys.executable, "-m", "dvc", "remote", "list"], root, PATIENCE).out.strip():
        remedy = "dvc remote add --default NAME URL, then `dvc push`: a fresh clone has no data without it"
        return [*findings, warning("dvc", "no remote is configured.", where=".dvc/config", remedy=remedy)]
    return [*findings, *_remote(root, target, whole=not here)]


def _untracked(root: Path) -> list[Finding]:
    """Datasets that a fresh clone would lack, in a repository without DVC: in the folder, and not in git."""
    folder = root / "datasets"
    if not folder.is_dir() or not (root / ".git").exists():
        return []
    try:
        listed = run_git(root, "ls-files", "--", "datasets")
    except OSError:
        return []
    if listed.returncode != 0 or listed.stdout.strip():
        return []
    remedy = "track it: `dvc init`, then `dvc add datasets` and commit datasets.dvc"
    return [warning("dvc", "datasets/ is neither in git nor in DVC: a fresh clone has no data.", "datasets", remedy)]


def _remote(root: Path, target: Sequence[str], whole: bool) -> list[Finding]:
    there = _status(root, "--cloud", *target)
    if isinstance(there, Finding):
        return [there]
    states = set(there.values()) if isinstance(there, dict) else set()
    if "new" in states:
        remedy = f"run `dvc push {' '.join(target)}`".rstrip()
        return [warning("dvc", "the remote lacks data that is here: others cannot pull it.", remedy=remedy)]
    if "missing" in states:
        remedy = "find the machine that made the data, and `dvc push` there"
        return [trouble("dvc", "data that the commit names is neither here nor on the remote.", remedy=remedy)]
    return [ok("dvc", f"the remote answers{' and has what is here' if whole else ''}")]


def _status(root: Path, *words: str) -> dict[str, Any] | Finding:
    """`dvc status --json`, or the trouble that it had."""
    command = ["dvc", "status", *words]
    done = run([sys.executable, "-m", *command, "--json"], root, PATIENCE)
    where = " ".join(command)
    if done.code == TOOK_TOO_LONG:
        remedy = "check the network and the remote's address (`dvc remote list`)"
        return warning("dvc", f"DVC did not answer within {PATIENCE:g} s.", where=where, remedy=remedy)
    try:
        status = json.loads(done.out or "null")
    except ValueError:
        status = None
    if done.code != 0 or not isinstance(status, dict):
        remedy = "run that command and read what it says; `dvc remote list` shows the addresses"
        return trouble("dvc", f"DVC could not tell: {done.said}", where=where, remedy=remedy)
    return status
