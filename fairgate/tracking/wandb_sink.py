"""One evaluation as one run of Weights & Biases: written to a folder first, then sent.

wandb runs in processes of their own, in an empty folder. In the repository it would read `wandb/settings`, where a
branch can name another server, and send it the login that the environment holds.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from fairgate import reports
from fairgate.ground.ci import patience
from fairgate.ground.errors import TrackingError, clean, disk_errors
from fairgate.records import RunRecord
from fairgate.tracking import content
from fairgate.tracking.queue import LogOutcome, make_queue

TIMEOUT: Final = "FAIRGATE_WANDB_TIMEOUT"
"""Seconds that writing a run, and sending it, may take each; 120 where it is not set."""
_WRITER: Final = Path(__file__).with_name("wandb_writer.py")
_WRITING = 60.0
"""Seconds that wandb may take to write a run here, at least: no server is waited for."""
_OFFLINE: Final = ("offline", "dryrun")
_PARTS: Final = re.compile(r"([A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}/)?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")
_TAG: Final = 64
"""Characters of a tag of W&B."""


def log_to_wandb(
    record: RunRecord,
    files: Sequence[Path],
    project: str,
    queue: Path,
    *,
    more_tags: Mapping[str, str] | None = None,
) -> LogOutcome:
    """Write a run into `queue`, send it to `PROJECT` or `ENTITY/PROJECT`, and say what became of it.

    Names are MLflow's: run, metrics, and tags as the run's config. Nothing is sent where WANDB_MODE is `offline`, and
    nothing written where it is `disabled`. A run that could not be sent has no id; it stays in the queue, and the
    message says why. Raises TrackingError where it could not even be written.
    """
    mode, run_id = os.environ.get("WANDB_MODE", "online"), content.run_key(record)[:16]
    if mode == "disabled":
        return LogOutcome(run_id, None, "W&B: nothing was logged, since WANDB_MODE is 'disabled'")
    written = _write(record, files, project, queue, {**(more_tags or {})})
    waits = f"the run waits in {written}; `wandb sync {written}`, from a folder that is yours, sends it"
    if mode in _OFFLINE:
        return LogOutcome(run_id, written, f"W&B: {waits}")
    try:
        _send(written)
    except TrackingError as error:
        return LogOutcome(None, written, f"{error.problem}\nThe verdict stands; {waits}.")
    shutil.rmtree(written, ignore_errors=True)
    return LogOutcome(run_id, None, f"W&B: run {run_id} in {project}")


def _write(
    record: RunRecord,
    files: Sequence[Path],
    project: str,
    queue: Path,
    more_tags: dict[str, str],
) -> Path:
    """The folder of the run in the queue, as wandb writes one without a network."""
    if _PARTS.fullmatch(project) is None:
        raise TrackingError(
            f"'{clean(project, 200)}' is no project of W&B.", where="--wandb", remedy="name PROJECT or ENTITY/PROJECT"
        )
    if find_spec("wandb") is None:
        raise TrackingError("wandb is not installed.", where="--wandb", remedy="pip install wandb")
    with disk_errors(TrackingError, "W&B's run cannot be kept", queue, "remove it, or make it writable"):
        make_queue(queue)
    with tempfile.TemporaryDirectory(prefix="fairgate-", ignore_cleanup_errors=True) as scratch:
        parcel = Path(scratch) / "parcel.json"
        parcel.write_text(json.dumps(_parcel(record, files, project, more_tags)), encoding="utf-8")
        _run(
            [str(_WRITER), str(parcel)],
            scratch,
            "W&B's run could not be written",
            max(_WRITING, patience(os.environ, TIMEOUT, 120, TrackingError)),
        )
        made = next(Path(scratch, "wandb").glob("offline-run-*"))
        target = queue / made.name
        if target.exists() or target.is_symlink():
            raise TrackingError("W&B's run is there already.", where=str(target), remedy="remove it, or send it")
        shutil.move(made, target)
    return target


def _parcel(record: RunRecord, files: Sequence[Path], project: str, more_tags: dict[str, str]) -> dict[str, Any]:
    entity, _, name = project.rpartition("/")
    approval = ["needs approval"] * bool(record.needs_approval)
    return {
        "entity": entity or None,
        "project": name,
        "id": content.run_key(record)[:16],
        "name": content.run_name(record),
        "group": clean(record.suite, 120),
        "notes": reports.run_description(record),
        "tags": [clean(tag, _TAG) for tag in (record.suite, f"gate {record.verdict}", *approval)],
        "config": content.params(record) | content.tags(record) | more_tags,
        "metrics": content.metrics(record),
        "files": [str(path.resolve()) for path in files],
        "exit_code": record.exit_code,
    }


def _send(run: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="fairgate-", ignore_cleanup_errors=True) as scratch:
        _run(
            ["-m", "wandb", "sync", str(run.resolve())],
            scratch,
            "W&B did not take the run",
            patience(os.environ, TIMEOUT, 120, TrackingError),
        )
    if not list(run.glob("*.wandb.synced")):
        raise TrackingError("W&B did not take the run, and did not say why.")


def _run(words: list[str], folder: str, problem: str, seconds: float) -> None:
    """Run Python in an empty folder; TrackingError where that fails, or takes longer."""
    environment = {name: value for name, value in os.environ.items() if name not in ("WANDB_DIR", "WANDB_MODE")}
    environment |= {"WANDB_DIR": folder, "WANDB_SILENT": "false"}
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-P", *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # wandb starts a service, which has to end with it
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise TrackingError(f"{problem}: it was not done after {seconds:g} seconds.") from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
        raise TrackingError(f"{problem}: {clean(lines[-1] if lines else 'it gave no reason', 300)}")
