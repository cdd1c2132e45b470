"""One real run of the gate on planted scores, in a process or a shell of its own."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairgate.doctor.programs import Ran, run
from fairgate.errors import BaselineError
from fairgate.records import CheckResult, RunRecord
from fairgate.reports import read_results

SECONDS: Final = 900
_CHECK: Final = "import sys; from fairgate.cli.main import app; sys.argv[0] = 'fairgate'; app()"


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
    """Where trials are run: the view of the repository, a folder for their reports, and the device."""

    view: Path
    reports: Path
    suite: str

    def pytest(self, model: str, baseline: str, name: str, *more: str) -> Trial:
        """`pytest --fairness-suite ...`, with further options."""
        words = [*self._pytest(model, baseline, name), *more]
        return self._ended(["pytest", *words], [sys.executable, "-m", "pytest", *words], name)

    def piped(self, model: str, baseline: str, name: str, *, pipefail: bool) -> Trial | None:
        """The same with its output in a pipe, as `| tee log` has it. None where there is no such shell."""
        words = self._pytest(model, baseline, name)
        shell = shutil.which("bash" if pipefail else "sh")
        if shell is None:
            return None
        start = "set -o pipefail; " if pipefail else ""
        typed = [Path(shell).name, "-c", f"{start}{shlex.join(['pytest', *words])} | cat"]
        meant = [shell, "-c", f"{start}{shlex.join([sys.executable, '-m', 'pytest', *words])} | cat"]
        return self._ended(typed, meant, name)

    def check(self, model: str, baseline: str, name: str) -> Trial:
        """`fairgate check`, which is the gate without pytest."""
        words = ["check", self.suite, "--model", model, "--baseline", baseline, "--root", str(self.view)]
        words += ["--report", str(self.reports / name), "--mlflow", "off", "--cache", "off"]
        return self._ended(["fairgate", *words], [sys.executable, "-c", _CHECK, *words], name)

    def _pytest(self, model: str, baseline: str, name: str) -> list[str]:
        report = self.reports / name
        words = ["--fairness-suite", self.suite, "--fairness-model", model, "--fairness-baseline", baseline]
        words += ["--fairness-report", str(report), "--fairness-mlflow", "off", "--fairness-cache", "off"]
        return [*words, f"--junitxml={report}.xml"]

    def _ended(self, typed: Sequence[str], meant: Sequence[str], name: str) -> Trial:
        quiet = {"PYTHONDONTWRITEBYTECODE": "1", "COVERAGE_FILE": str(self.reports / ".coverage"), "COLUMNS": "200"}
        ran = run(meant, self.view, SECONDS, quiet)
        try:
            record = read_results(self.reports / name / "results.json")
        except BaselineError:  # it wrote none: what it said is told instead
            record = None
        return Trial(shlex.join(typed), ran, record)


def has_xdist() -> bool:
    """Whether items can be spread over workers here."""
    return importlib.util.find_spec("xdist") is not None and "no:xdist" not in os.environ.get("PYTEST_ADDOPTS", "")
