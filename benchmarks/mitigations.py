"""CLIP before and after 16 mitigations, resolving pronouns on VisoGender: which does the gate stop?

    python -m benchmarks.mitigations --scores VISOGENDER --write docs/evidence

VISOGENDER holds `clip_debias.csv.gz` (vivekhruday05/VLM_Bias): of each run and picture, the likelihood of "his", "her"
and "their". The likeliest is the answer; "their" is none, and wrong. The suite is that of
`fairgate suite new --no-measured` for a table of labels, with a bound that the plain model meets and a check of gaps.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.interfaces.suite_writing import SuiteOptions, first_suite
from fairgate.records import RunRecord
from fairgate.suites import resolve

FILE = "clip_debias.csv.gz"
BASE = "clip"
ANSWERS = {"his": "masculine", "her": "feminine", "their": ""}
GAP = "  - {id: no-gender-falls-behind, probe: reads, metric: accuracy_gap, over: gender,\n"
BOUND = 0.52
"""The first guess of `suite new` is 0.75, and the plain model is right about 0.577 of the men: its interval's end."""
HEADER = (
    "mitigation",
    "verdict",
    "failing groups",
    "men before",
    "men now",
    "women before",
    "women now",
    "images needed",
)


def repository(root: Path, scores: Path, margin: float) -> list[str]:
    """A release of the pictures' labels, a table of each run's answers, and the suite; the names of the runs."""
    with gzip.open(scores / FILE, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = list(dict.fromkeys(row["run"] for row in rows))
    key = {id(row): "-".join((row["context"], row["item"], row["par_gender"] or "alone")) for row in rows}
    for name in names:
        answers = [
            (key[id(row)], "only", ANSWERS[max(ANSWERS, key=lambda word: float(row[word]))])
            for row in rows
            if row["run"] == name
        ]
        _write(root / f"{name}.csv", [("set_id", "member", "gender"), *answers])
    pictures = (
        {"set_id": key[id(row)], "member": "only", "subject": "person", "gender": row["occ_gender"]}
        for row in rows
        if row["run"] == BASE
    )
    write_dataset(
        root / "datasets/visogender/v1", pictures, name="visogender", version="v1", licence="see origin",
        attributes={"gender": ["masculine", "feminine"]}, recipe={"name": "published"}, counterfactual=False,
    )  # fmt: skip
    (root / "fairness_suites").mkdir()
    base = f"labels:{BASE}.csv"
    text = first_suite("pronouns", root, SuiteOptions("visogender", base, f"model:{base}", "gender", tolerates=margin))
    text = text.replace("at_least: 0.75", f"at_least: {BOUND:g}")
    text += f"{GAP}     no_worse_than: baseline, margin: {margin:g}}}\n"
    (root / "fairness_suites/pronouns.yaml").write_text(text, encoding="utf-8")
    return names


def _write(path: Path, rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def judged(root: Path, name: str) -> RunRecord:
    """The record of a mitigation against the plain model."""
    prepared = gate.prepare("pronouns", root)
    typed: dict[str, Any] = {"model": f"labels:{name}.csv", "mlflow": "off", "cache": "off"}
    return gate.evaluate(prepared, resolve(prepared.loaded.suite, typed, environment={}), command="benchmark").record


def changes(record: RunRecord) -> dict[str, tuple[float, float]]:
    """Of each group, its accuracy before and now."""
    check = next(check for check in record.checks if check.id == "no-group-loses")
    return {group.group: ((group.value or 0.0) - (group.delta or 0.0), group.value or 0.0) for group in check.groups}


def rows(root: Path, names: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """A row per mitigation."""
    for name in names:
        record = judged(root, name)
        regressions = [check for check in record.checks if check.rule == "no_worse_than"]
        failing = sorted({group.group for check in regressions for group in check.failing_groups})
        numbers = [f"{value:.3f}" for gender in ("masculine", "feminine") for value in changes(record)[gender]]
        needed = [check.sets_needed for check in regressions if check.sets_needed]
        yield name, record.verdict, " ".join(failing), *numbers, max(needed, default="")


def main() -> None:
    """Every mitigation against the plain model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scores", type=Path, required=True)
    parser.add_argument("--write", type=Path, required=True)
    parser.add_argument("--margin", type=float, default=0.05)
    typed = parser.parse_args()
    if not (typed.scores / FILE).is_file():
        print(f"skipped: no {FILE} at {typed.scores}")
        return
    with tempfile.TemporaryDirectory() as folder:
        names = repository(Path(folder), typed.scores, typed.margin)
        table = [HEADER, *rows(Path(folder), [name for name in names if name != BASE])]
    for row in table:
        print(*row, sep=" | ")
    _write(typed.write / "mitigations.csv", table)


if __name__ == "__main__":
    main()
