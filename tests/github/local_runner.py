"""A workflow carried out whole by act, a runner for this machine: jobs, conditions, `needs`, composite actions.

Actions of others (checkout, setup-python, upload-artifact) come from GitHub, which a test does not reach: stand-ins do
what is needed of them. `checkout` clones the team's remote for real. act runs the jobs on this machine, in a folder of
its own, without containers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from github_files import ROOT, machine

ACT = Path(sys.executable).with_name("act")
OURS = "OWNER/fairgate@COMMIT"
PULL = "OWNER/fairgate/.github/actions/pull@COMMIT"
_LABELS = ("self-hosted", "linux", "gpu", "ubuntu-24.04")
_CHECKOUT = """\
git clone --quiet "$STAND_IN_REMOTE" "$GITHUB_WORKSPACE/.clone"
mv "$GITHUB_WORKSPACE/.clone/.git" "$GITHUB_WORKSPACE/"
rm -rf "$GITHUB_WORKSPACE/.clone"
git -C "$GITHUB_WORKSPACE" checkout --quiet --force --detach "${REF:-$GITHUB_SHA}"
"""
_SCRIPTS = {
    "/checkout@": _CHECKOUT,
    "/upload-artifact@": 'cp -r "$FILES" "$STAND_IN_ARTIFACTS/$NAME"',
    "/download-artifact@": 'cp -r "$STAND_IN_ARTIFACTS" "$FILES"',
}


@dataclass(frozen=True)
class Outcome:
    """What a runner says of a workflow: the result of every job that ran, by id, and all lines."""

    jobs: dict[str, str]
    log: str


def run_workflow(
    text: str, event: str, payload: Mapping[str, object], *, remote: Path, folder: Path, python: str = sys.executable
) -> Outcome:
    """Carry out a workflow for an event, in a clone of the remote's main branch; `python` has fairgate already."""
    home, checkout, artifacts = folder / "home", folder / "checkout", folder / "artifacts"
    home.mkdir(parents=True)
    artifacts.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(remote), str(checkout)], check=True, env=_git())
    subprocess.run(
        ["git", "remote", "set-url", "origin", "https://github.com/team/models.git"],
        cwd=checkout,
        check=True,
        env=_git(),
    )
    workflow = checkout / ".github" / "workflows" / "fairness-gate.yml"
    workflow.parent.mkdir(parents=True, exist_ok=True)
    workflow.write_text(_with_python(text, python), encoding="utf-8")
    (folder / "event.json").write_text(json.dumps(payload), encoding="utf-8")
    words = [str(ACT), event, "--eventpath", str(folder / "event.json"), "--workflows", str(workflow), "--json"]
    words += ["--action-offline-mode", "--container-daemon-socket", "-", "--env", f"STAND_IN_REMOTE={remote}"]
    words += ["--env", f"STAND_IN_ARTIFACTS={artifacts}"]
    words += [word for label in _LABELS for word in ("--platform", f"{label}=-self-hosted")]
    words += [
        word for name, place in _stand_ins(text, folder).items() for word in ("--local-repository", f"{name}={place}")
    ]
    if "PYTHONPATH" in os.environ:
        words += ["--env", f"PYTHONPATH={os.environ['PYTHONPATH']}"]
    env = {**machine(), "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_CONFIG_HOME": str(home)}
    done = subprocess.run(
        words, cwd=checkout, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False
    )
    return _outcome(done.stdout.decode(errors="replace"))


def _outcome(output: str) -> Outcome:
    jobs, lines = {}, []
    for line in output.splitlines():
        if not line.startswith("{"):
            lines.append(line)
            continue
        told = json.loads(line)
        lines.append(str(told.get("msg", "")).rstrip())
        if "jobResult" in told:
            jobs[str(told["jobID"])] = str(told["jobResult"])
    return Outcome(jobs, "\n".join(lines))


def _with_python(text: str, python: str) -> str:
    """The workflow with an interpreter that has fairgate, where it would install several GB; `./` is this checkout."""
    workflow = yaml.safe_load(text)
    workflow["on"] = workflow.pop(True, workflow.get("on"))
    here = {"./": OURS, "./.github/actions/pull": PULL}
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            if "uses" in step:
                step["uses"] = here.get(step["uses"], step["uses"])
            if step.get("uses") in (OURS, PULL):
                step["with"] = {**step.get("with", {}), "python": python}
    return yaml.safe_dump(workflow, sort_keys=False)


def _stand_ins(text: str, folder: Path) -> dict[str, Path]:
    """Folders of the actions that a workflow and ours use, by their name with its commit."""
    fairgate = folder / "fairgate"
    fairgate.mkdir()
    for name in ("action.yml", "constraints.txt", ".github/actions/pull/action.yml"):
        (fairgate / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, fairgate / name)
    found = {OURS: fairgate}
    every = text + (ROOT / "action.yml").read_text(encoding="utf-8")
    for name in sorted(set(re.findall(r"uses: (actions/[\w-]+@\w+)", every))):
        place = folder / name.replace("/", "-").partition("@")[0]
        place.mkdir(exist_ok=True)
        script = next((text for part, text in _SCRIPTS.items() if part in name), "true")
        inputs = {each: {"default": ""} for each in ("ref", "name", "path")}
        env = {"REF": "${{ inputs.ref }}", "NAME": "${{ inputs.name }}", "FILES": "${{ inputs.path }}"}  # PATH is taken
        step = {"shell": "bash", "run": script, "env": env}
        action = {"name": name, "description": "a stand-in", "inputs": inputs}
        (place / "action.yml").write_text(
            yaml.safe_dump({**action, "runs": {"using": "composite", "steps": [step]}}), encoding="utf-8"
        )
        found[name] = place
    return found


def _git() -> dict[str, str]:
    return {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
