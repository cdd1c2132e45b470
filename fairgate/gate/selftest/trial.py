"""One gate run on planted scores in a copy of the team's repository, as typed; nothing of theirs is written to."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from fairgate import gate
from fairgate.data import MANIFEST_FILE
from fairgate.gate.selftest.finding import Ran, run
from fairgate.ground.errors import BaselineError
from fairgate.records import CheckResult, RunRecord
from fairgate.reports import read_results
from fairgate.suites import FOLDER

_HIDDEN_BUT_NEEDED: Final = (".pytest.ini", ".coveragerc")
_LEFT_OUT: Final = (FOLDER, "datasets", "mlruns", "mlartifacts", "__pycache__")
_CHECKPOINTS: Final = ("model", "baseline", "anchor")
_COPIED: Final = 4 * 2**20
"""Bytes of the largest file that is copied: what pytest writes beside it then never reaches the original."""


def make_view(prepared: gate.Prepared, folder: Path) -> Path:
    """A folder in which pytest finds the team's configuration, conftest files, this suite and its dataset.

    Files are copied; folders, and the shards of the dataset, are linked. The suite is a copy without its checkpoints:
    model and baseline are named on the command line, and an anchor cannot be compared with planted scores. git's folder
    is left out, and so is every store of runs.
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
    release = folder / "datasets" / dataset.name / dataset.version  # its own folder: the manifest is checked with it
    release.mkdir(parents=True)
    shutil.copyfile(dataset.folder / MANIFEST_FILE, release / MANIFEST_FILE)
    for shard in dataset.manifest.shards:
        (release / shard.file).symlink_to((dataset.folder / shard.file).resolve())
    (folder / FOLDER).mkdir()
    if (root / FOLDER / "conftest.py").is_file():
        shutil.copyfile(root / FOLDER / "conftest.py", folder / FOLDER / "conftest.py")
    suite: dict[str, Any] = {key: value for key, value in loaded.source.data.items() if key not in _CHECKPOINTS}
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
        """Checks that close the gate, by item; waived ones do not."""
        checks = self.record.checks if self.record else []
        return {check.item: check for check in checks if check.verdict in ("fail", "error") and not check.waived}


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
        """`pytest --fairness-suite ...`, with further options."""
        return self._ended(*self._pytest(name, table, *more), name)

    def piped(self, name: str, *, pipefail: bool) -> Trial | None:
        """The same with its output in a pipe, as `| tee log` has it. None where there is no such shell."""
        shell = shutil.which("bash" if pipefail else "sh")
        if shell is None:
            return None
        start, (typed, meant) = "set -o pipefail; " if pipefail else "", self._pytest(name, BIASED)
        typed = shlex.join([Path(shell).name, "-c", f"{start}{typed} | cat"])
        return self._ended(typed, [shell, "-c", f"{start}{shlex.join(meant)} | cat"], name)

    def check(self, name: str) -> Trial:
        """`fairgate check`, which is the gate without pytest."""
        words = ["check", self.suite, "--model", self.tables[BIASED], "--baseline", f"model:{self.tables[PLAIN]}"]
        aside = ["--report", str(self.reports / name), "--mlflow", "off", "--wandb", "off", "--cache", "off"]
        command = [*self.program, *words, *aside]
        return self._ended(self._typed(["fairgate", *words]), command, name)

    def _pytest(self, name: str, table: str, *more: str) -> tuple[str, list[str]]:
        """A command as typed, and with options that keep what it writes out of the way."""
        model, baseline = self.tables[table], f"model:{self.tables[PLAIN]}"
        words = ["--fairness-suite", self.suite, "--fairness-model", model, "--fairness-baseline", baseline, *more]
        report = self.reports / name
        aside = [
            "--fairness-report",
            str(report),
            "--fairness-mlflow",
            "off",
            "--fairness-wandb",
            "off",
            "--fairness-cache",
            "off",
        ]
        command = [sys.executable, "-m", "pytest", *words, *aside, f"--junitxml={report}.xml"]
        return self._typed(["pytest", *words]), command

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
