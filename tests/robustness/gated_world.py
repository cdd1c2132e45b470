"""A repository whose suite is answered by a tiny model that embeds its pictures, and what may be found after a kill."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from toy_repository import toy_repository

SETS = 16
SUITE = """\
schema: 1
suite: jobs
dataset: toy
model: open_clip:local-dir:tuned
baseline: model:open_clip:local-dir:base
probes:
  labels:
    kind: zero_shot_classification
    template: "a photo of a {label}"
    labels: {chef: [chef, line cook], doctor: [doctor, nurse]}
  search:
    kind: retrieval
    prompts: ["{subject}", "a picture of {a_subject}"]
decision: {draws: 1000}
checks:
  - {id: fairness, probe: labels, metric: fairness, at_least: 0.5}
  - {id: impossible, probe: labels, metric: accuracy, at_least: 0.999}
  - {id: skew, probe: search, metric: max_skew_at_k, k: 20, over: each, by: subject, at_most: 2.0}
  - {id: finds, probe: search, metric: recall_at_k, k: 1, no_worse_than: baseline, margin: 0.3}
  - {id: no-regression, probe: labels, metric: fairness, no_worse_than: baseline, margin: 0.3}
"""
TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 16},
    "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}
PREPROCESS = {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "interpolation": "bilinear", "resize_mode": "squash"}
CHANGES_EVERY_TIME = ("created_at", "seconds", "command")


def a_gated_world(root: Path, sets: int = SETS) -> Path:
    """A repository with suite `jobs` (so many sets of each of two subjects), and two checkpoints of seeded random
    weights. Its verdict is `fail`, always."""
    root.mkdir(parents=True)
    toy_repository(root, sets).write_suite(SUITE)
    for number, name in enumerate(("base", "tuned")):
        _save(root / name, number)
    return root


def _save(folder: Path, number: int) -> None:
    import open_clip
    import torch
    from safetensors.torch import save_file

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = open_clip.model.CLIP(**TINY).eval()
        weights = model.state_dict()
        if number:
            weights["visual.proj"] = weights["visual.proj"] + 0.02 * torch.randn_like(weights["visual.proj"])
    folder.mkdir()
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": TINY, "preprocess_cfg": PREPROCESS}))
    save_file({key: value.contiguous() for key, value in weights.items()}, folder / "open_clip_model.safetensors")


def copy_of(world: Path, target: Path) -> Path:
    shutil.copytree(world, target)
    return target


def but_for_times(results: Path) -> dict[str, Any]:
    """A results.json without what differs between two runs of the same thing."""
    record = json.loads(results.read_bytes())
    return {key: value for key, value in record.items() if key not in CHANGES_EVERY_TIME}
