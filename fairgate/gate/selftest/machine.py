"""Can this machine run the gate: Python, packages, device, cache, disk, git history, datasets, DVC and MLflow?"""

from __future__ import annotations

import json
import platform
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Final

from fairgate.data import Dataset, releases_folder, shadowed_library
from fairgate.gate.baselines import Repository
from fairgate.gate.selftest.finding import TOOK_TOO_LONG, Finding, of_error, ok, run, trouble, warning
from fairgate.ground.errors import BaselineError, DatasetError, DeviceError, SettingsError, TrackingError
from fairgate.ground.git import git_output
from fairgate.ground.number_format import share_words
from fairgate.models import KEY_VARIABLE, CacheWarning, cache_key, require_cache_outside
from fairgate.records import plain_notice
from fairgate.tracking import redact, session, sqlite_path, waiting
from fairgate.version import __version__

FEW_BYTES: Final = 2**30
TOO_FEW_BYTES: Final = 100 * 2**20

_TORCH = """\
import json, torch, torchvision
torchvision.ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
print(json.dumps({
    "torch": torch.__version__, "torchvision": torchvision.__version__, "cuda": torch.version.cuda,
    "gpus": [(torch.cuda.get_device_name(n), *torch.cuda.mem_get_info(n)) for n in gpus],
}))
"""


def look_at_machine(device: str, cache: Path | None, root: Path = Path()) -> list[Finding]:
    """Python and packages, what the device resolves to, and whether embeddings can be cached."""
    what = f"Python {platform.python_version()}, fairgate {__version__}, {platform.system()} {platform.machine()}"
    python = ok("python", what, where=sys.executable)
    return [python, *_packages(), *look_at_names(root), *_device(device), look_at_cache(cache, root)]


def look_at_names(root: Path) -> list[Finding]:
    """Whether a folder of the repository takes the place of a library."""
    shadowed = shadowed_library(root)
    remedy = "pip install datasets; a new repository has its releases in fairness_data/"
    return [] if shadowed is None else [warning("packages", shadowed, "datasets/", remedy)]


def _packages() -> list[Finding]:
    """fairgate's own requirements against what is installed."""
    from packaging.requirements import Requirement

    wrong: list[Finding] = []
    checked = 0
    for line in requires("fairgate") or []:
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(wanted.name)
        except PackageNotFoundError:
            wrong.append(trouble("packages", f"{wanted.name} is not installed.", remedy=f'pip install "{wanted}"'))
            continue
        if not wanted.specifier.contains(installed, prereleases=True):
            what = f"{wanted.name} is {installed}, and fairgate needs {wanted.specifier}."
            wrong.append(trouble("packages", what, remedy=f'pip install --upgrade "{wanted}"'))
        checked += 1
    return wrong or [ok("packages", f"all {checked} that fairgate needs are there, new enough")]


def _device(wanted: str) -> list[Finding]:
    """torch and torchvision, imported in a process of their own: a broken build may take its process down."""
    from fairgate.models.checkpoints import find_device

    done = run([sys.executable, "-c", _TORCH], Path.cwd(), 180)
    if done.code != 0:
        remedy = "install the two builds that belong together: pip install --upgrade torch torchvision"
        what = f"torch or torchvision does not work: {done.error_message}"
        return [trouble("torch", what, remedy=f"{remedy} (only cached scores and score tables work now)")]
    facts = json.loads(done.out.splitlines()[-1])
    built = f"CUDA {facts['cuda']}" if facts["cuda"] else "the CPU"
    findings = [ok("torch", f"torch {facts['torch']} and torchvision {facts['torchvision']} work, built for {built}")]
    for number, (name, free, total) in enumerate(facts["gpus"]):
        what = f"cuda:{number} is {name}, {_size(free)} of {_size(total)} free"
        if free > total / 4:
            findings.append(ok("device", what))
        else:
            findings.append(warning("device", what, remedy="others use it: wait, or choose another GPU"))
    try:
        chosen = find_device(wanted)
    except DeviceError as error:
        return [*findings, trouble("device", error.problem, where=f"device {wanted}", remedy=error.remedy)]
    if chosen.is_cuda and not facts["gpus"]:
        what = f"'{wanted}' is taken for {chosen.name}, and this torch sees no GPU."
        remedy = (
            "compare `nvidia-smi` with the CUDA version that torch was built for, or run with --fairness-device cpu"
        )
        return [*findings, trouble("device", what, remedy=remedy)]
    seen = "" if facts["gpus"] else "; no GPU is seen"
    return [*findings, ok("device", f"'{wanted}' means {chosen.name}, in {chosen.precision}{seen}")]


