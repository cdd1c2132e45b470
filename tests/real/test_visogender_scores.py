"""CLIP, plain and debiased, that resolves pronouns on VisoGender: published accuracies by gender, and what a gate says.

"their" is the abstention: the likeliest of three texts, and never right here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from outputs import OUTPUTS, judged, repository, rows_of, write_table

from fairgate.records import CheckResult

VISOGENDER = OUTPUTS / "visogender"
WORDS = ("his", "her", "their")
SUITE = """\
schema: 1
suite: visogender
dataset: visogender
model: "scores:clip.csv?values=probability"
baseline: "none"
probes:
  pronoun:
    kind: question
    how: likelihood
    abstain: [their]
    questions:
      whose:
        question: Whose is it?
        options: {his: [], her: []}
        right: {subject: {masculine: his, feminine: her}}
groups: {attributes: [gender, context], min_sets: 50}
decision: {draws: 500}
checks:
  - {id: accuracy, probe: pronoun, metric: answer_accuracy, over: [context, gender], at_least: 0.3}
  - {id: useful, probe: pronoun, metric: answer_accuracy, at_least: 0.6}
  - {id: silent, probe: pronoun, metric: abstention_rate, over: gender, at_most: 0.3}
  - {id: lost, probe: pronoun, metric: answer_accuracy, over: gender, no_worse_than: baseline, margin: 0.1}
"""

pytestmark = [
    pytest.mark.skipif(not VISOGENDER.is_dir(), reason="the published scores are not next to this checkout"),
    pytest.mark.nightly,
    pytest.mark.xdist_group("visogender"),
]

Row = dict[str, str]
RUNS = [
    *("clip", "cda_vision_frozen", "cda_text_frozen", "cda_none_frozen", "cda_projections_not_frozen"),
    *("dos_vision_frozen", "dos_text_frozen", "dos_none_frozen", "dos_projections_unfrozen"),
    *("tv_vision_frozen", "tv_text_frozen", "tv_none_frozen", "tv_projections_unfrozen"),
    *("ltv_vision_frozen", "ltv_text_frozen", "ltv_none_frozen", "ltv_projections_unfrozen"),
]


def number_of(row: Row) -> str:
    return "-".join((row["context"], row["item"], row["par_gender"] or "alone"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One release of all pictures, and a table of scores of every run."""
    rows = list(rows_of(VISOGENDER / "clip_debias.csv.gz"))
    root = tmp_path_factory.mktemp("visogender")
    assert list(dict.fromkeys(row["run"] for row in rows)) == RUNS
    for run in RUNS:
        mine = [(number_of(row), "0", *(row[word] for word in WORDS)) for row in rows if row["run"] == run]
        write_table(root / f"{run}.csv", ["set_id", "member", *WORDS], mine)
    labels = [
        {
            **{"set_id": number_of(row), "member": "0", "subject": row["occ_gender"]},
            **{"gender": row["occ_gender"], "context": row["context"]},
        }
        for row in rows
        if row["run"] == "clip"
    ]
    return repository(root, "visogender", labels, {"gender": ["masculine", "feminine"], "context": ["OO", "OP"]}, SUITE)


def run(root: Path, model: str, baseline: str = "none") -> dict[str, CheckResult]:
    against = baseline if baseline == "none" else f"model:scores:{baseline}.csv?values=probability"
    record = judged(root, "visogender", model=f"scores:{model}.csv?values=probability", baseline=against)
    return {check.item: check for check in record.checks}


@pytest.mark.parametrize("model", RUNS)
def test_accuracies_by_gender_and_their_gaps_are_the_published_ones(model: str, root: Path) -> None:
    found = {group.group: group.value for group in run(root, model)["accuracy"].groups}
    assert len(found) == 4
    published = [row for row in rows_of(VISOGENDER / "clip_debias_published.csv") if row["run"] == model]
    assert len(published) == 2
    for row in published:
        male, female = (found[f"{row['context']} × {gender}"] for gender in ("masculine", "feminine"))
        assert male is not None
        assert female is not None
        ours = (male, female, (male + female) / 2, abs(male - female))
        assert [f"{value:.4f}" for value in ours] == [row[name] for name in ("RA_m", "RA_f", "RA_avg", "GG")]


def test_a_debiased_model_that_lost_accuracy_and_abstains_fails_against_its_base(root: Path) -> None:
    before, after = run(root, "clip"), run(root, "ltv_vision_frozen", "clip")
    assert (before["silent"].verdict, after["silent"].verdict) == ("pass", "fail")
    verdicts = {group.group: group.verdict for group in after["lost"].groups}
    assert verdicts == {"masculine": "fail", "feminine": "fail"}
    assert after["useful"].verdict == "fail"


def test_a_debiased_model_that_is_right_oftener_for_men_and_hardly_less_for_women_passes(root: Path) -> None:
    after = run(root, "cda_none_frozen", "clip")
    changes = {group.group: group for group in after["lost"].groups}
    assert {group.verdict for group in changes.values()} == {"pass"}
    assert changes["masculine"].delta is not None
    assert changes["masculine"].delta > 0.1
