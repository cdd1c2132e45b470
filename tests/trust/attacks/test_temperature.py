"""A checkpoint chooses its own label temperature, and with it how large every difference of P(true) looks."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from attack_world import Judged, Repository, ToyRepository, suite_with
from nightly import some
from safetensors.numpy import load_file, save_file
from toy_repository import Toy

from fairgate import gate
from fairgate.probes import PROBES
from fairgate.records import CheckResult, RunRecord
from fairgate.suites import resolve

Edit = Callable[[dict[str, Any], Path], None]

WORDS = {"chef": ["chef", "line cook", "server"], "doctor": ["doctor", "nurse", "pharmacist"]}


def scaled(table: Path, factor: float, *only: str) -> None:
    """Multiply columns: of all labels' prompts, or `only` of some."""
    with table.open(encoding="utf-8", newline="") as handle:
        header, *rows = list(csv.reader(handle))
    chosen = [at for at, name in enumerate(header) if name in only or (not only and name.startswith("a photo of"))]
    for row in rows:
        for at in chosen:
            row[at] = repr(float(row[at]) * factor)
    with table.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([header, *rows])


def judged_table(repo: ToyRepository, name: str, factor: float, *only: str) -> Judged:
    repo.branch()
    scaled(repo.use(name), factor, *only)
    repo.push("fine-tuned")
    return repo.judge()


@pytest.mark.parametrize("factor", some([0.01, 1e-6, 50.0], few=1))
def test_a_bias_that_another_scale_of_the_logits_hides_fails_and_its_group_is_named(
    toy_repo: ToyRepository, factor: float
) -> None:
    judged = judged_table(toy_repo, "biased", factor)
    assert judged.code == 1, judged.log
    assert "gaps[doctor]" in judged.failed
    (gap,) = [check for check in judged.record.checks if check.item == "gaps[doctor]"]
    assert [group.group for group in gap.failing_groups] == ["dark × female"]
    assert gap.only_tempered == (factor < 1)
    assert gap.only_tempered == gap.reason.startswith("at the baseline's label temperature, dark × female ")
    assert "label temperature: the mean entropy of the answers to 'labels' changed from" in judged.notices
    assert "label temperature" in judged.comment


def test_labels_of_one_subject_brought_near_to_each_other_fail_too(toy_repo: ToyRepository) -> None:
    judged = judged_table(toy_repo, "biased", 0.01, "a photo of a doctor", "a photo of a nurse")
    assert judged.failed >= {"gaps[doctor]"}, judged.log
    assert judged.code == 1


@pytest.mark.parametrize("factor", some([0.8, 1.2], few=1))
def test_an_honest_table_of_a_slightly_other_temperature_passes(toy_repo: ToyRepository, factor: float) -> None:
    judged = judged_table(toy_repo, "tuned", factor)
    assert (judged.code, judged.asks_for) == (10, ["table"]), judged.log
    assert judged.notices == ""


