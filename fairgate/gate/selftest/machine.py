"""Can this machine run the gate: Python, packages, device, cache, disk, and git history back to a merge base?"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import warnings
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

from fairgate.gate.baselines import Repository
from fairgate.gate.selftest.finding import Finding, of_error, ok, run, trouble, warning
from fairgate.ground.errors import BaselineError, DeviceError, SettingsError
from fairgate.ground.git import run_git
from fairgate.models import KEY_VARIABLE, CacheWarning, cache_key, require_cache_outside
from fairgate.suites import default_cache
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
    return [python, *_packages(), *_device(device), look_at_cache(cache, root)]


def cache_of(choice: str | None) -> Path | None:
    """The folder for embeddings, as a gate run would choose it from what was said; None where it is off."""
    if choice == "off":
        return None
    return Path(choice) if choice else default_cache(os.environ)


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
        what = f"torch or torchvision does not work: {done.said}"
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


_SECONDS = 10


def look_at_git(root: Path, refs: list[str]) -> list[Finding]:
    """A shallow clone, and the merge base of every `git:REF` in `refs`."""
    shallow = _said(root, "rev-parse", "--is-shallow-repository")
    if shallow is None:
        what = "there is no git repository to look into, or git may not read it."
        if refs:
            remedy = "check out with git, or name a `file:` baseline"
            return [trouble("git", what, where=str(root), remedy=remedy)]
        remedy = "runs are recorded without a commit; `git init` to have one"
        return [warning("git", what, where=str(root), remedy=remedy)]
    findings = [ok("git", f"whole history, {_said(root, 'rev-list', '--count', 'HEAD') or 'no'} commits")]
    if shallow == "true":
        remedy = "fetch all of it: `git fetch --unshallow`, in GitHub Actions `fetch-depth: 0` for actions/checkout"
        what = "the clone is shallow: merge bases and the steps of history are missing."
        findings = [(trouble if refs else warning)("git", what, str(root), remedy)]
    return findings + [_merge_base(root, ref) for ref in refs]


def _merge_base(root: Path, ref: str) -> Finding:
    try:
        commit = Repository(root).merge_base(ref)
    except BaselineError as error:
        return of_error("git", error)
    return ok("git", f"the merge base with {ref} is {commit[:7]}")


def _said(root: Path, *words: str) -> str | None:
    try:
        done = run_git(root, *words, seconds=_SECONDS)
    except OSError:
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None
