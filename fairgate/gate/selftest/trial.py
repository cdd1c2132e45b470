"""Gate runs on planted scores in a copy of the team's repository, as typed, and whether each shows what it must.

Nothing of theirs is written to.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from fairgate import gate
from fairgate.data import MANIFEST_FILE
from fairgate.gate.selftest.finding import TOOK_TOO_LONG, Finding, Level, Ran, run
from fairgate.gate.selftest.inject import NOISE, Group
from fairgate.ground.errors import BaselineError, listed
from fairgate.metrics import METRICS
from fairgate.records import CheckResult, RunRecord
from fairgate.reports import read_results
from fairgate.suites import FOLDER, Suite

_HIDDEN_BUT_NEEDED: Final = (".pytest.ini", ".coveragerc")
_LEFT_OUT: Final = (FOLDER, "datasets", "fairness_data", "mlruns", "mlartifacts", "__pycache__")
_CHECKPOINTS: Final = ("model", "baseline", "anchor")
_COPIED: Final = 4 * 2**20
"""Bytes of the largest file that is copied: what pytest writes beside it then never reaches the original."""


def make_view(prepared: gate.Prepared, folder: Path) -> Path:
    """A folder in which pytest finds the team's configuration, conftest files, this suite and its dataset.

    Files are copied; folders, and the shards of the dataset, are linked. The suite is a copy without its checkpoints:
    model and baseline are named on the command line, and an anchor cannot be compared with planted scores; of views of
    an image a table has no scores. git's folder is left out, and so is every store of runs.
    """
    root, loaded = prepared.root, prepared.loaded
    folder.mkdir(parents=True)
    for entry in sorted(root.iterdir()):
        hidden = entry.name.startswith(".") and entry.name not in _HIDDEN_BUT_NEEDED
        if hidden or entry.name in _LEFT_OUT or entry.suffix == ".db":
            continue
        if entry.is_dir():
            (folder / entry.name).symlink_to(entry.resolve(), target_is_directory=True)
        elif entry.is_file() and entry.stat().st_size <= _COPIED:
            shutil.copyfile(entry, folder / entry.name)
    dataset = prepared.dataset
    release = (
        folder / dataset.folder.parents[1].name / dataset.name / dataset.version
    )  # its own folder: the manifest is checked with it
    release.mkdir(parents=True)
    shutil.copyfile(dataset.folder / MANIFEST_FILE, release / MANIFEST_FILE)
    for shard in dataset.manifest.shards:
        (release / shard.file).symlink_to((dataset.folder / shard.file).resolve())
    (folder / FOLDER).mkdir()
    if (root / FOLDER / "conftest.py").is_file():
        shutil.copyfile(root / FOLDER / "conftest.py", folder / FOLDER / "conftest.py")
    suite: dict[str, Any] = {key: value for key, value in loaded.source.data.items() if key not in _CHECKPOINTS}
    suite["probes"] = {
        name: {**probe, "views": 1} if "views" in probe else probe for name, probe in suite["probes"].items()
    }
    text = yaml.safe_dump(suite, sort_keys=False, allow_unicode=True)
    (folder / FOLDER / f"{loaded.name}.yaml").write_text(text, encoding="utf-8")
    return folder


SECONDS: Final = 900
PLAIN, BIASED, INNOCENT = "PLAIN", "BIASED", "INNOCENT"
"""Tables of scores: as the model is, with the bias, and with next to nothing changed."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What was run, as a person would type it; how it ended; and the record that it wrote (None: none)."""

    command: str
    ran: Ran
    record: RunRecord | None

    @property
    def failing(self) -> dict[str, CheckResult]:
        """Checks that close the gate, by item; waived and watched ones do not."""
        checks = self.record.checks if self.record else []
        return {check.item: check for check in checks if check.verdict in ("fail", "error") and not check.excused}


