"""Does a workflow of GitHub run the gate, and does its exit code get through?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairgate.selftest.finding import Finding, ok, trouble, warning

AREA: Final = "workflows"
_FOLDER: Final = Path(".github/workflows")
_MOST_BYTES: Final = 1 << 20
_GATE: Final = re.compile(r"--fairness-suite|\bfairgate\s+(check|demo)\b")
_ACTION: Final = re.compile(r"(.*/)?fairgate(@.*)?$")
"""The action of this project: not the one in a folder of it, which tells of reports that others made."""
_DVC: Final = re.compile(
    r"(?:^|[\s\"'/(;&|])dvc[\"']?\s+(?:-\S+\s+)*(pull|fetch|checkout|repro|exp|get|import|import-url|update)\b"
)
"""Commands of DVC that read a remote or write files as the branch's configuration and pointers say."""
_FORGIVEN: Final = re.compile(r"\|\|\s*(true|:|exit\s+0|echo\b)")
_TOLERATED: Final = re.compile(
    r"(?:-eq|-ne|-le|-lt|==|!=|\s=)\s*[\"']?3\b|\bcase\b[\s\S]*?\bin\b[\s\S]*?(?<![\w.-])3\s*[|)]"
)
"""A script that asks for exit code 3: `[ $? -eq 3 ]`, `case $status in 0|3)`."""
_PIPE: Final = re.compile(r"(?<![|>])\|(?![|])")


@dataclass(frozen=True, slots=True)
class _Step:
    """A step that runs the gate; `shell` as step, job or workflow name it (None: GitHub's default).

    `dvc` is the first command of DVC, with its place, that the job runs before or in the step.
    """

    where: str
    script: str
    shell: str | None
    forgiven: bool
    dvc: tuple[str, str] | None = None


def look_at_workflows(root: Path) -> list[Finding]:
    """Steps that run the gate and lose its exit code, or that there are none."""
    files = sorted(path for path in (root / _FOLDER).glob("*.y*ml") if path.is_file())
    found, gates = list[Finding](), list[_Step]()
    for path in files:
        shown = str(_FOLDER / path.name)
        data = _read(path)
        if data is None:
            remedy = "mend it: GitHub runs nothing of it"
            found.append(warning(AREA, "the workflow cannot be read.", where=shown, remedy=remedy))
        else:
            gates += _gates(data, shown)
    for step in gates:
        found += _lost(step)
    if not files and (root / ".git").exists():
        remedy = "on GitHub, copy one from docs/pull-requests.md; elsewhere, see that the gate runs in CI"
        return [warning(AREA, "there is no workflow of GitHub that would run the gate.", str(_FOLDER), remedy)]
    if files and not gates:
        remedy = "copy a workflow from docs/pull-requests.md, and make its check required for the main branch"
        found.append(warning(AREA, "no workflow runs the gate.", where=str(_FOLDER), remedy=remedy))
    if gates and not found:
        found.append(ok(AREA, f"{len(gates)} step(s) run the gate, and its exit code gets through"))
    return found


def _lost(step: _Step) -> list[Finding]:
    """Every way in which a step goes on as if the gate were open."""
    found = []
    if step.forgiven:
        what = "the gate runs with `continue-on-error`: it can fail and nothing is red."
        found.append(trouble(AREA, what, step.where, "remove continue-on-error from the step and its job"))
    if _TOLERATED.search(re.sub(r"(^|\s)#.*", "", step.script)):
        what = (
            "the step treats exit code 3 on its own: that is no verdict, and a checkpoint that cannot be read passes."
        )
        found.append(trouble(AREA, what, step.where, "let every exit code but 0 fail the step"))
    for line in _commands(step.script):
        if _FORGIVEN.search(line):
            what = "a command after `||` hides the failing gate."
            found.append(trouble(AREA, what, step.where, f"let it fail: `{line[:120]}`"))
        elif _PIPE.search(line) and "pipefail" not in step.script and step.shell != "bash":
            what = "a pipe hides the failing gate: the step's shell has no pipefail."
            found.append(trouble(AREA, what, step.where, "say `shell: bash`, or write `set -o pipefail` first"))
    if step.dvc is not None:
        where, command = step.dvc
        what = f"`{command}` obeys the pull request's .dvc/config before the gate runs: it can run any command."
        remedy = "`fairgate dataset pull` instead, or OWNER/fairgate/.github/actions/pull (docs/pull-requests.md)"
        found.append(trouble(AREA, what, where, remedy))
    return found


def _commands(script: str) -> Iterator[str]:
    """Commands that run the gate, continued lines joined, quoted text and comments taken out."""
    for line in _lines(script):
        bare = re.sub(r"(^|\s)#.*", "", re.sub(r"'[^']*'|\"[^\"]*\"", "''", line))
        if _GATE.search(bare):
            yield bare.strip()


def _lines(script: str) -> list[str]:
    return re.sub(r"\\\n", " ", script).splitlines()


def _dvc(script: str) -> str | None:
    """The first command of DVC that a script runs and that obeys a branch; words inside quotes may be a path to it."""
    for line in _lines(script):
        found = _DVC.search(re.sub(r"(^|\s)#.*", "", line))
        if found is not None and not re.match(r"\s*echo\b", line):
            return f"dvc {found[1]}"
    return None


def _gates(data: Mapping[str, Any], shown: str) -> Iterator[_Step]:
    common = _shell(data)
    events = str([value for key, value in data.items() if key in ("on", True)])  # YAML 1.1 reads `on` as true
    of_changes = "pull_request" in events or "merge_group" in events
    for name, job in _mapping(data.get("jobs")).items():
        job = _mapping(job)  # noqa: PLW2901 - foreign data
        steps, dvc = job.get("steps"), None
        for number, one in enumerate(steps if isinstance(steps, list) else [], start=1):
            step = _mapping(one)
            script = str(step.get("run") or "")
            uses = str(step.get("uses") or "")
            if of_changes and dvc is None and (command := _dvc(script)):
                dvc = (f"{shown}, job {name}, step {number}", command)
            by_action = bool(_ACTION.match(uses)) or (uses == "./" and "suite" in _mapping(step.get("with")))
            if not by_action and not any(True for _ in _commands(script)):
                continue
            forgiven = any(_tolerates(part.get("continue-on-error")) for part in (step, job))
            where = f"{shown}, job {name}, step {number}"
            yield _Step(where, script, step.get("shell") or _shell(job) or common, forgiven, dvc)


def _tolerates(said: Any) -> bool:
    """`continue-on-error: true`, also as text or as an expression that may come to it."""
    return said is True or (isinstance(said, str) and said.strip().lower() not in ("", "false", "${{ false }}"))


def _shell(part: Mapping[str, Any]) -> str | None:
    said = _mapping(_mapping(part.get("defaults")).get("run")).get("shell")
    return None if said is None else str(said)


def _mapping(part: Any) -> Mapping[str, Any]:
    return part if isinstance(part, dict) else {}


def _read(path: Path) -> Mapping[str, Any] | None:
    import yaml

    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
