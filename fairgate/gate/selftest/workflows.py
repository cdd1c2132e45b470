"""Whether a GitHub workflow runs the gate, and passes its exit code on.

Scripts are read line by line as text, and not as a shell would: plain commands are judged, and what is none is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairgate.gate.selftest.finding import Finding, ok, trouble, warning
from fairgate.ground.errors import clean, listed

AREA: Final = "workflows"
_FOLDER: Final = Path(".github/workflows")
_MOST_BYTES: Final = 1 << 20
_QUOTED: Final = re.compile(r"""('[^'\n]*'|"(?:\\.|[^"\\\n])*")|(?<!\S)#[^\n]*""")
"""A quoted text (group 1) or a comment."""
_GATE: Final = re.compile(r"(?:^|\s)--fairness-suite|(?:^|[\s/;&|(])fairgate\s+(?:check|demo)(?!\S)")
_DVC: Final = re.compile(
    r"(?:^|[\s/;&|(])dvc(?:\s+-\S*)*\s+(pull|fetch|checkout|repro|exp|get|import|import-url|update)(?![\w-])"
)
"""Commands of DVC that read a remote or write files as the branch's configuration and pointers say."""
_FORGIVEN: Final = re.compile(r"\|\|\s*(?:true|:|echo|exit\s+0)(?![\w.])")
_PIPE: Final = re.compile(r"(?<![|>])\|(?!\|)")
_UNCLEAR: Final = re.compile(r"\|\||(?<![&<>])&(?![&>])|^\s*(?:if|while|until|!)\s|\$\(|`|<<")
"""What may lose the exit code of a command on the same line, or not."""
_SWITCHED: Final = re.compile(r"(?:^|[\s;&])(?:set\s+\+\w*e|trap\s)", re.MULTILINE)
"""What may lose the exit code of every command of a script."""
_TREATED: Final = {
    "3": "that is no verdict, and a checkpoint that cannot be read passes",
    "10": "a change that somebody has to approve is merged without that",
}
"""Exit codes that a step may not treat on its own, and what happens if it does."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A step that runs the gate; `shell` as step, job or workflow name it (None: GitHub's default).

    `dvc` is the first command of DVC, with its place, that the job runs before or in the step, `action` the step's.
    """

    where: str
    script: str
    shell: str | None
    forgiven: bool
    dvc: tuple[str, str] | None = None
    action: str = ""


def look_at_workflows(root: Path) -> list[Finding]:
    """Steps that run the gate and lose its exit code, or that there are none."""
    files = sorted(path for path in (root / _FOLDER).glob("*.y*ml") if path.is_file())
    findings, gates = list[Finding](), list[_Step]()
    for path in files:
        shown = str(_FOLDER / path.name)
        data = _read(path)
        if data is None:
            remedy = "fix it: GitHub runs nothing of it"
            findings.append(warning(AREA, "the workflow cannot be read.", where=shown, remedy=remedy))
        else:
            gates += _gates(data, shown)
    for step in gates:
        findings += list(_lost(step)) or _unclear(step)
    if not files and (root / ".git").exists():
        remedy = (
            "on GitHub, `fairgate init` writes one (docs/use/pull-requests.md); elsewhere, see that the gate runs in CI"
        )
        return [warning(AREA, "there is no workflow of GitHub that would run the gate.", str(_FOLDER), remedy)]
    if files and not gates:
        remedy = "copy a workflow from docs/use/pull-requests.md, and make its check required for the main branch"
        findings.append(warning(AREA, "no workflow runs the gate.", where=str(_FOLDER), remedy=remedy))
    if gates and not findings:
        actions = listed(
            list(dict.fromkeys(clean(step.action, 120) for step in gates if "/" in step.action.removeprefix("./")))
        )
        unknown = f"; whether GitHub has {actions} is not looked up" if actions else ""
        findings.append(ok(AREA, f"{len(gates)} step(s) run the gate, and its exit code gets through{unknown}"))
    return findings


