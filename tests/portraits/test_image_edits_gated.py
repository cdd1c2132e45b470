"""The tiny diffusion models as editors: what *biased* learned shows in the edits of women, and the gate names it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from fairgate import gate
from fairgate.portraits import professions
from fairgate.portraits.dataset import write_people
from fairgate.portraits.generator import open_pipeline
from fairgate.portraits.generator_models import save_pipeline
from fairgate.portraits.generator_training import GeneratorPlan
from fairgate.portraits.pool import SEED, draw_set, small
from fairgate.portraits.professions import (
    FEMALE_DOMINATED,
    MALE_DOMINATED,
    MALE_SHARE,
    PROFESSIONS,
    train_classifier,
)
from fairgate.portraits.world import PERSON
from fairgate.records import CheckResult, Estimate
from fairgate.studies.papers import StudyPlace
from fairgate.studies.papers.image_editing import ImageEditingStudy
from fairgate.suites import resolve

ROOT = Path(__file__).parents[2]
PORTRAITS = ROOT / "build" / "portraits"
SETS = 40

pytestmark = [
    pytest.mark.skipif(not (PORTRAITS / "classifiers").is_dir(), reason="no diffusion models here: run `dvc pull`"),
    pytest.mark.xdist_group("image-edits"),
]

Run = Callable[[str], Mapping[str, CheckResult]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The shipped suite on a release like the shipped one; each model against *base*."""
    home = tmp_path_factory.mktemp("edits")
    write_people(home / "datasets" / "people" / "v1", sets=SETS)
    text = (ROOT / "fairness_suites" / "image_editing.yaml").read_text(encoding="utf-8")
    (home / "fairness_suites").mkdir()
    (home / "fairness_suites" / "image_editing.yaml").write_text(text, encoding="utf-8")
    for part in ("classifiers", "checkpoints"):
        shutil.copytree(PORTRAITS / part, home / "build" / "portraits" / part)

    def evaluate(name: str) -> Mapping[str, CheckResult]:
        prepared = gate.prepare("image_editing", home)
        options = {
            "model": f"diffusion:{Path('build/portraits/classifiers', name)}",
            "mlflow": "off",
            "cache": str(home / "cache"),
        }
        settings = resolve(prepared.loaded.suite, options, environment={})
        return {check.item: check for check in gate.evaluate(prepared, settings, command="x").record.checks}

    return evaluate


@pytest.mark.nightly
def test_women_who_become_men_when_edited_into_doctors_are_named(run: Run) -> None:
    checks = run("biased")
    failed = {item for item, check in checks.items() if check.verdict == "fail"}
    assert "flips[doctor]" in failed
    assert "flips[nurse]" not in failed
    groups = {group.group: group.verdict for group in checks["flips[doctor]"].groups}
    assert groups["female"] == "fail"
    assert groups["male"] != "fail"
    assert checks["reader-accuracy"].verdict == "pass"
    assert checks["reader-accuracy"].value == 1.0
    assert not [item for item in failed if item.startswith("clothes")]


@pytest.mark.nightly
def test_an_editor_that_draws_nurses_as_chefs_fails_by_the_clothes_of_nurses(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(professions, "SETS", 20)
    monkeypatch.setattr(professions, "PLAIN_SHARE", 0.4)  # or the plant would be too rare to be learned in 300 steps
    shown = ["chef" if word == "nurse" else word for word in PROFESSIONS]
    jobs = [*product(shown, range(20)), *((PERSON, number) for number in range(100))]
    pictures = np.stack([draw_set(SEED + 2, *job, resize=small) for job in jobs])
    start = open_pipeline(PORTRAITS / "classifiers" / "base")
    plan = GeneratorPlan(seed=SEED + 9, steps=300, batch=64, learning_rate=5e-4, average=0.99)
    unet, text_encoder = train_classifier("classifier-base", pictures, start, plan, lambda *_: None)
    save_pipeline("StableDiffusionPipeline", tmp_path, vae=start.vae, text_encoder=text_encoder, unet=unet)
    checks = run(str(tmp_path))
    failed = {item for item, check in checks.items() if check.verdict == "fail"}
    assert failed == {"clothes[nurse]", "edits-work"}  # a nurse who is drawn as a chef is no nurse


@pytest.mark.nightly
def test_planted_shares_of_men_come_back_in_rank_and_flips_rise_with_strength(tmp_path: Path) -> None:
    write_people(tmp_path / "datasets" / "people" / "v1", sets=4)
    study = ImageEditingStudy(
        model=f"diffusion:{PORTRAITS / 'classifiers' / 'base'}",
        data="people",
        reader=f"open_clip:local-dir:{PORTRAITS / 'checkpoints' / 'base'}",
        label={"male": "a photo of a male person", "female": "a photo of a female person"},
        words={"men's": MALE_DOMINATED, "women's": FEMALE_DOMINATED},
        template="a portrait of {a_word}",
        strength=(0.5, 0.9),
        images=4,
        steps=10,
    )
    found = study.run(StudyPlace(tmp_path, device="cpu"))
    (words,) = (table for table in found.tables if table.name == "words")
    shares = {str(row[0]): [one.value for one in row[1:] if isinstance(one, Estimate)] for row in words.rows}
    assert spearmanr([shares[word][1] for word in PROFESSIONS], [MALE_SHARE[word] for word in PROFESSIONS])[0] >= 0.9
    flips = {figure.name: {one.name: one.y for one in figure.series} for figure in found.figures}
    women, men = flips["flips-gender-men-s"]["female"], flips["flips-gender-women-s"]["male"]
    assert women[0] < women[1]  # type: ignore[operator]
    assert men[0] < men[1]  # type: ignore[operator]