@dataclass(frozen=True, slots=True)
class Bench:
    """Where trials are run: the view of the repository, a folder for their reports, and the tables of scores by name.

    Each trial compares a table, BIASED unless another is named, with PLAIN. Reported commands show the tables' names,
    unless the tables are kept. `program` are the words that start `fairgate`.
    """

    view: Path
    reports: Path
    suite: str
    tables: Mapping[str, str]
    kept: bool
    program: Sequence[str]

    def pytest(self, name: str, *more: str, table: str = BIASED) -> Trial:
        """`pytest --fairness-suite ...`, with further options and those that keep what it writes out of the way."""
        model, baseline = self.tables[table], f"model:{self.tables[PLAIN]}"
        words = ["--fairness-suite", self.suite, "--fairness-model", model, "--fairness-baseline", baseline, *more]
        report = self.reports / name
        aside = ["--fairness-mlflow", "off", "--fairness-wandb", "off", "--fairness-cache", "off"]
        aside += ["--fairness-report", str(report), f"--junitxml={report}.xml"]
        command = [sys.executable, "-m", "pytest", *words, *aside]
        return self._ended(self._typed(["pytest", *words]), command, name)

    def check(self, name: str) -> Trial:
        """`fairgate check`, which is the gate without pytest."""
        words = ["check", self.suite, "--model", self.tables[BIASED], "--baseline", f"model:{self.tables[PLAIN]}"]
        aside = ["--report", str(self.reports / name), "--mlflow", "off", "--wandb", "off", "--cache", "off"]
        command = [*self.program, *words, *aside]
        return self._ended(self._typed(["fairgate", *words]), command, name)

    def _typed(self, words: Sequence[str]) -> str:
        """The command as a person would type it."""
        if self.kept:
            return f"cd {shlex.quote(str(self.view))} && {shlex.join(words)}"
        names = {f"{start}{uri}": f"{start}{name}" for name, uri in self.tables.items() for start in ("", "model:")}
        return shlex.join([names.get(word, word) for word in words])

    def _ended(self, typed: str, meant: Sequence[str], name: str) -> Trial:
        quiet = {"PYTHONDONTWRITEBYTECODE": "1", "COVERAGE_FILE": str(self.reports / ".coverage"), "COLUMNS": "200"}
        ran = run(meant, self.view, SECONDS, quiet)
        try:
            record = read_results(self.reports / name / "results.json")
        except BaselineError:  # it wrote none: its output is reported instead
            record = None
        return Trial(typed, ran, record)


FAILED = 1
_SHOWN = 4
_COMPARE = "add a check of bias with `no_worse_than: baseline` and a margin"


@dataclass(frozen=True, slots=True)
class Planted:
    """What was planted: how much, in which group, the loss by probe, the items that fail, or cannot be computed,
    without it, and the probes in which nothing can be planted."""

    area: str
    suite: Suite
    strength: float
    group: Group
    lost: Mapping[str, float]
    already: frozenset[str]
    left_out: frozenset[str] = frozenset()

    def new(self, trial: Trial) -> dict[str, CheckResult]:
        """Items that fail with the bias and did not without it."""
        return {item: check for item, check in trial.failing.items() if item not in self.already}


def _finding(level: Level, aim: Planted, trial: Trial, what: str, remedy: str | None = None) -> Finding:
    return Finding(level, aim.area, what, remedy=remedy, ran=trial.command)


def first_run(aim: Planted, trial: Trial) -> Finding:
    """The first run: it must end with 1, and name the group that lost."""
    if unusable := _unusable(aim, trial):
        return unusable
    failing = {item: check for item, check in aim.new(trial).items() if check.verdict == "fail"}
    if not failing:
        return _not_seen(aim, trial)
    if trial.ran.code != FAILED:
        what = f"{some(failing)} failed, and pytest ended with exit code {trial.ran.code} instead of 1."
        remedy = "something changes the exit code: look at conftest.py, plugins and addopts"
        return _finding("trouble", aim, trial, what, remedy)
    named = {item: names for item, check in failing.items() if (names := _names(check, aim.group))}
    naming = [item for item, names in named.items() if any(name in trial.ran.out for name in names)]
    if not naming:
        what = f"expected exit 1 and saw it, from {some(failing)}; none of these names {aim.group.name}."
        remedy = "a check `over: crossed` (group_gap, or accuracy) tells who lost"
        return _finding("warning", aim, trial, what, remedy)
    what = f"expected exit 1 and saw it: {some(naming)} failed and named {aim.group.name}"
    if all(failing[item].rule != "no_worse_than" for item in failing):
        what += "; but by bounds alone: a model that keeps farther from them grows more biased unseen."
        return _finding("warning", aim, trial, what, _COMPARE)
    return _finding("ok", aim, trial, what)


def same_again(aim: Planted, first: Trial, trial: Trial) -> Finding:
    """Another way to run the same: the same exit code from the same items."""
    if unusable := _unusable(aim, trial):
        return unusable
    if trial.ran.code != FAILED or trial.failing.keys() != first.failing.keys():
        what = f"expected exit 1 from {some(first.failing)}; saw exit {trial.ran.code} from {some(trial.failing)}."
        return _finding("trouble", aim, trial, what, "two ways of running the gate disagree: run both and compare")
    return _finding("ok", aim, trial, f"expected exit 1 and saw it, from the same {len(trial.failing)} item(s)")