def _lost(step: _Step) -> Iterator[Finding]:
    """Every way in which a step goes on as if the gate were open."""
    if step.forgiven:
        what = "the gate runs with `continue-on-error`: it can fail and nothing is red."
        yield trouble(AREA, what, step.where, "remove continue-on-error from the step and its job")
    bare = _without_quotes(step.script)
    for code, meaning in _TREATED.items():
        compared = rf"\s(?:-eq|-ne|-le|-lt|=)\s+{code}(?![\w.])|[=!]=\s*{code}(?![\w.])"
        if re.search(rf"{compared}|(?<!\S)case\s[\s\S]*?[\s|(]{code}\s*[|)]", bare) is not None:
            what = f"the step treats exit code {code} on its own: {meaning}."
            yield trouble(AREA, what, step.where, "let every exit code but 0 fail the step")
    for line in filter(_GATE.search, bare.splitlines()):
        if _FORGIVEN.search(line):
            what = "a command after `||` hides the failing gate."
            yield trouble(AREA, what, step.where, f"let it fail: `{' '.join(line.split())[:120]}`")
        elif _PIPE.search(line) and "pipefail" not in step.script and step.shell != "bash":
            what = "a pipe hides the failing gate: the step's shell has no pipefail."
            yield trouble(AREA, what, step.where, "say `shell: bash`, or write `set -o pipefail` first")
    if re.match(r"OWNER/|.*@(COMMIT)?$", step.action):
        what = f"GitHub finds no action `{step.action}`, which is the documentation's placeholder: the job fails."
        yield trouble(AREA, what, step.where, "name fairgate's repository and the full hash of a commit")
    if step.dvc is not None:
        where, command = step.dvc
        what = f"`{command}` obeys the pull request's .dvc/config before the gate runs: it can run any command."
        remedy = "`fairgate dataset pull` instead, or OWNER/fairgate/.github/actions/pull (docs/use/pull-requests.md)"
        yield trouble(AREA, what, where, remedy)


def _unclear(step: _Step) -> Iterator[Finding]:
    """Parts of a step that are not plain commands, of which nobody here knows whether the exit code gets through."""
    bare = _without_quotes(step.script)
    parts = [line.strip() for line in bare.splitlines() if _GATE.search(line) and _UNCLEAR.search(line)]
    parts += [match[0].strip() for match in _SWITCHED.finditer(bare)]
    for part in parts:
        what = f"whether the gate's exit code gets through is not judged: `{part[:120]}` is no plain command."
        yield warning(AREA, what, step.where, "run the gate as a command of its own, as the last of the step")


def _without_quotes(script: str) -> str:
    """A script without comments and with continued lines joined; of quoted texts only single words are left."""

    def word(match: re.Match[str]) -> str:
        inner = (match[1] or "")[1:-1]
        return inner if re.fullmatch(r"[\w./:=@+${}-]*", inner) else "''"

    return _QUOTED.sub(word, script.replace("\\\n", " "))


def _dvc(script: str) -> str | None:
    """The first command of DVC that a script runs and that obeys a branch, also one in quotes (`sh -c "dvc pull"`)."""
    for line in script.replace("\\\n", " ").splitlines():
        uncommented = _QUOTED.sub(lambda match: match[1] or "", line)
        if re.match(r"\s*echo\s[^;&|]*$", uncommented):
            continue
        if match := _DVC.search(re.sub(r"[\"']", " ", uncommented)):
            return f"dvc {match[1]}"
    return None


def _gates(data: Mapping[str, Any], shown: str) -> Iterator[_Step]:
    common = _shell(data)
    events = str([value for key, value in data.items() if key in ("on", True)])  # YAML 1.1 reads `on` as true
    of_changes = "pull_request" in events or "merge_group" in events
    for name, job in _mapping(data.get("jobs")).items():
        job = _mapping(job)  # noqa: PLW2901 - foreign data
        steps, dvc = job.get("steps"), None
        for number, raw_step in enumerate(steps if isinstance(steps, list) else [], start=1):
            step = _mapping(raw_step)
            script = str(step.get("run") or "")
            uses = str(step.get("uses") or "")
            if of_changes and dvc is None and (command := _dvc(script)):
                dvc = (f"{shown}, job {name}, step {number}", command)
            # Not an action in a folder of this project: that one reports what others judged.
            by_action = uses.partition("@")[0].rpartition("/")[2] == "fairgate"
            by_action = by_action or (uses == "./" and "suite" in _mapping(step.get("with")))
            if not by_action and not _GATE.search(_without_quotes(script)):
                continue
            forgiven = any(_tolerates(part.get("continue-on-error")) for part in (step, job))
            where = f"{shown}, job {name}, step {number}"
            yield _Step(where, script, step.get("shell") or _shell(job) or common, forgiven, dvc, uses)


def _tolerates(value: Any) -> bool:
    """`continue-on-error: true`, also as text or as an expression that may come to it."""
    return value is True or (isinstance(value, str) and value.strip().lower() not in ("", "false", "${{ false }}"))


def _shell(part: Mapping[str, Any]) -> str | None:
    shell = _mapping(_mapping(part.get("defaults")).get("run")).get("shell")
    return None if shell is None else str(shell)


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
