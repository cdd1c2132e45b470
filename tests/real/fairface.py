"""Where the real FairFace files are, and the documented example repository that the tests run on them."""

from __future__ import annotations

import csv
import gzip
import shutil
from dataclasses import dataclass
from pathlib import Path

from fairgate import gate
from fairgate.records import CheckResult, GroupResult, RunRecord
from fairgate.reports import read_results
from fairgate.suites import resolve

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "docs" / "evidence" / "fairface"
REAL = REPOSITORY / "../shared/real"
SCORES, PHOTOGRAPHS = REAL / "fairface_clip", REAL / "fairface_photos"

GENDERS = ["Male", "Female"]
RACES = ["East Asian", "White", "Latino_Hispanic", "Southeast Asian", "Black", "Indian", "Middle Eastern"]
HEADER = "file,a photo of a man,a photo of a woman"


@dataclass(frozen=True)
class Example:
    """A copy of the example repository."""

    root: Path

    def check(self, suite: str, model: str, baseline: str, report: str) -> RunRecord:
        """Run a suite as `fairgate check` does; the record as it stands in results.json."""
        prepared = gate.prepare(suite, self.root)
        typed = {
            "model": model,
            "baseline": baseline,
            "report": str(self.root / "runs" / report),
            "mlflow": "off",
            "cache": str(self.root / "cache"),
            "device": "cpu",
        }
        settings = resolve(prepared.loaded.suite, typed, environment={})
        gate.publish(gate.evaluate(prepared, settings, command=f"fairgate check {suite}"), prepared, settings)
        return read_results(self.root / "runs" / report / "results.json")

    def page(self, report: str) -> str:
        """The report page of a run."""
        return (self.root / "runs" / report / "report.html").read_text(encoding="utf-8")


def example(root: Path) -> Example:
    """The example repository, copied to `root`."""
    shutil.copytree(EXAMPLE, root)
    return Example(root)


def scores_table(published: Path, target: Path) -> None:
    """The published similarities with the prompts as column names, as the example's README makes it."""
    with gzip.open(published, "rt", encoding="utf-8") as given:
        next(given)
        target.write_text(f"{HEADER}\n{given.read()}", encoding="utf-8")


def published_accuracy(path: Path) -> dict[str, float]:
    """`accuracy` and the accuracy of every group, in the published order."""
    with path.open(encoding="utf-8", newline="") as handle:
        (row,) = (row for row in csv.DictReader(handle) if row["Mode"] == "Top 1")
    return {name: float(text) for name, text in row.items() if name not in ("", "Mode")}


def by_id(record: RunRecord) -> dict[str, CheckResult]:
    return {check.id: check for check in record.checks}


def groups_of(check: CheckResult) -> dict[str, GroupResult]:
    return {group.group: group for group in check.groups}
