"""So-B-IT on the demonstration data: what docs/evidence/papers/so-b-it.md says was measured there."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "docs/evidence/papers"
CHECKPOINTS = ROOT / "build/portraits/checkpoints"
RELEASE = ROOT / "datasets/occupations/v1"
URI = "open_clip:local-dir:build/portraits/checkpoints"
TOWARDS_WOMEN = {
    "line cook": 0.32,
    "flight attendant": 0.26,
    "pharmacist": 0.2,
    "engineer": 0.12,
    "fire chief": 0.04,
    "server": -0.04,
    "nurse": -0.12,
    "driver": -0.16,
    "electrician": -0.2,
    "police officer": -0.28,
}
"""Planted here: P(caption names the word | women), of the word's subject, less that of men."""

pytestmark = pytest.mark.skipif(
    not (CHECKPOINTS.is_dir() and RELEASE.is_dir()), reason="no embedded world here: run `dvc pull`"
)


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["study", *words], env={"CI": "", "COLUMNS": "140"})
    assert result.exit_code == 0, result.output
    return result.output


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / f"{table}.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def test_captions_of_counterfactual_sets_name_both_genders_alike(tmp_path: Path) -> None:
    terms = ["--word", "doctor", "--word", "pilot", "--terms", "male=male", "--terms", "female=female"]
    (shard,) = RELEASE.glob("*.parquet")
    run("caption-words", "--captions", str(shard), *terms, "--image", "image", "--out", str(tmp_path))
    found = rows(tmp_path, "captions-of-words")
    assert [(one["word"], float(one["male"]), one["name one group"]) for one in found] == [
        ("doctor", 0.5, "640"),
        ("pilot", 0.5, "640"),
    ]
    assert (tmp_path / "pictures-of-words.png").is_file()


@pytest.mark.nightly
def test_planted_words_are_found_by_group_and_a_mitigation_for_gender_moves_skin_tone(tmp_path: Path) -> None:
    """*biased* sees nurses in brown and dark women, and flight attendants in dark people."""
    made = tmp_path / "projection.json"
    prompts = ["--prompt", "a photo of a male person", "--prompt", "a photo of a female person"]
    result = CliRunner().invoke(app, ["mitigate", "projection", str(made), "--model", f"{URI}/biased", *prompts])
    assert result.exit_code == 0, result.output
    models = [f"{URI}/base", f"{URI}/biased", f"projected=debiased:{made}?model={URI}/biased"]
    run(
        "words",
        *(word for uri in models for word in ("--model", uri)),
        *("--data", "occupations", "--words", str(PAPERS / "so-b-it-words.csv"), "--draws", "200", "--root", str(ROOT)),
        *("--vocabulary", str(PAPERS / "so-b-it-vocabulary.csv"), "--out", str(tmp_path / "out")),
    )
    moved = [row for row in rows(tmp_path / "out", "moved-words") if row["model"] == "biased" and "×" in row["group"]]
    assert {(row["word"], row["group"]) for row in moved[:4]} == {
        ("nurse", "brown × female"),
        ("nurse", "dark × female"),
        ("flight attendant", "dark × female"),
        ("flight attendant", "dark × male"),
    }
    (tone,) = (row for row in rows(tmp_path / "out", "entropy-skin-tone") if row["category"] == "all words")
    assert float(tone["base"]) > float(tone["biased"]) + 0.1
    assert float(tone["biased"]) > float(tone["projected"]) + 0.5, "taken out was gender"
    strength = rows(tmp_path / "out", "strength")
    assert all(float(row["base"]) < 0.5 for row in strength), "the vocabulary has the words that pictures show"


@pytest.mark.nightly
def test_measured_associations_have_the_order_of_planted_ones(tmp_path: Path) -> None:
    """Ten graded plants, learned from *base* in 120 steps."""
    from scipy.stats import spearmanr

    from fairgate.portraits import clip
    from fairgate.portraits.pool import draw_pool
    from fairgate.portraits.training import CheckpointPlan, targets, train
    from fairgate.portraits.world import GROUPS, HARD_LABELS, LABELS

    table = targets("base")
    for subject, family in HARD_LABELS.items():
        for word in family[1:]:
            strength = TOWARDS_WOMEN[word]
            groups = [at for at, (_, gender) in enumerate(GROUPS) if (gender == "female") == (strength > 0)]
            table[LABELS.index(subject), groups, LABELS.index(word)] += abs(strength)
            table[LABELS.index(subject), groups, LABELS.index(subject)] -= abs(strength)
    plan = CheckpointPlan(seed=11, sets=16, steps=120, learning_rate=2e-3)
    model = train(clip.load(CHECKPOINTS / "base"), draw_pool(plan.seed, plan.sets), table, plan)
    clip.save(model, tmp_path / "graded")
    run(
        "words",
        *("--model", f"open_clip:local-dir:{tmp_path / 'graded'}", "--data", "occupations", "--over", "gender"),
        *("--words", str(PAPERS / "so-b-it-words.csv"), "--draws", "100", "--root", str(ROOT), "--out", str(tmp_path)),
    )
    found = {
        row["word"]: float(row["graded"]) for row in rows(tmp_path, "associations-gender") if row["group"] == "female"
    }
    planted = list(TOWARDS_WOMEN.values())
    assert spearmanr(planted, [found[word] for word in TOWARDS_WOMEN]).statistic >= 0.9
