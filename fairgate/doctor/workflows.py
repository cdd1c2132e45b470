"""Does a workflow of GitHub run the gate, and does its exit code get through?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairgate.doctor.finding import Finding, ok, trouble, warning

AREA: Final = "workflows"
_FOLDER: Final = Path(".github/workflows")
_MOST_BYTES: Final = 1 << 20
_GATE: Final = re.compile(r"--fairness-suite|\bfairgate\s+(check|demo)\b")
_ACTION: Final = re.compile(r"(.*/)?fairgate(@.*)?$")
"""The action of this project: not the one in a folder of it, which tells of reports that others made."""
_FORGIVEN: Final = re.compile(r"\|\|\s*(true|:|exit\s+0|echo\b)")
_PIPE: Final = re.compile(r"(?<![|>])\|(?![|])")


@dataclass(frozen=True, slots=True)
class _Step:
    """A step that runs the gate; `shell` as step, job or workflow name it (None: GitHub's default)."""

    where: str
    script: str
    shell: str | None
    forgiven: bool


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
    for line in _commands(step.script):
        if _FORGIVEN.search(line):
            what = "a command after `||` hides the failing gate."
            found.append(trouble(AREA, what, step.where, f"let it fail: `{line[:120]}`"))
        elif _PIPE.search(line) and "pipefail" not in step.script and step.shell != "bash":
            what = "a pipe hides the failing gate: the step's shell has no pipefail."
            found.append(trouble(AREA, what, step.where, "say `shell: bash`, or write `set -o pipefail` first"))
    return found


def _commands(script: str) -> Iterator[str]:
    """Commands that run the gate, continued lines joined, quoted text and comments taken out."""
    for line in re.sub(r"\\\n", " ", script).splitlines():
        bare = re.sub(r"'[^']*'|\"[^\"]*\"", "''", line)
        bare = re.sub(r"(^|\s)#.*", "", bare)
        if _GATE.search(bare):
            yield bare.strip()


def _gates(data: Mapping[str, Any], shown: str) -> Iterator[_Step]:
    common = _shell(data)
    for name, job in _mapping(data.get("jobs")).items():
        job = _mapping(job)  # noqa: PLW2901 - foreign data
        steps = job.get("steps")
        for number, one in enumerate(steps if isinstance(steps, list) else [], start=1):
            step = _mapping(one)
            script = str(step.get("run") or "")
            uses = str(step.get("uses") or "")
            by_action = bool(_ACTION.match(uses)) or (uses == "./" and "suite" in _mapping(step.get("with")))
            if not by_action and not any(True for _ in _commands(script)):
                continue
            forgiven = True in (step.get("continue-on-error"), job.get("continue-on-error"))
            where = f"{shown}, job {name}, step {number}"
            yield _Step(where, script, step.get("shell") or _shell(job) or common, forgiven)


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