def control(aim: Planted, trial: Trial) -> Finding:
    """An innocent change must not fail by any check that does not fail without it."""
    if unusable := _unusable(aim, trial):
        return unusable
    failing = aim.new(trial)
    if failing:
        what = f"an innocent change (noise of {NOISE:g} standard deviations) fails by {some(failing)}."
        remedy = f"margins of 0, or bounds that the model only just meets: `fairgate power {aim.suite.suite}`"
        return _finding("trouble", aim, trial, what, remedy)
    record = trial.record
    thin = (
        [check.item for check in record.checks if check.verdict == "inconclusive" and not check.excused]
        if record
        else []
    )
    if thin:
        what = f"an innocent change is not cleared: {some(thin)} stay inconclusive."
        remedy = f"too few sets for these margins: `fairgate power {aim.suite.suite}` tells how many it takes"
        return _finding("warning", aim, trial, what, remedy)
    rest = f"; {some(aim.already)} fail(s) with and without it" if aim.already else ""
    return _finding("ok", aim, trial, f"an innocent change passes every regression check{rest}")


def _unusable(aim: Planted, trial: Trial) -> Finding | None:
    """A run that measured nothing."""
    if trial.ran.code == TOOK_TOO_LONG:
        return _finding("trouble", aim, trial, f"the run did not end within {SECONDS} s.")
    new = aim.new(trial)
    errors = {item: check for item, check in new.items() if check.verdict == "error"}
    if trial.record is None:
        what = f"the run wrote no record (exit {trial.ran.code}): {trial.ran.error_message}"
        return _finding("trouble", aim, trial, what, "run `fairgate doctor` without --inject-bias first")
    if errors and len(errors) == len(new):
        what = f"{some(errors)} could not be computed, and nothing failed: {next(iter(errors.values())).reason}"
        return _finding("trouble", aim, trial, what, "an error is no verdict: fix what it names, then plant again")
    return None


def _not_seen(aim: Planted, trial: Trial) -> Finding:
    """No new check fails: none compares a bias, a waiver or a wide margin lets it pass, or the sets are too few."""
    checks = trial.record.checks if trial.record else []
    compared = {
        check.id: check for check in aim.suite.checks if check.no_worse_than and check.probe not in aim.left_out
    }
    by_group = {
        key for key, check in compared.items() if check.over is not None or not METRICS[check.metric].spec.utility
    }
    comparing = [check for check in checks if check.id in by_group]
    if not comparing:
        what = (
            f"nothing fails that did not without it: no check of '{aim.suite.suite}' compares a bias with the baseline "
            "(there are only bounds and checks of use), so that it cannot see this kind of change."
        )
        return _finding("warning", aim, trial, what, _COMPARE)
    if waived := [check.item for check in checks if check.waived and check.verdict == "fail"]:
        what = f"{some(waived)} failed, and a waiver keeps the gate open."
        return _finding("trouble", aim, trial, what, "this regression would be merged: end the waiver, or narrow it")
    seen = "; ".join(_margin(check, aim.group) for check in comparing[:_SHOWN])
    what = (
        f"{aim.strength:g} taken from {aim.group.name} went unseen: nothing fails that did not without it (exit "
        f"{trial.ran.code}). {seen}."
    )
    if all((check.bound or 0.0) >= aim.strength for check in comparing):
        remedy = f"every margin is as wide as {aim.strength:g} or wider: narrow them, or plant more"
    elif all(METRICS[compared[check.id].metric].spec.turns for check in comparing):
        remedy = "these see a loss only where an answer turns: `p_true` or `group_gap` with a margin sees it sooner"
    else:
        remedy = f"`fairgate power {aim.suite.suite}` tells which loss each check fails with these sets"
    return _finding("trouble", aim, trial, what, remedy)


def _margin(check: CheckResult, group: Group) -> str:
    """`gaps[doctor]: pass, margin 0.3, moved by -0.1`: of the group that lost, where the check shows it."""
    by_group = {
        group_result.group: group_result.delta for group_result in check.groups if group_result.delta is not None
    }
    lost = [by_group[name] for name in (group.name, *group.parts) if name in by_group]
    moved = lost or list(by_group.values()) or [check.delta or 0.0]
    most = min(moved) if check.better == "higher" else max(moved)
    return f"{check.item}: {check.verdict}, margin {check.bound:g}, moved by {most:+.3f}"


def _names(check: CheckResult, group: Group) -> set[str]:
    """The names by which a failing check reports the group: its own, or a part's."""
    failed = {group_result.group for group_result in check.groups if group_result.verdict == "fail"} | {
        check.worst_group
    }
    return {name for name in (group.name, *group.parts) if name in failed}


def some(items: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    return listed(sorted(items), _SHOWN) or "nothing"
