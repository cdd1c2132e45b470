"""The repository's workflows and actions, and a runner that carries out one of their steps."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from github_expressions import filled

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "action.yml"
REPORT = ROOT / ".github" / "actions" / "report"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PULL = ROOT / ".github" / "actions" / "pull" / "action.yml"
ACTIONS = [ACTION, REPORT / "action.yml", PULL]


def read(path: Path) -> dict[str, Any]:
    """A YAML file. `on` is a key, not a truth."""
    found = deepcopy(_parsed(path.read_text(encoding="utf-8")))
    assert isinstance(found, dict)
    if True in found:
        found["on"] = found.pop(True)
    return found


@cache
def _parsed(text: str) -> object:
    """Once for each text: every judgment of an attack reads the action, which takes as long as its gate."""
    return yaml.safe_load(text)


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(workflow file, job id, job) of every workflow."""
    for path in WORKFLOWS:
        for name, job in read(path)["jobs"].items():
            yield path.name, name, job


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """(file, step) of every workflow and action."""
    for file, _, job in jobs():
        yield from ((file, step) for step in job["steps"])
    for path in ACTIONS:
        yield from ((path.parent.name or path.name, step) for step in read(path)["runs"]["steps"])


def step_of(action: Path, name: str) -> dict[str, Any]:
    """An action's step by its name."""
    found: dict[str, Any] = next(step for step in read(action)["runs"]["steps"] if step.get("name") == name)
    return found


def defaults(action: Path) -> dict[str, str]:
    """The inputs of an action that nobody gave."""
    return {name: str(one.get("default", "")) for name, one in read(action)["inputs"].items()}


@dataclass(frozen=True)
class Ran:
    """A step that was carried out."""

    code: int
    log: str
    outputs: dict[str, str]
    summary: str

    @property
    def obeyed(self) -> list[str]:
        """The workflow commands that GitHub's runner takes from the log: none while `stop-commands` holds."""
        token: str | None = None
        found = []
        for line in self.log.splitlines():
            said = line.strip()
            if token is not None:
                token = None if said == f"::{token}::" else token
            elif said.startswith("::stop-commands::"):
                token = said.removeprefix("::stop-commands::")
            elif said.startswith("::") or "##[" in said:
                found.append(said)
        return found


def machine() -> dict[str, str]:
    """This process's environment without what GitHub or a user of fairgate would set. (OPENBLAS_CORETYPE, for one, is
    kept: another one rounds otherwise.)"""
    return {name: text for name, text in os.environ.items() if not name.startswith(("GITHUB_", "FAIRGATE_"))}


def carry_out(
    step: Mapping[str, Any], context: Mapping[str, Any], cwd: Path, scratch: Path, environment: Mapping[str, str]
) -> Ran:
    """Run a step's script as GitHub does: bash with -eo pipefail, values in the environment alone."""
    scratch.mkdir(parents=True, exist_ok=True)
    script, output, summary = scratch / "step.sh", scratch / "output", scratch / "summary"
    script.write_text(step["run"], encoding="utf-8")
    output.write_text("")
    summary.write_text("")
    env = machine()
    env |= {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    env |= {"RUNNER_TEMP": str(scratch), **environment}
    env |= {name: filled(text, context) for name, text in step.get("env", {}).items()}
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    done = subprocess.run(
        words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False
    )
    outputs = dict(re.findall(r"^(\w+)=(.*)$", output.read_text(encoding="utf-8"), re.MULTILINE))
    return Ran(done.returncode, done.stdout.decode(errors="replace"), outputs, summary.read_text(encoding="utf-8"))
