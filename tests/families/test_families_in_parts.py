"""Parts of a run merge into the answers of one job, whatever the family and the probe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from families_page import PAGE, WORKS, read
from family_rows import ROWS
from family_runs import Bench

from fairgate import gate
from fairgate.probes import scores_digest
from fairgate.suites import resolve

pytestmark = [
    pytest.mark.usefixtures("seeing_here"),
    pytest.mark.nightly,
    pytest.mark.xdist_group("families"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]
CELLS = [
    (key, column)
    for key, cells in read(PAGE.read_text(encoding="utf-8"))["probes"].items()
    for column, text in cells.items()
    if text == WORKS and not key.startswith("openai")  # nothing shows that one model answers all parts
]
BATCHES = [
    "embeddings.BATCH_CPU",
    "vlm.judged._READ",
    "vlm.family._AT_ONCE",
    "detection.family._BATCH",
    "generation.diffusion_classifier.family._BATCH",
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("families"))


@pytest.mark.parametrize(("key", "column"), CELLS)
def test_merged_parts_of_every_probe_on_every_family_are_the_answers_of_one_job(
    key: str, column: str, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in BATCHES:
        monkeypatch.setattr(f"fairgate.models.{name}", 2)
    row = ROWS[key]
    prepared = bench.prepared(column)
    options = {"model": bench.uri(row, row.kinds[0]), "mlflow": "off", "device": "cpu", "cache": "off"}

    def settings(**more: str):
        return resolve(prepared.loaded.suite, {**options, **more}, environment={})

    whole = gate.evaluate(prepared, settings(), command="x")
    folders = [tmp_path / str(number) for number in (1, 2)]
    for number, folder in enumerate(folders, start=1):
        gate.write_part(prepared, settings(report=str(folder)), (number, 2))
    parts = gate.read_parts(folders, bench.root)
    merged = gate.evaluate_parts(parts, prepared, settings())
    for name, scores in whole.scores.items():
        np.testing.assert_array_equal(merged.scores[name].value, scores.value, err_msg=name)
    assert scores_digest(merged.scores) == scores_digest(whole.scores)
