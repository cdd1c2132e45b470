"""What committed baselines, kept records and shipped data rest on, and its values on the day it was written down.

    python tests/unchanged/held.py      # writes held.json anew; only where a change of these values is meant

A change of one of these makes baselines that teams have committed incomparable, or their verdicts other ones.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parents[2]
HELD = Path(__file__).with_suffix(".json")
SUITES = sorted(path.stem for path in (ROOT / "fairness_suites").glob("*.yaml"))
_NO_NUMBERS = {"created_at", "seconds", "command", "environment", "schema_version", "scores_digest"}
"""`scores_digest`: another processor's exponential differs in its last bit, and a digest tells it."""


def questions(suite: str) -> dict[str, str]:
    """Digests of what a shipped suite's probes ask: a baseline is comparable only while they are equal."""
    from fairgate.suites.load import load_suite
    from fairgate.suites.probing import probe_digests

    return probe_digests(load_suite(ROOT / "fairness_suites" / f"{suite}.yaml", ROOT).suite)


def answers() -> dict[str, str]:
    """Digests of four fixed tables of answers, one for every mix of columns that a probe may have."""
    from fairgate.probes import ProbeScores, scores_digest

    value = np.array([0.125, 0.5, 1.0])
    said = np.array(["nurse", "doctor", "médecin"], dtype=object)
    right = np.array([True, False, True])
    places = np.array([1, 3, 2])
    tables = {
        "values": ProbeScores(value),
        "labels": ProbeScores(value, predicted=said),
        "labels and truth": ProbeScores(value, predicted=said, correct=right),
        "ranks": ProbeScores(value, rank=places),
    }
    return {name: scores_digest({"probe": table}) for name, table in tables.items()}


def streams() -> dict[str, list[int]]:
    """First draws of streams with names of several kinds."""
    from fairgate.ground.randomness import stream

    names: dict[str, tuple[str | int, ...]] = {"none": (), "text": ("sets", "doctor"), "numbers": ("k", 8, 0)}
    return {name: stream(7, *words).integers(1 << 40, size=3).tolist() for name, words in names.items()}


def toy_record() -> dict[str, Any]:
    """Every number of a small gate run: resampled limits, adjusted p-values and the fair ranker's values among them."""
    from toy_repository import toy_repository

    from fairgate import gate
    from fairgate.suites import resolve

    with tempfile.TemporaryDirectory() as folder:
        toy = toy_repository(Path(folder))
        prepared = gate.prepare("jobs", toy.root)
        typed: dict[str, str | None] = {"mlflow": "off", "cache": "off", "model": "scores:biased.csv?values=logit"}
        settings = resolve(prepared.loaded.suite, typed, environment={})
        record = gate.evaluate(prepared, settings, command="pytest").record
    plain = json.loads(record.model_dump_json())
    plain["checks"] = {check.item: each for check, each in zip(record.checks, plain["checks"], strict=True)}
    return {key: value for key, value in plain.items() if key not in _NO_NUMBERS}


def builds() -> dict[str, str]:
    """The content of everything that a DVC stage makes: code moves, pictures do not."""
    stages = yaml.safe_load((ROOT / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    outs = [out for stage in stages.values() for out in stage.get("outs", ())]
    return {out["path"]: out["md5"] for out in outs if not out["path"].endswith(("yield.json", "yield.csv"))}


def everything() -> dict[str, Any]:
    """All of it, as it is now."""
    asked = {suite: questions(suite) for suite in SUITES}
    return {
        "questions": asked,
        "answers": answers(),
        "streams": streams(),
        "toy record": toy_record(),
        "builds": builds(),
    }


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    HELD.write_text(json.dumps(everything(), indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
