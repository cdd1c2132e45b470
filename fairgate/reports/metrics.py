"""metrics.json: the numbers of a run, flat, for `dvc metrics diff` and whatever else compares numbers by name."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Final

from fairgate.records import RunRecord
from fairgate.reports.words import tally
from fairgate.whole import write_whole

METRICS_FILE: Final = "metrics.json"


def flat_metrics(record: RunRecord) -> dict[str, float]:
    """Each check's value by its item, in the unit of its metric, and `gate.pass`, `gate.fail` ... as counts of checks.

    A waived check counts in `gate.waived` alone. What was not measured, or is infinite, has no entry: never 0.
    """
    found: dict[str, float] = {f"gate.{place}": count for place, count in tally(record).items()}
    for check in record.checks:
        if check.value is not None and math.isfinite(check.value):
            found[check.item] = check.value
    return found


def write_metrics(record: RunRecord, folder: Path) -> Path:
    """Write `folder/metrics.json`, whole or not at all, and return its path. OSError where that cannot be."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / METRICS_FILE
    write_whole(path, json.dumps(flat_metrics(record), indent=2, ensure_ascii=False) + "\n")
    return path
