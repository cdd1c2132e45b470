"""`fairgate study intersections` as its page quotes it, on a few drawn sets and the shipped checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.portraits.dataset import write_occupations

CHECKPOINTS = Path(__file__).parents[2] / "build" / "portraits" / "checkpoints"


@pytest.mark.nightly
@pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="no checkpoints here: run `dvc pull`")
def test_the_women_whom_the_planted_bias_hides_are_not_among_the_first_doctors(tmp_path: Path) -> None:
    write_occupations(tmp_path / "datasets" / "occupations" / "v1", sets=16)
    models = [f"open_clip:local-dir:{CHECKPOINTS / name}" for name in ("base", "biased")]
    words = [word for uri in models for word in ("--model", uri)]
    out = tmp_path / "study"
    command = ["study", "intersections", *words, "--data", "occupations", "--show", "doctor", "--k", "32"]
    result = CliRunner().invoke(app, [*command, "--root", str(tmp_path), "--draws", "200", "--out", str(out)])
    assert result.exit_code == 0, result.output
    record = json.loads((out / "study.json").read_text())
    (shares,) = (one for one in record["tables"] if one["name"].startswith("shares-doctor"))
    at = {name: place for place, name in enumerate(shares["columns"])}
    rows = {row[0]: row for row in shares["rows"]}
    for group in ("brown × female", "dark × female"):  # planted
        assert rows[group][at["biased"]]["value"] == 0.0
        assert rows[group][at["base"]]["value"] > 0.0
