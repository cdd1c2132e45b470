"""Whether a GitHub workflow runs the gate, and passes its exit code on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Final

from fairgate.gate.selftest.finding import Finding, ok, trouble, warning

AREA: Final = "workflows"
_FOLDER: Final = Path(".github/workflows")
_MOST_BYTES: Final = 1 << 20
_DVC: Final = ("pull", "fetch", "checkout", "repro", "exp", "get", "import", "import-url", "update")
"""Commands of DVC that read a remote or write files as the branch's configuration and pointers say."""
_COMPARISONS: Final = ("-eq", "-ne", "-le", "-lt", "==", "!=", "=")
_TREATED: Final = {
    "3": "that is no verdict, and a checkpoint that cannot be read passes",
    "10": "a change that somebody has to approve is merged without that",
}
"""Exit codes that a step may not treat on its own, and what happens if it does."""
_OPERATORS: Final = frozenset("();<>|&")


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
        findings += _lost(step)
    if not files and (root / ".git").exists():
        remedy = (
            "on GitHub, `fairgate init` writes one (docs/use/pull-requests.md); elsewhere, see that the gate runs in CI"
        )
        return [warning(AREA, "there is no workflow of GitHub that would run the gate.", str(_FOLDER), remedy)]
    if files and not gates:
        remedy = "copy a workflow from docs/use/pull-requests.md, and make its check required for the main branch"
        findings.append(warning(AREA, "no workflow runs the gate.", where=str(_FOLDER), remedy=remedy))
    if gates and not findings:
        findings.append(ok(AREA, f"{len(gates)} step(s) run the gate, and its exit code gets through"))
    return findings


def _lost(step: _Step) -> Iterator[Finding]:
    """Every way in which a step goes on as if the gate were open."""
    if step.forgiven:
        what = "the gate runs with `continue-on-error`: it can fail and nothing is red."
        yield trouble(AREA, what, step.where, "remove continue-on-error from the step and its job")
    words = [word for line in _lines(step.script) for word in line]
    for code, meaning in _TREATED.items():
        if not _tests_for(code, words):
            continue
        what = f"the step treats exit code {code} on its own: {meaning}."
        yield trouble(AREA, what, step.where, "let every exit code but 0 fail the step")
    for line in filter(_runs_gate, _lines(step.script)):
        if _forgives(line):
            what = "a command after `||` hides the failing gate."
            yield trouble(AREA, what, step.where, f"let it fail: `{' '.join(line)[:120]}`")
        elif any(_is_pipe(word) for word in line) and "pipefail" not in step.script and step.shell != "bash":
            what = "a pipe hides the failing gate: the step's shell has no pipefail."
            yield trouble(AREA, what, step.where, "say `shell: bash`, or write `set -o pipefail` first")
    if step.dvc is not None:
        where, command = step.dvc
        what = f"`{command}` obeys the pull request's .dvc/config before the gate runs: it can run any command."
        remedy = "`fairgate dataset pull` instead, or OWNER/fairgate/.github/actions/pull (docs/use/pull-requests.md)"
        yield trouble(AREA, what, where, remedy)


class _Words(shlex.shlex):
    """Words and operators of a line of shell. Unlike shlex's own, a `#` inside a word begins no comment."""

    def __init__(self, line: str) -> None:
        super().__init__(line, posix=True, punctuation_chars=True)
        self.whitespace_split = True

    @property
    def commenters(self) -> str:
        """Between words alone."""
        return "#" if getattr(self, "state", None) == " " else ""

    @commenters.setter
    def commenters(self, _given: str) -> None:
        pass


def _lines(script: str) -> Iterator[list[str]]:
    """Words of each command line: continued lines and quotes over several lines are one, comments are left out."""
    waiting = ""
    for line in script.replace("\\\n", " ").splitlines():
        waiting += line
        try:
            words = list(_Words(waiting))
        except ValueError:  # a quote that is not closed yet
            waiting += "\n"
            continue
        yield words
        waiting = ""
    yield from (line.split() for line in waiting.splitlines())  # never closed: such as an apostrophe in a here-document


def _is_command(word: str, name: str) -> bool:
    return PurePosixPath(word).name == name


def _is_pipe(word: str) -> bool:
    return _OPERATORS.issuperset(word) and "|" in word.replace("||", "").replace(">|", "")


def _runs_gate(words: Sequence[str]) -> bool:
    return any(word.startswith("--fairness-suite") for word in words) or any(
        _is_command(word, "fairgate") and after in ("check", "demo") for word, after in pairwise(words)
    )


def _forgives(words: Sequence[str]) -> bool:
    """`|| true`, `|| :`, `|| exit 0`, `|| echo ...`."""
    after = [words[place + 1 : place + 3] for place, word in enumerate(words) if word == "||"]
    return any(rest[:1] in (["true"], [":"], ["echo"]) or rest == ["exit", "0"] for rest in after)


def _tests_for(code: str, words: Sequence[str]) -> bool:
    """`[ $? -eq 3 ]`, `((status==3))`, `case $status in 0|3)`."""
    in_case = False
    for word, after in pairwise([*words, ""]):
        in_case = in_case or word == "case"
        if (word in _COMPARISONS and after == code) or word.endswith((f"=={code}", f"!={code}")):
            return True
        if in_case and word == code and after[:1] in ("|", ")"):
            return True
    return False


def _dvc(script: str) -> str | None:
    """The first command of DVC that a script runs and that obeys a branch, also one in quotes (`sh -c "dvc pull"`)."""
    for words in _lines(script):
        if words[:1] == ["echo"]:
            continue
        for place, word in enumerate(words):
            rest = [after for after in words[place + 1 :] if not after.startswith("-")]
            if _is_command(word, "dvc") and rest[:1] and rest[0] in _DVC:
                return f"dvc {rest[0]}"
            if len(word.split()) > 1 and (inside := _dvc(word)) is not None:
                return inside
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
            by_action = _is_command(uses.partition("@")[0], "fairgate")
            by_action = by_action or (uses == "./" and "suite" in _mapping(step.get("with")))
            if not by_action and not any(map(_runs_gate, _lines(script))):
                continue
            forgiven = any(_tolerates(part.get("continue-on-error")) for part in (step, job))
            where = f"{shown}, job {name}, step {number}"
            yield _Step(where, script, step.get("shell") or _shell(job) or common, forgiven, dvc)


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