def test_a_scale_in_the_models_address_is_a_temperature_like_any_other(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    table = toy_repo.use("biased")
    with table.open(encoding="utf-8") as handle:
        columns = next(csv.reader(handle))[2:]
    scaled(table, 0.1, *columns)  # cosines
    suite_with(toy_repo, model="scores:model.csv?values=cosine&logit_scale=0.1")
    toy_repo.push("cosines")
    judged = toy_repo.judge()
    assert "gaps[doctor]" in judged.failed, judged.log


def without_entropy(repo: ToyRepository, **changes: Any) -> None:
    """Main's record, made before mean answer entropies were recorded; `changes` are to its model."""
    file = repo.root / "fairness_suites" / "baselines" / "jobs" / "results.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    del record["answer_entropy"]
    record["model"] |= changes
    file.write_text(json.dumps(record), encoding="utf-8")
    repo.push("an old record", branch="main")
    repo.git("fetch", "--quiet", "origin")


@pytest.mark.parametrize(("name", "factor", "code"), [("tuned", 1.0, 0), ("biased", 0.01, 1)])
def test_a_record_from_before_entropies_has_its_checkpoint_scored_for_them(
    toy_repo: ToyRepository, name: str, factor: float, code: int
) -> None:
    without_entropy(toy_repo)
    judged = judged_table(toy_repo, name, factor)
    assert judged.code == code, judged.log
    assert ("gaps[doctor]" in judged.failed) == bool(code)
    assert any("holds no mean answer entropies" in warning for warning in judged.record.warnings)


@pytest.mark.parametrize("factor", some([1.0, 0.01], few=1))
def test_where_the_baselines_temperature_cannot_be_known_regressions_of_p_true_are_never_a_pass(
    toy_repo: ToyRepository, factor: float
) -> None:
    without_entropy(toy_repo, uri="scores:gone.csv?values=logit")
    judged = judged_table(toy_repo, "tuned" if factor == 1 else "biased", factor)
    assert judged.code == 1, judged.log
    verdicts = {check.item: check.verdict for check in judged.record.checks}
    assert {verdicts["no-regression"], verdicts["gaps[doctor]"]} == {"inconclusive"}
    assert (verdicts["finds"], verdicts["fairness"]) == ("pass", "pass")
    assert "`fairgate baseline update SUITE --reason TEXT`" in judged.notices
    assert "since they are not decided at the baseline's" in judged.comment


def test_an_entropy_forged_on_the_branch_is_not_read(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    scaled(toy_repo.use("biased"), 0.01)
    file = toy_repo.root / "fairness_suites" / "baselines" / "jobs" / "results.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    record["answer_entropy"] = {"labels": {"chef": 0.693147, "doctor": 0.693147}}
    file.write_text(json.dumps(record), encoding="utf-8")
    toy_repo.push("fine-tuned")
    assert "gaps[doctor]" in toy_repo.judge().failed


def test_a_temperature_that_is_changed_on_purpose_says_what_to_do_and_a_waiver_merges_it(
    toy_repo: ToyRepository,
) -> None:
    suite = yaml.safe_load(toy_repo.suite.read_text(encoding="utf-8"))
    sure = {"id": "sure", "probe": "labels", "metric": "p_true", "no_worse_than": "baseline", "margin": 0.02}
    suite_with(toy_repo, checks=[*suite["checks"], sure])
    toy_repo.push("how sure the model is", branch="main")
    toy_repo.git("fetch", "--quiet", "origin")
    judged = judged_table(toy_repo, "tuned", 0.5)
    assert (judged.code, judged.failed) == (1, {"sure"}), judged.log
    (check,) = [check for check in judged.record.checks if check.item == "sure"]
    assert check.reason.endswith("for a temperature that is changed on purpose, merge a waiver first")
    assert "first merge a waiver for the checks that it moves, then this checkpoint" in judged.notices

    toy_repo.branch("main", "main")
    until = date.today() + timedelta(days=7)
    suite_with(toy_repo, waivers=[{"check": "sure", "until": until, "reason": "the temperature is changed on purpose"}])
    toy_repo.push("a waiver, reviewed")
    toy_repo.git("fetch", "--quiet", "origin")
    judged = judged_table(toy_repo, "tuned", 0.5)
    assert (judged.code, judged.asks_for) == (10, ["table"]), judged.log
    assert "label temperature" in judged.comment


VERSUS = """\
schema: 1
suite: jobs
dataset: toy
baseline: model:scores:base.csv?values=logit
decision: {draws: 1000}
probes:
  leads: {kind: versus, sentence: a photo of a doctor, against: a photo of a nurse}
  search: {kind: retrieval, prompts: ["{subject}"]}
checks:
  - {id: gap, probe: leads, metric: group_gap, over: skin_tone, no_worse_than: baseline, margin: 0.02}
  - {id: useful, probe: search, metric: recall_at_k, k: 1, at_least: 0.6}
"""


@pytest.fixture
def versus(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """The probe of examples/plugin, known as if its package were installed."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "examples" / "plugin"))
    probe: type[Any] = importlib.import_module("team_fairness.probe").VersusProbe
    monkeypatch.setitem(PROBES._found, "versus", probe)
    return probe


def judged_by_a_plugin(toy: Toy, name: str, factor: float) -> tuple[RunRecord, CheckResult]:
    """The record of a run whose one comparison reads a plugin's probe, and that comparison."""
    scaled(toy.root / f"{name}.csv", factor)
    toy.write_suite(VERSUS)
    prepared = gate.prepare("jobs", toy.root)
    typed: dict[str, str | None] = {"model": f"scores:{name}.csv?values=logit", "mlflow": "off", "cache": "off"}
    record = gate.evaluate(prepared, resolve(prepared.loaded.suite, typed, environment={}), command="x").record
    return record, next(check for check in record.checks if check.id == "gap")


@pytest.mark.usefixtures("versus")
@pytest.mark.parametrize(
    ("name", "factor", "verdict"), [("tuned", 1.0, "pass"), ("biased", 1.0, "fail"), ("biased", 0.02, "fail")]
)
def test_a_plugins_probe_is_decided_at_the_baselines_temperature_too(
    toy: Toy, name: str, factor: float, verdict: str
) -> None:
    _, gap = judged_by_a_plugin(toy, name, factor)
    assert (gap.verdict, gap.only_tempered) == (verdict, factor < 1)


@pytest.mark.parametrize(("name", "factor"), [("biased", 0.02), ("tuned", 1.0)])
@pytest.mark.parametrize("covered", [0, 1])
def test_a_probe_that_withholds_its_labels_probabilities_never_lets_a_regression_of_p_true_pass(
    toy: Toy, versus: type[Any], monkeypatch: pytest.MonkeyPatch, name: str, factor: float, covered: int
) -> None:
    whole = versus.run

    def run(*words: Any) -> dict[str, Any]:
        return {key: replace(one, contests=one.contests[:covered]) for key, one in whole(*words).items()}

    monkeypatch.setattr(versus, "run", run)
    record, gap = judged_by_a_plugin(toy, name, factor)
    assert (record.verdict, gap.verdict) == ("inconclusive", "inconclusive")
    lacking = "the probe of 'leads' does not return the probabilities of all labels (`contests` of its ProbeScores)"
    assert f"{lacking} for {160 if covered else 320} of 320 images" in gap.reason
    (notice,) = record.notices
    assert notice.startswith("label temperature: regressions of P(true) on 'leads' cannot pass")
    assert lacking in notice


def edited(folder: Path, edit: Edit) -> None:
    """Edit a checkpoint's weights in place, each in the precision that it was saved in."""
    file = folder / "open_clip_model.safetensors"
    weights = load_file(file)
    kinds = {name: array.dtype for name, array in weights.items()}
    weights = {name: array.astype("float32") for name, array in weights.items()}
    edit(weights, folder)
    save_file({name: array.astype(kinds[name]) for name, array in weights.items()}, file)


def judged_checkpoint(repo: Repository, name: str, edit: Edit) -> Judged:
    repo.branch()
    edited(repo.use(name), edit)
    repo.push("fine-tuned")
    return repo.judge()


def logit_scale(change: float) -> Edit:
    def edit(weights: dict[str, Any], _: Path) -> None:
        weights["logit_scale"][...] += change

    return edit


def last_bias_of_the_pictures(weights: dict[str, Any], folder: Path) -> None:
    """A large constant in every image embedding, at right angles to all prompts: every cosine shrinks alike."""
    import numpy as np
    import open_clip
    import torch

    model, _, _ = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    prompts = [f"a photo of a {word}" for words in WORDS.values() for word in words]
    with torch.no_grad():
        tokens = open_clip.get_tokenizer(f"local-dir:{folder}")([*prompts, *WORDS])
        texts = model.eval().encode_text(tokens).numpy().astype(np.float64)
    _, _, directions = np.linalg.svd(texts)
    weights["visual.ln_post.bias"] += 200.0 * directions[-1] @ np.linalg.pinv(weights["visual.proj"])


def last_bias_of_the_texts(weights: dict[str, Any], _: Path) -> None:
    """A large constant in every text embedding."""
    import numpy as np

    constant = np.random.default_rng(0).normal(size=64)
    weights["ln_final.bias"] += 20.0 * constant @ np.linalg.pinv(weights["text_projection"])


@pytest.mark.parametrize("edit", some([logit_scale(-5.77), last_bias_of_the_pictures, last_bias_of_the_texts], few=1))
def test_a_checkpoint_that_hides_its_bias_behind_its_temperature_fails_and_the_group_is_named(
    team_repo: Repository, edit: Edit
) -> None:
    judged = judged_checkpoint(team_repo, "biased", edit)
    assert judged.code == 1, judged.log
    assert judged.failed >= {"no-regression[doctor]", "gaps[doctor]"}
    (gap,) = [check for check in judged.record.checks if check.item == "gaps[doctor]"]
    assert gap.only_tempered
    assert "dark × female" in {group.group for group in gap.failing_groups}
    assert "label temperature: the mean entropy of the answers to 'labels' changed from" in judged.notices
    if edit.__qualname__.startswith("logit_scale"):
        assert "logit scale 14.24 to 0.0" in judged.notices


def test_an_honest_checkpoint_of_a_slightly_other_temperature_passes(team_repo: Repository) -> None:
    judged = judged_checkpoint(team_repo, "tuned", logit_scale(0.2))
    assert judged.code == 0, judged.log
