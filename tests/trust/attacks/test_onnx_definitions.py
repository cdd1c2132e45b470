"""A pull request that edits what an ONNX model is read with (labels, pictures, other files) gains nothing by it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from attack_world import ToyRepository
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[2] / "models"))
from onnx_world import onnx_model, point_outside, save_onnx

HOW = "labels=model/labels.txt&size=8&scale=1"
SUITE = """\
schema: 1
suite: jobs
dataset: toy
model: "onnx:model/now.onnx?{now}"
probes:
  reads: {{kind: prediction, attribute: gender}}
decision: {{draws: 500}}
checks:
  - {{id: useful, probe: reads, metric: accuracy, no_worse_than: baseline, margin: 0.05}}
  - {{id: every-label, probe: reads, metric: balanced_accuracy, no_worse_than: baseline, margin: 0.05}}
  - {{id: no-group-loses, probe: reads, metric: accuracy, over: crossed, no_worse_than: baseline, margin: 0.05}}
"""


def reader(*, red: float = 0.0, blue: float = 0.4, middle: float = 20.0, sign: float = 1.0) -> Any:
    """A classifier of female and male: in the toy release's pictures, men are 40 and women 60 in blue."""
    model = onnx_model(width=2)
    rule = sign * np.array([[red, 0, blue], [0, 0, 0]], dtype=np.float32).T
    for tensor in model.graph.initializer:
        if tensor.name == "weights":
            tensor.CopyFrom(numpy_helper.from_array(rule, "weights"))
    moved = numpy_helper.from_array(sign * np.array([[middle, 0]], dtype=np.float32), "middle")
    model.graph.initializer.append(moved)
    last = model.graph.node[-1]
    last.CopyFrom(helper.make_node("Sub", [last.input[0], "middle"], list(last.output)))
    return model


LABELS = ["female", "male"]
FAIR, WRONG = reader(), reader(sign=-1)
BIASED = reader(red=0.2, middle=44.0)
"""Right about light people; dark women are taken for men."""


def write(repository: ToyRepository, *, now: Any = FAIR, base: Any = FAIR, how: str = HOW) -> None:
    folder = repository.root / "model"
    separate = type(base)()
    separate.CopyFrom(base)
    tensor = next(each for each in separate.graph.initializer if each.name == "weights")
    raw = tensor.raw_data
    point_outside(tensor, "base.bin")
    save_onnx(folder / "base.onnx", separate, LABELS)
    (folder / "base.bin").write_bytes(raw)
    save_onnx(folder / "now.onnx", now, LABELS)
    repository.suite.write_text(SUITE.format(now=how), encoding="utf-8")


@pytest.fixture
def exported(toy_repo: ToyRepository) -> ToyRepository:
    """Main judges an ONNX file against another one, whose weights are in a file of their own."""
    write(toy_repo)
    toy_repo.push("exported", branch="main")
    toy_repo.update_baseline()
    toy_repo.push("its baseline", branch="main")
    toy_repo.git("fetch", "--quiet", "origin")
    toy_repo.branch("change", "origin/main")
    return toy_repo


def test_a_model_that_takes_a_group_for_another_fails_and_the_group_is_named(exported: ToyRepository) -> None:
    write(exported, now=BIASED)
    exported.push()
    judged = exported.judge()
    assert judged.code == 1, judged.log
    assert "dark" in "".join(group.group for check in judged.record.checks for group in check.failing_groups)


def test_labels_that_a_branch_exchanges_do_not_make_wrong_answers_right(exported: ToyRepository) -> None:
    write(exported, now=WRONG)
    (exported.root / "model" / "labels.txt").write_text("male\nfemale", encoding="utf-8")
    exported.push()
    judged = exported.judge()
    assert judged.code == 1, judged.log
    assert "the labels differ from the baseline's" in judged.notices


def test_pictures_that_a_branch_prepares_otherwise_are_judged_as_before_too(exported: ToyRepository) -> None:
    write(exported, how=f"{HOW}&channels=bgr", now=reader(red=0.4, blue=0.0))
    exported.push()
    judged = exported.judge()
    assert judged.code == 1, judged.log
    assert "the preprocessing differs from the baseline's" in judged.notices


def test_a_branch_that_ruins_its_baselines_weights_is_compared_with_those_of_main(exported: ToyRepository) -> None:
    write(exported, now=BIASED, base=BIASED)
    exported.push()
    judged = exported.judge(baseline=f"model:onnx:model/base.onnx?{HOW}&data=model/base.bin")
    assert judged.code == 1, judged.log
    assert "this change edits model/base.bin, the checkpoint that it is compared with" in judged.notices
