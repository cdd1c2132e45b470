"""An adapter is judged as what it makes of its base; one without effect is no new checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from hf_world import save_folder
from peft_world import save_adapter
from story_team import write_portraits
from typer.testing import CliRunner, Result

from fairgate.interfaces.cli.main import app

SUITE = """\
schema: 1
suite: jobs
dataset: faces
model: "peft:adapter?base=hf:base"
probes:
  labels:
    kind: zero_shot_classification
    template: "a photo of a {label}"
    labels: {chef: [chef, nurse], doctor: [doctor, nurse]}
  search: {kind: retrieval, prompts: ["a photo of a {subject}"]}
groups: {min_sets: 2}
checks:
  - {id: finds, probe: search, metric: recall_at_k, k: 1, no_worse_than: baseline, margin: 0.5}
  - {id: fairness, probe: labels, metric: fairness, at_least: 0.3}
"""


def check(root: Path) -> Result:
    words = ["check", "jobs", "--root", str(root), "--mlflow", "off", "--cache", "off", "--baseline", "model:hf:base"]
    return CliRunner().invoke(app, words, env={"CI": "", "COLUMNS": "200"})


@pytest.mark.nightly
def test_an_adapter_is_judged_against_its_base_and_one_without_effect_gives_no_verdict(tmp_path: Path) -> None:
    from transformers import CLIPModel

    write_portraits(tmp_path / "datasets/faces/v1", "v1", range(4))
    (tmp_path / "fairness_suites").mkdir()
    (tmp_path / "fairness_suites/jobs.yaml").write_text(SUITE)
    base = save_folder("clip", tmp_path / "base")
    for spread, code in ((0.2, (0, 1)), (0.0, (3,))):
        model = CLIPModel.from_pretrained(base)
        save_adapter(model, tmp_path / "adapter", spread=spread, target_modules=["q_proj", "v_proj"])
        judged = check(tmp_path)
        assert judged.exit_code in code, judged.output
        if spread:
            assert "an adapter (LoRA, rank 4) is merged into hf:base" in judged.output
        else:
            assert "gave identical scores" in judged.output
