"""`views: N`: the number of an image is the mean over N views of it; the image remains one unit."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from toy_repository import SUITE, Toy, toy_repository

from fairgate import gate
from fairgate.ground.errors import SuiteError
from fairgate.metrics import METRICS
from fairgate.models import Capability, Views, log_softmax, open_scorer
from fairgate.probes import ProbeScores, match_entropies, mean_entropies, mean_over_views
from fairgate.records import RunRecord
from fairgate.suites import changes_between, load_suite, resolve, run_probes, weaker

CHECKPOINTS = Path(__file__).parents[2] / "build" / "portraits" / "checkpoints"
BASE, TUNED = "open_clip:local-dir:base", "open_clip:local-dir:tuned"
VIEWS = """\
schema: 1
suite: jobs
dataset: toy
probes:
  labels:
    kind: zero_shot_classification
    views: 4
    template: "a photo of a {label}"
    labels: {chef: [chef, line cook], doctor: [doctor, nurse]}
  search: {kind: retrieval, prompts: ["{subject}"], views: 3}
groups: {min_sets: 3}
decision: {draws: 500}
checks:
  - {id: right, probe: labels, metric: accuracy, at_least: 0.01}
  - {id: sure, probe: labels, metric: p_true, no_worse_than: baseline, margin: 0.5}
  - {id: gaps, probe: labels, metric: group_gap, over: gender, no_worse_than: baseline, margin: 0.9}
  - {id: finds, probe: search, metric: recall_at_k, k: 1, at_least: 0.6}