def look_at_cache(folder: Path | None, root: Path = Path()) -> Finding:
    """Whether the folder for embeddings is outside of the repository, can be written and sealed, and has room."""
    if folder is None:
        remedy = "leave out `--fairness-cache off`: embeddings are kept by content and never go stale"
        return warning("cache", "embeddings are not kept: every run embeds every image again.", remedy=remedy)
    there = next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        what = f"embeddings cannot be kept: {error.strerror}."
        return trouble("cache", what, where=str(folder), remedy="make the folder writable, or set FAIRGATE_CACHE")
    try:
        require_cache_outside(folder, root)
        with warnings.catch_warnings():
            warnings.simplefilter("error", CacheWarning)
            cache_key(root)
    except SettingsError as error:
        return of_error("cache", error)
    except CacheWarning as reason:
        return warning("cache", str(reason), where=str(folder), remedy=f"set {KEY_VARIABLE} to a random text")
    free = shutil.disk_usage(there).free
    if free < FEW_BYTES:
        level = trouble if free < TOO_FEW_BYTES else warning
        what = f"{_size(free)} are free on the disk of the cache."
        return level("cache", what, where=str(folder), remedy="free some, or move the cache with FAIRGATE_CACHE")
    return ok("cache", f"writable, {_size(free)} free", where=str(folder))


def _size(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


def look_at_git(root: Path, refs: list[str]) -> list[Finding]:
    """A shallow clone, and the merge base of every `git:REF` in `refs`."""
    shallow = git_output(root, "rev-parse", "--is-shallow-repository")
    if shallow is None:
        what = "there is no git repository to look into, or git may not read it."
        if refs:
            remedy = "check out with git, or name a `file:` baseline"
            return [trouble("git", what, where=str(root), remedy=remedy)]
        remedy = "runs are recorded without a commit; `git init` to have one"
        return [warning("git", what, where=str(root), remedy=remedy)]
    commits = int(git_output(root, "rev-list", "--count", "HEAD") or 0)
    findings = [ok("git", f"whole history, {share_words(commits, 'commit')}")]
    if shallow == "true":
        remedy = "fetch all of it: `git fetch --unshallow`, in GitHub Actions `fetch-depth: 0` for actions/checkout"
        what = "the clone is shallow: merge bases and the steps of history are missing."
        findings = [(trouble if refs else warning)("git", what, str(root), remedy)]
    for ref in refs:
        try:
            findings.append(ok("git", f"the merge base with {ref} is {Repository(root).merge_base(ref)[:7]}"))
        except BaselineError as error:
            findings.append(of_error("git", error))
    return findings


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


def look_at_dataset(dataset: Dataset) -> list[Finding]:
    """Shards against the manifest; `fairgate dataset verify` reads every row and picture."""
    area, manifest = f"dataset {dataset.manifest.ref}", dataset.manifest
    notice = f". Note: {plain_notice(manifest.notice)}" if manifest.notice else ""
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
    pointer = f"{releases_folder(root).name}.dvc"
    target = [pointer] if (root / pointer).is_file() else []
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
    folder = releases_folder(root)
    if not folder.is_dir() or not (root / ".git").exists():
        return []
    if git_output(root, "ls-files", "--", folder.name) != "":
        return []
    remedy = f"track it: `dvc init`, then `dvc add {folder.name}` and commit {folder.name}.dvc"
    what = f"{folder.name}/ is neither in git nor in DVC: a fresh clone has no data."
    return [warning("dvc", what, folder.name, remedy)]


def _remote(root: Path, target: Sequence[str], whole: bool) -> list[Finding]:
    there = _status(root, "--cloud", *target)
    if isinstance(there, Finding):
        return [there]
    states = set(there.values()) if isinstance(there, dict) else set()
    if "new" in states:  # DVC's answer, too, if the remote cannot be reached
        remedy = f"run `dvc push {' '.join(target)}`".rstrip() + ": it names the reason if it cannot"
        what = "the remote lacks data that is here, or cannot be reached: others cannot pull it."
        return [trouble("dvc", what, remedy=remedy)]
    if "missing" in states:
        remedy = "find the machine that made the data, and `dvc push` there"
        return [trouble("dvc", "data that the commit names is neither here nor on the remote.", remedy=remedy)]
    pointers = [*root.glob("*.dvc"), *root.glob("*/*.dvc"), *root.glob("dvc.lock")]
    if not any(path.is_file() for path in pointers):  # .dvc itself is a folder
        remedy = "`dvc add` the datasets and the checkpoint, unless git has them"
        return [warning("dvc", "DVC tracks nothing here, so that its remote was not asked.", remedy=remedy)]
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
        return trouble("dvc", f"DVC could not tell: {done.error_message}", where=where, remedy=remedy)
    return status
