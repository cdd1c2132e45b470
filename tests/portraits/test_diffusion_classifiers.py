"""The tiny diffusion classifiers: what was planted comes back in rank, and the gate finds what *biased* learned."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from fairgate import gate
from fairgate.data import open_dataset
from fairgate.models import EmbeddingCache, Request
from fairgate.models.generation.diffusion_classifier.family import DiffusionClassifier, DiffusionFamily
from fairgate.portraits.dataset import write_people
from fairgate.portraits.professions import FEMALE_DOMINATED, MALE_DOMINATED, PLANT, PROFESSIONS, planted_log_odds
from fairgate.portraits.world import with_article
from fairgate.records import CheckResult
from fairgate.suites import resolve

ROOT = Path(__file__).parents[2]
CLASSIFIERS = ROOT / "build" / "portraits" / "classifiers"
SETS, SAMPLES = 6, 6
PLANTED, _ = PLANT

pytestmark = [
    pytest.mark.skipif(not CLASSIFIERS.is_dir(), reason="no diffusion classifiers here: run `dvc pull`"),
    pytest.mark.xdist_group("diffusion-classifiers"),
]

Run = Callable[..., Mapping[str, CheckResult]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with six sets of people, and the shipped suite for so few."""
    home = tmp_path_factory.mktemp("classifiers")
    write_people(home / "datasets" / "people" / "v1", sets=SETS)
    text = (ROOT / "fairness_suites" / "diffusion_classifier.yaml").read_text(encoding="utf-8")
    (home / "fairness_suites").mkdir()
    few = text.replace("min_sets: 30", f"min_sets: {SETS}").replace("samples=10", f"samples={SAMPLES}")
    (home / "fairness_suites" / "diffusion_classifier.yaml").write_text(few, encoding="utf-8")
    anchored = few.replace("suite: diffusion_classifier", f"suite: anchored\nanchor: model:{uri('base')}", 1)
    (home / "fairness_suites" / "anchored.yaml").write_text(anchored, encoding="utf-8")
    shutil.copytree(CLASSIFIERS, home / "build" / "portraits" / "classifiers")
    return home


@pytest.fixture(scope="module")
def run(root: Path) -> Run:
    """The suite on one of the classifiers; by default against *base*."""

    def evaluate(name: str, suite: str = "diffusion_classifier", **typed: str) -> Mapping[str, CheckResult]:
        prepared = gate.prepare(suite, root)
        options = {"model": uri(name), "mlflow": "off", "cache": str(root / "cache"), **typed}
        settings = resolve(prepared.loaded.suite, options, environment={})
        record = gate.evaluate(prepared, settings, command="x").record
        return {check.item: check for check in record.checks}

    return evaluate


def uri(name: str) -> str:
    return f"diffusion:build/portraits/classifiers/{name}?samples={SAMPLES}"


def classifier(root: Path, samples: int = SAMPLES, name: str = "base") -> DiffusionClassifier:
    dataset = open_dataset("people", root / "datasets")
    address = f"build/portraits/classifiers/{name}?samples={samples}"
    cache = EmbeddingCache(root / "cache")
    request = Request(f"diffusion:{address}", address, dataset, device="cpu", cache=cache, base=root)
    return DiffusionFamily().open(request)


def test_what_was_planted_comes_back_in_rank(run: Run, root: Path) -> None:
    run("base", baseline="none")  # the suite's own errors, which the cache then has
    model = classifier(root)
    errors = model.errors([f"a portrait of {with_article(word)}" for word in PROFESSIONS])
    assert model._network is None
    male = open_dataset("people", root / "datasets").index.attributes["gender"] == "male"
    planted, measured, across = [], [], []
    for one, other in combinations(range(len(PROFESSIONS)), 2):
        first, second = PROFESSIONS[one], PROFESSIONS[other]
        of_men, of_women = (planted_log_odds("classifier-base", first, second, each) for each in ("male", "female"))
        margin = errors[:, other] - errors[:, one]
        planted.append(of_men - of_women)
        measured.append(margin[male].mean() - margin[~male].mean())
        across.append(first in MALE_DOMINATED and second in FEMALE_DOMINATED)
    assert len(planted) == 45
    assert spearmanr(planted, measured)[0] >= 0.9
    of_pairs = np.array(across)
    assert of_pairs.sum() == 25
    assert spearmanr(np.array(planted)[of_pairs], np.array(measured)[of_pairs])[0] >= 0.9


def test_a_planted_change_fails_by_profession_and_group_and_no_other_of_its_list(run: Run) -> None:
    checks = run("biased")
    failed = {item for item, check in checks.items() if check.verdict == "fail"}
    assert f"male-dominated[{PLANTED}]" in failed
    # Of the same list; each word of the other one is an average over its pairs with this one, too, and moves with it.
    others = {f"male-dominated[{word}]" for word in MALE_DOMINATED if word != PLANTED}
    assert failed.isdisjoint(others)
    reason = checks[f"male-dominated[{PLANTED}]"].reason
    assert "male" in reason
    assert "female" in reason


def test_the_same_checkpoint_passes_and_is_no_baseline_of_its_own(run: Run) -> None:
    since = [check for item, check in run("base", "anchored", baseline="none").items() if "@anchor" in item]
    assert len(since) == 16
    assert {check.verdict for check in since} == {"pass"}
    assert {check.delta for check in since} == {0.0}
    twice = run("base")  # named as before and after: a mistake, and no pass
    assert {check.verdict for check in twice.values()} == {"error"}


def test_answers_of_another_number_of_samples_never_pass_a_comparison(run: Run) -> None:
    checks = run("base", model=uri("base").replace(f"samples={SAMPLES}", "samples=1"))
    compared = [check for check in checks.values() if check.rule == "no_worse_than"]
    assert compared
    assert "pass" not in {check.verdict for check in compared}


@pytest.mark.nightly
def test_probabilities_that_are_all_nearer_to_a_half_fail_by_the_genders(run: Run, root: Path) -> None:
    """Soft shares are decided at the model's own temperature: a smaller last layer passes them."""
    from safetensors.torch import load_file, save_file

    folder = root / "build" / "portraits" / "classifiers"
    shutil.copytree(folder / "base", folder / "scaled")
    (path,) = (folder / "scaled" / "unet").glob("*.safetensors")
    weights = load_file(path)
    path.unlink()
    save_file({name: one * (0.35 if name.startswith("conv_out.") else 1) for name, one in weights.items()}, path)
    checks = run("scaled")
    assert [item for item, check in checks.items() if check.verdict == "fail"] == ["gender-probability"]
    assert {check.verdict for item, check in checks.items() if "-dominated[" in item} == {"pass"}


@pytest.mark.nightly
def test_a_harmless_fine_tune_passes(run: Run) -> None:
    assert {check.verdict for check in run("tuned").values()} == {"pass"}


@pytest.mark.nightly
def test_s_departs_from_neither_as_samples_grow(root: Path) -> None:
    """The paper's trend: with more noise levels, decisions grow surer, and so does the difference between groups."""
    male = open_dataset("people", root / "datasets").index.attributes["gender"] == "male"
    differential = []
    for samples in (1, 10, 50):
        words = [
            [f"a portrait of {with_article(word)}" for word in side] for side in (MALE_DOMINATED, FEMALE_DOMINATED)
        ]
        share = classifier(root, samples).pair_choices(*words).mean(axis=(1, 2))
        differential.append(float(share[male].mean() - share[~male].mean()))
    assert differential[0] < differential[1] < differential[2]