"""


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    """Three sets of each subject, of four images, with two checkpoints."""
    toy = toy_repository(tmp_path, sets=3)
    for name in ("base", "tuned"):
        if CHECKPOINTS.is_dir():
            shutil.copytree(CHECKPOINTS / name, toy.root / name)
    return toy


def run(toy: Toy, text: str, model: str = TUNED, baseline: str = f"model:{BASE}") -> gate.Evaluation:
    toy.write_suite(text)
    prepared = gate.prepare("jobs", toy.root)
    settings = resolve(
        prepared.loaded.suite, {"model": model, "baseline": baseline, "mlflow": "off", "cache": "off"}, environment={}
    )
    return gate.evaluate(prepared, settings, command="x")


def checks(record: RunRecord) -> dict[str, Any]:
    return {check.item: check for check in record.checks}


@dataclass(frozen=True)
class Told:
    """A model whose logits are told, (images, labels)."""

    logits: NDArray[np.float64]
    uri: str = "told:"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"log_probabilities", "similarity"})

    def log_probabilities(self, prompts: Sequence[str]) -> NDArray[np.float64]:
        return log_softmax(self.logits[:, : len(prompts)])

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        return self.logits[:, : len(ensembles)]

    def indistinct(self, _: object) -> list[tuple[int, int]]:
        return []


def test_each_view_is_answered_alone_and_their_mean_is_the_images_number(toy: Toy) -> None:
    toy.write_suite(VIEWS)
    prepared = gate.prepare("jobs", toy.root)
    suite, index, rng = prepared.loaded.suite, prepared.dataset.index, np.random.default_rng(0)
    logits = {views: rng.normal(size=(len(index) * views, 2)) for views in (3, 4)}
    scores = run_probes(Told(np.zeros((len(index), 2))), index, suite, open_views=lambda views: Told(logits[views]))  # type: ignore[arg-type, return-value]

    first = index.subject.tolist()[0]  # whose own label, and query, is the first column
    assert first == "chef"
    own = logits[4][:4]
    p_true = np.exp(own[:, 0]) / np.exp(own).sum(axis=1)
    assert scores["labels"].value[0] == pytest.approx(p_true.mean())
    assert scores["labels"].more["right"][0] == (own[:, 0] > own[:, 1]).mean()
    assert scores["search"].more["within_1"][0] == (logits[3][:3, 0] > logits[3][:3, 1]).mean()
    assert scores["labels"].predicted is None
    assert len(scores["labels"].value) == len(index)

    sharper = match_entropies(
        scores["labels"], {key: value / 2 for key, value in mean_entropies(scores["labels"]).items()}
    )
    hot = np.exp(sharper.beta["chef"] * own)
    assert sharper.beta["chef"] > 1
    assert sharper.scores.value[0] == pytest.approx((hot[:, 0] / hot.sum(axis=1)).mean())


def test_recall_among_more_than_any_view_needs_is_whole() -> None:
    """Of two images, no view has its own query farther than second; among three all are found."""
    scores = mean_over_views(ProbeScores(np.zeros(8), rank=np.array([1, 1, 2, 1, 1, 1, 1, 1])), 4)
    recall, cell = METRICS["recall_at_k"], SimpleNamespace(rows=np.arange(2))
    shares = [
        recall.right(SimpleNamespace(settings=recall.Settings(k=k)), cell, [scores]).tolist()  # type: ignore[attr-defined]
        for k in (1, 2, 3)
    ]
    assert shares == [[0.75, 1], [1, 1], [1, 1]]


@pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="no embedded release here: run `dvc pull`")
def test_record_and_sentences_say_how_many_views_and_images_are_the_units(toy: Toy) -> None:
    record = run(toy, VIEWS).record
    of_check = checks(record)
    assert {item: check.views for item, check in of_check.items()} == {"right": 4, "sure": 4, "gaps": 4, "finds": 3}
    assert "accuracy over 4 views of each image" in of_check["right"].reason
    assert of_check["sure"].verdict != "error"
    assert of_check["right"].n_sets == 6
    seen: Any = open_scorer(TUNED, Views(gate.prepare("jobs", toy.root).dataset, 4), device="cpu", base=toy.root)
    answers = seen.log_probabilities(["a photo of a chef", "a photo of a line cook"]).reshape(-1, 4, 2)
    chefs = gate.prepare("jobs", toy.root).dataset.index.subject == "chef"
    doctors = seen.log_probabilities(["a photo of a doctor", "a photo of a nurse"]).reshape(-1, 4, 2)
    right = np.where(chefs[:, None], answers[..., 0] > answers[..., 1], doctors[..., 0] > doctors[..., 1])
    assert of_check["right"].value == pytest.approx(right.mean())


@pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="no embedded release here: run `dvc pull`")
def test_a_baseline_of_another_number_of_views_is_scored_again_and_one_of_the_same_is_read(toy: Toy) -> None:
    for views, rescored in (("views: 2", True), ("views: 4", False)):
        before = run(toy, VIEWS.replace("views: 4", views), BASE, "none")
        folder = toy.root / f"record-{views[-1]}"
        prepared = gate.prepare("jobs", toy.root)
        typed = {"model": BASE, "baseline": "none", "mlflow": "off", "cache": "off", "report": str(folder)}
        gate.publish(before, prepared, resolve(prepared.loaded.suite, typed, environment={}))
        again = run(toy, VIEWS, TUNED, f"file:{folder}").record
        assert again.baseline is not None
        assert (again.baseline.rescored is not None) == rescored


def test_a_table_has_no_answers_about_views(toy: Toy) -> None:
    record = run(toy, VIEWS, "scores:tuned.csv?values=logit", "none").record
    assert {check.verdict for check in record.checks} == {"error"}
    assert "remove `views` from the probe, or judge the model itself" in record.checks[0].reason


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("metric: accuracy, at_least", "metric: fairness, at_least", "fairness is no mean of a number per image"),
        ("[doctor, nurse]", "[doctor, left back]", "'a photo of a left back' may not be true of a mirrored picture"),
        (
            "  search:",
            '  more: {kind: association, template: "{word}", words: [chef], views: 3}\n  search:',
            "answers of an association probe have no such mean",
        ),
        (
            "  search:",
            "  more: {kind: detection, threshold: 0.5, views: 3}\n  search:",
            "the recorded box is not where a view shows the person",
        ),
        ("views: 4", "views: 65", "at most 64 is allowed"),
    ],
)
def test_views_are_refused_where_they_have_no_mean_or_change_what_is_right(
    toy: Toy, old: str, new: str, problem: str
) -> None:
    toy.write_suite(VIEWS.replace(old, new))
    with pytest.raises(SuiteError, match=problem):
        gate.prepare("jobs", toy.root)


def test_one_view_is_the_same_suite_and_fewer_views_are_a_change_that_is_weighed(toy: Toy) -> None:
    def loaded(text: str) -> Any:
        return load_suite(toy.write_suite(text), toy.root)

    plain = loaded(SUITE)
    assert loaded(SUITE.replace("    template:", "    views: 1\n    template:")).digest == plain.digest
    many, few = loaded(VIEWS), loaded(VIEWS.replace("views: 4", "views: 1"))
    assert many.digest != few.digest
    assert [change for change in changes_between(many.suite, few.suite) if "views" in str(change)]
    assert weaker(many.suite, few.suite)
    assert weaker(few.suite, many.suite)


def test_gaps_of_accuracy_are_those_of_the_shares_of_views_that_are_answered_right() -> None:
    shares = np.array([0.25, 1.0])
    gap: Any = METRICS["accuracy_gap"]
    cell = SimpleNamespace(rows=np.arange(2), once=lambda _what, _of, make: make())
    assert gap.of_images(cell, [ProbeScores(shares, more={"right": shares})]).tolist() == [0.25, 1.0]
    assert gap.of_images(cell, [ProbeScores(shares, correct=np.array([False, True]))]).tolist() == [0.0, 1.0]


@pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="no embedded release here: run `dvc pull`")
def test_the_candidates_network_leaves_the_memory_before_the_baselines_is_loaded(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from open_clip.model import CLIP

    from fairgate.models import open_clip_network

    def networks() -> int:
        gc.collect()
        return sum(issubclass(type(each), CLIP) for each in gc.get_objects())

    before, there = networks(), list[int]()
    load = open_clip_network.load

    def counted(*given: Any) -> Any:
        there.append(networks() - before)
        return load(*given)

    monkeypatch.setattr(open_clip_network, "load", counted)
    run(toy, VIEWS)
    assert there == [0, 0]
