"""The files that put a gate into a repository: workflows, a hook, an image; and what can be seen of the repository."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

from fairgate.data import releases_folder
from fairgate.ground.errors import SettingsError, listed
from fairgate.ground.git import run_git
from fairgate.models.checkpoints import OPEN_CLIP, Home, home_of

Service = Literal["github", "gitlab"]
_TEMPLATES = Path(__file__).with_name("templates")
_SKIPPED = frozenset({"datasets", "fairness_data", "fairness_suites", "build", "node_modules", "mlartifacts", "mlruns"})
_DEEPEST = 4
_SHOWN = 3  # folders that an error describes
_FIRST = ("hf", "open_clip", "classifier", "timm", "detector")
"""Schemes of the folders that a first suite can be written for without another option."""
_HOSTED = re.compile(r"(ubuntu|macos)-(latest|[0-9]+([.][0-9]+)?)(-arm)?")
"""GitHub's own runners; whatever else is called so may be a team's own machine."""
_GITHUB = re.compile(r"(?:https://|ssh://git@|git@)github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?")
_PIN = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)@(?P<commit>[0-9a-f]{40})")
IGNORED = ("/fairness-report/", "/fairness-card/", "fairgate.db*", "/mlartifacts/", ".*.fairgate-draft")
"""Lines of .gitignore: what runs write, and no commit needs."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What the files say: the suite, the branch that is protected, fairgate's repository and commit, the runner's
    labels (GitHub's own by their exact names), and whether DVC brings the data."""

    suite: str
    branch: str
    fairgate: str
    commit: str
    runner: str
    dvc: bool


def gate_files(gate: Gate, service: Service | None, *, hook: bool, dockerfile: bool) -> dict[str, str]:
    """The files by path, for GitHub or GitLab; the workflows of docs/use/pull-requests.md."""
    wanted: dict[str, str] = {}
    if service == "github":
        wanted = {
            ".github/workflows/fairness-gate.yml": "gate.yml",
            ".github/workflows/fairness-report.yml": "report.yml",
        }
    elif service == "gitlab":
        wanted = {".gitlab/fairness-gate.yml": "gitlab.yml"}
    wanted |= {".pre-commit-config.yaml": "hook.yaml"} if hook else {}
    wanted |= {"fairness.Dockerfile": "Dockerfile"} if dockerfile else {}
    return {path: _rendered(name, gate) for path, name in wanted.items()}


def _rendered(name: str, gate: Gate) -> str:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(  # noqa: S701 - YAML, whose `{{ }}` are GitHub's
        *("<%%", "%%>", "<<", ">>", "<#", "#>"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    labels = [label.strip() for label in gate.runner.split(",")]
    if not all(re.fullmatch(r"[\w.-]+", label) for label in labels):
        raise SettingsError(
            f"'{gate.runner}' names no runner.", where="--runner", remedy="give labels, such as self-hosted,gpu"
        )
    hosted = len(labels) == 1 and _HOSTED.fullmatch(labels[0]) is not None
    return environment.from_string((_TEMPLATES / f"{name}.j2").read_text(encoding="utf-8")).render(
        suite=gate.suite,
        branch=gate.branch,
        action=gate.fairgate,
        url=f"https://github.com/{gate.fairgate}",
        commit=gate.commit,
        runner=gate.runner if hosted else f"[{', '.join(labels)}]",
        own_runner=not hosted,
        dvc=gate.dvc,
    )


def find_pin(given: str | None) -> tuple[str, str]:
    """fairgate's repository and commit: as `OWNER/fairgate@COMMIT` says, as pip has it, or as the clone has it that pip
    installed. Raises SettingsError."""
    match = _PIN.fullmatch(_installed_pin() if given is None else given)
    if match is None:
        raise SettingsError(
            "it is not known which fairgate the gate is to run." if given is None else f"'{given}' pins no commit.",
            where="--fairgate",
            remedy="name a commit of it that you have looked at: --fairgate OWNER/fairgate@FULL-HASH",
        )
    return match["name"], match["commit"]


def _installed_pin() -> str:
    """`OWNER/fairgate@COMMIT` of the installed fairgate; empty if it is not from GitHub, nor from a clone of there."""
    known = json.loads(metadata.distribution("fairgate").read_text("direct_url.json") or "{}")
    address, commit = str(known.get("url", "")), known.get("vcs_info", {}).get("commit_id")
    if address.startswith("file://"):
        clone = Path(url2pathname(urlsplit(address).path))
        if not (clone / ".git").exists():  # git would look for a repository around it
            return ""
        address, commit = (
            run_git(clone, *asked).stdout.decode("utf-8", "replace").strip()
            for asked in (("remote", "get-url", "origin"), ("rev-parse", "HEAD"))
        )
    url = _GITHUB.fullmatch(address)
    return f"{url[1]}@{commit}" if url else ""


def find_service(root: Path) -> Service:
    """GitHub or GitLab, by the remote `origin` or the files that are there. Raises SettingsError where neither says."""
    remote = run_git(root, "remote", "get-url", "origin").stdout.decode("utf-8", "replace")
    host = re.sub(r"^\w+://(?:[^@/]*@)?|^[^@/]*@", "", remote).partition("/")[0].partition(":")[0].lower()
    signs: dict[Service, str] = {"github": ".github", "gitlab": ".gitlab-ci.yml"}
    for service, sign in signs.items():
        if service in host or (not host and (root / sign).exists()):
            return service
    raise SettingsError(
        "neither the remote `origin` nor a file says where pull requests are made.",
        where=str(root),
        remedy="say so: --ci github, --ci gitlab, or --ci none",
    )


def find_branch(root: Path) -> tuple[str, bool]:
    """The default branch, and whether it is that of a remote `origin`; without one, the branch that is checked out.

    Raises SettingsError for a name that no workflow can hold."""
    head = run_git(root, "symbolic-ref", "--quiet", "--short", "HEAD").stdout.decode().strip() or "main"
    remote = bool(run_git(root, "remote", "get-url", "origin").stdout)
    default = run_git(root, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD").stdout.decode().strip()
    branch = (default.removeprefix("origin/") if remote else "") or head
    if not re.fullmatch(r"[\w./-]+", branch):
        raise SettingsError(
            f"the branch '{branch}' has a name that no workflow can hold.",
            where=str(root),
            remedy="give the default branch a name of letters, digits, `.`, `/` and `-`",
        )
    return branch, remote


def find_dataset(root: Path) -> str:
    """The one dataset of a repository. Raises SettingsError where there is none, or several."""
    folder = releases_folder(root)
    names = sorted({path.parent.parent.name for path in folder.glob("*/v*/manifest.json")})
    if len(names) != 1:
        raise SettingsError(
            f"{folder.name}/ holds {'no dataset' if not names else f'several datasets: {listed(names)}'}.",
            where=str(folder),
            remedy="say which: --dataset NAME"
            if names
            else "bring one: fairgate dataset import, or fairgate dataset pull",
        )
    return names[0]


def find_checkpoint(root: Path) -> str:
    """The URI of the one checkpoint of a repository. Raises SettingsError where there is none, or several."""
    every = dict(_checkpoints(root))
    usable = [_named(home.uri, path) for path, home in every.items() if home.scheme in _FIRST]
    if len(usable) != 1:
        others = [f"{path}: {_named(home.advice, path)}" for path, home in every.items()] if not usable else []
        raise SettingsError(
            "the repository holds no folder of a CLIP, a SigLIP, an image classifier or a detector."
            if not usable
            else f"the repository holds several checkpoints: {listed(usable)}.",
            where=str(root),
            remedy="say which is judged: --model URI (docs/use/models.md lists the kinds)"
            + "".join(f"; {other}" for other in others[:_SHOWN]),
        )
    return usable[0]


def _named(text: str, path: str) -> str:
    return text.replace("FOLDER", path, 1)


def _checkpoints(root: Path) -> Iterator[tuple[str, Home]]:
    """The folders of models, a few levels deep, and what they hold."""
    for place, folders, files in os.walk(root):
        path = Path(place).relative_to(root)
        home: Home | None = None  # of a config without weights, too
        if "open_clip_config.json" in files:  # of configs of two libraries, open_clip's counts
            home = OPEN_CLIP
        elif "config.json" not in files or {"model.safetensors", "model.safetensors.index.json"} & {*files}:
            home = home_of(Path(place))
        if home is not None:
            yield path.as_posix(), home
        deep = len(path.parts) >= _DEEPEST or home is not None or "pyvenv.cfg" in files
        folders[:] = [] if deep else sorted(folder for folder in folders if folder not in _SKIPPED and folder[0] != ".")
