"""A table that stands in for a model says what the model says; a planted bias takes exactly its strength."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from toy_repository import SUITE, Toy, members

from fairgate import gate
from fairgate.gate import open_model
from fairgate.gate.selftest.inject import Columns, Group, columns_of, jittered, losses, planted, suite_prompts
from fairgate.gate.selftest.proof import group_to_harm, prove
from fairgate.ground.errors import DatasetError, ModelError
from fairgate.models import Capability
from fairgate.models.contract import Floats
from fairgate.probes import PROBES, Choice, OpenInstrument, Probe, ProbeScores, Rows
from fairgate.suites import resolve
from fairgate.suites.probing import run_probes

ROOT = Path(__file__).parents[3]
CHECKPOINTS = ROOT / "build" / "portraits" / "checkpoints"


def opened(root: Path, suite: str = "jobs", model: str | None = None) -> tuple[gate.Prepared, Columns]:
    prepared = gate.prepare(suite, root)
    settings = resolve(prepared.loaded.suite, {"model": model, "mlflow": "off"})
    prompts = suite_prompts(prepared.loaded.suite, prepared.dataset.manifest.subjects)
    return prepared, columns_of(open_model(settings.model, prepared, settings), prompts)


def planting(prepared: gate.Prepared, columns: Columns, strength: float) -> tuple[Columns, Group]:
    suite, index = prepared.loaded.suite, prepared.dataset.index
    group = group_to_harm(suite, index, run_probes(columns, index, suite), prepared.planned)
    prompts = suite_prompts(suite, prepared.dataset.manifest.subjects)
    return planted(columns, suite, prompts, index, group, strength), group


@pytest.mark.parametrize("strength", [0.03, 0.1, 0.3])
def test_every_image_of_the_group_loses_the_strength_and_nobody_else_anything(toy: Toy, strength: float) -> None:
    prepared, columns = opened(toy.root)
    biased, group = planting(prepared, columns, strength)
    suite, index = prepared.loaded.suite, prepared.dataset.index
    before, after = run_probes(columns, index, suite), run_probes(biased, index, suite)
    lost = before["labels"].value - after["labels"].value
    enough = before["labels"].value > strength / 0.999
    np.testing.assert_allclose(lost[group.rows & enough], strength, atol=1e-12)
    assert (lost[group.rows & ~enough] < strength).all()
    for probe in ("labels", "search"):
        np.testing.assert_array_equal(after[probe].value[~group.rows], before[probe].value[~group.rows])
    told = losses(suite, index, columns, biased, group)
    assert told["labels"] == pytest.approx(lost[group.rows].mean())
    assert told["search"] == pytest.approx(strength, abs=0.01)  # ranks of 40 images come in steps


def test_whom_it_harms_is_a_crossing_with_most_images_and_of_several_the_worst_off(toy: Toy) -> None:
    prepared, columns = opened(toy.root, model="scores:biased.csv?values=logit")
    suite, index = prepared.loaded.suite, prepared.dataset.index
    answers = run_probes(columns, index, suite)
    planned = prepared.planned
    assert group_to_harm(suite, index, answers, planned).name == "dark × female"
    assert group_to_harm(suite, index, answers, planned).rows.sum() == 80
    light = np.array(["light"] * len(index), dtype=object)
    fewer = replace(index, attributes={**index.attributes, "skin_tone": light})
    assert group_to_harm(suite, fewer, answers, planned).name == "light × female"
    alone = replace(fewer, attributes={"skin_tone": light, "gender": np.array(["male"] * len(index), dtype=object)})
    with pytest.raises(DatasetError, match="one group"):
        group_to_harm(suite, alone, answers, planned)


def target(toy: Toy, text: str) -> Group:
    """Whom the doctor harms under a suite."""
    toy.write_suite(text)
    prepared, columns = opened(toy.root)
    suite, index = prepared.loaded.suite, prepared.dataset.index
    return group_to_harm(suite, index, run_probes(columns, index, suite), prepared.planned)


(CROSSED,) = (line for line in SUITE.splitlines() if "id: gaps" in line)


def test_whom_it_harms_is_looked_at_by_a_check_with_sets_enough_for_a_verdict(toy: Toy) -> None:
    assert target(toy, SUITE).checks == ("gaps[chef]", "gaps[doctor]")
    by_tone = CROSSED.replace("crossed", "skin_tone").replace("id: gaps", "id: tones")
    tone = target(toy, SUITE.replace(CROSSED, by_tone))
    assert (tone.parts, tone.rows.sum(), tone.checks) == (("dark",), 160, ("tones[chef]", "tones[doctor]"))
    everybody = by_tone.replace("by: subject, ", "").replace("id: tones", "id: everybody")
    few = "groups: {min_sets: 41}\ndecision:"  # a subject has 40 sets, both have 80
    assert target(toy, SUITE.replace(CROSSED, f"{CROSSED}\n{everybody}").replace("decision:", few)).parts == ("dark",)
    whole = target(toy, SUITE.replace("decision:", few))
    assert (whole.name, whole.checks) == ("dark × female", ("no-regression",))
    useful = [line for line in SUITE.splitlines() if not ("no_worse_than" in line and "useful" not in line)]
    bound = target(toy, "\n".join(useful))
    assert bound.checks == ("skew[chef]", "skew[doctor]")
    assert len(bound.parts) == 1


def test_where_no_check_has_sets_enough_it_says_so(toy: Toy) -> None:
    with pytest.raises(DatasetError, match="can decide about a bias") as raised:
        target(toy, SUITE.replace("decision:", "groups: {min_sets: 81}\ndecision:"))
    assert "has 40 sets" in raised.value.problem or "have 80 sets" in raised.value.problem
    assert "coarser groups" in (raised.value.remedy or "")


def test_an_innocent_change_moves_scores_by_next_to_nothing_and_the_same_each_time(toy: Toy) -> None:
    prepared, columns = opened(toy.root)
    suite, index = prepared.loaded.suite, prepared.dataset.index
    before = run_probes(columns, index, suite)["labels"].value
    moved = run_probes(jittered(columns, "jobs"), index, suite)["labels"].value
    assert 0 < np.abs(moved - before).max() < 1e-3
    np.testing.assert_array_equal(moved, run_probes(jittered(columns, "jobs"), index, suite)["labels"].value)


def test_the_written_table_answers_as_the_columns_do(toy: Toy, tmp_path: Path) -> None:
    prepared, columns = opened(toy.root)
    suite, index = prepared.loaded.suite, prepared.dataset.index
    uri = columns.write(tmp_path / "plain.parquet", index)
    _, again = opened(toy.root, model=uri)
    for name, one in run_probes(columns, index, suite).items():
        np.testing.assert_allclose(run_probes(again, index, suite)[name].value, one.value, rtol=1e-12)


def test_a_table_of_probabilities_stays_one(toy: Toy, tmp_path: Path) -> None:
    prepared, columns = opened(toy.root)
    shares = Columns({prompt: np.minimum(one, 0.0) - 0.1 for prompt, one in columns.of.items()}, 1.0, True)
    uri = shares.write(tmp_path / "shares.parquet", prepared.dataset.index)
    prepared, found = opened(toy.root, model=uri)
    assert found.probability
    biased, group = planting(prepared, found, 0.1)
    _, again = opened(toy.root, model=biased.write(tmp_path / "biased.parquet", prepared.dataset.index))
    suite, index = prepared.loaded.suite, prepared.dataset.index
    lost = run_probes(found, index, suite)["labels"].value - run_probes(again, index, suite)["labels"].value
    assert lost[group.rows].mean() == pytest.approx(0.1, abs=1e-6)
    assert "values=probability" in jittered(found, "jobs").write(tmp_path / "quiet.parquet", index)


@pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="no embedded release here: run `dvc pull`")
@pytest.mark.xdist_group("embedded")
@pytest.mark.nightly
@pytest.mark.parametrize("suite", ["retrieval", "occupations", "so_b_it"])
def test_a_table_reproduces_the_verdicts_of_an_embedded_model(
    suite: str, tmp_path: Path, embedded_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRGATE_CACHE", str(embedded_cache))
    prepared, columns = opened(ROOT, suite)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off"})
    real = gate.evaluate(prepared, settings, command="real").record
    table = columns.write(tmp_path / "plain.parquet", prepared.dataset.index)
    stand_in = gate.evaluate(prepared, replace(settings, model=table), command="table").record
    assert real.verdict == "pass"
    assert [check.item for check in stand_in.checks] == [check.item for check in real.checks]
    for there, here in zip(real.checks, stand_in.checks, strict=True):
        assert (here.verdict, here.worst_group) == (there.verdict, there.worst_group), here.item
        assert here.value == pytest.approx(there.value, abs=1e-6), here.item


def test_probes_that_share_a_prompt_lose_no_more_than_the_strength(toy: Toy) -> None:
    any_label = (
        'any:\n    kind: zero_shot_classification\n    template: "a photo of a {label}"\n    labels: [chef, doctor]\n  '
    )
    toy.write_suite(SUITE.replace("search:\n    kind", f"{any_label}search:\n    kind"))
    prepared, columns = opened(toy.root)
    biased, group = planting(prepared, columns, 0.1)
    told = losses(prepared.loaded.suite, prepared.dataset.index, columns, biased, group)
    assert max(told["labels"], told["any"]) <= 0.1 + 1e-9
    assert min(told["labels"], told["any"]) > 0.01


PAIR = """\
schema: 1
suite: jobs
dataset: toy
model: scores:pair.csv?values=cosine&logit_scale=50
probes:
  gender:
    kind: zero_shot_classification
    template: "{label}"
    labels: [a man, a woman]
    truth: gender
    words: {male: a man, female: a woman}
  pair:
    kind: zero_shot_classification
    template: "{label}"
    labels: [kind, unkind]
    positive: kind
  words:
    kind: association
    template: "{word}"
    words: [boss]
checks:
  - {id: right, probe: gender, metric: accuracy, over: crossed, at_least: 0.8}
  - {id: kind, probe: pair, metric: group_gap, over: crossed, at_least: -0.5}
  - {id: boss, probe: words, metric: c_asc, by: word, over: crossed, at_most: 3}
"""


def test_a_truth_that_is_an_attribute_a_positive_label_and_a_word_all_lose_it(toy: Toy) -> None:
    rng = np.random.default_rng(5)
    texts = ["a man", "a woman", "kind", "unkind", "boss"]
    lines = [",".join(["set_id", "member", *texts])]
    for _, set_id, tone, gender in members(40):
        cosines = rng.normal(0.2, 0.01, len(texts))
        cosines[gender == "female"] += 0.03  # the true label
        lines.append(",".join([set_id, f"{tone}-{gender}", *map(str, cosines)]))
    (toy.root / "pair.csv").write_text("\n".join(lines), encoding="utf-8")
    toy.write_suite(PAIR)
    prepared, columns = opened(toy.root)
    assert columns.scale == pytest.approx(50)
    biased, group = planting(prepared, columns, 0.1)
    suite, index = prepared.loaded.suite, prepared.dataset.index
    told = losses(suite, index, columns, biased, group)
    assert told == pytest.approx(dict.fromkeys(["gender", "pair", "words"], 0.1), abs=0.015)
    before, after = run_probes(columns, index, suite), run_probes(biased, index, suite)
    for name, one in before.items():
        np.testing.assert_array_equal(after[name].value[~group.rows], one.value[~group.rows])


@dataclass(frozen=True)
class Foreign:
    """A model of somebody else's family: some of the capabilities of another one, and none of its other methods."""

    inner: Any
    capabilities: frozenset[Capability]
    uri: str = "theirs:model"

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        return np.asarray(self.inner.log_probabilities(prompts))

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> Floats:
        return np.asarray(self.inner.similarity(ensembles))


SEARCHES = "\n".join(line for line in SUITE.splitlines() if "probe: labels" not in line)
SEARCHES = SEARCHES.replace(SEARCHES[SEARCHES.index("  labels:") : SEARCHES.index("  search:")], "")
LABELS = "\n".join(line for line in SUITE.splitlines() if "probe: search" not in line)
LABELS = LABELS.replace(LABELS[LABELS.index("  search:") : LABELS.index("decision:")], "")
LABELS = LABELS.replace("{chef: [chef, line cook], doctor: [doctor, nurse]}", "[chef, line cook, doctor, nurse]")


@pytest.mark.parametrize(
    ("text", "capabilities"),
    [(LABELS, ["log_probabilities"]), (SEARCHES, ["similarity"]), (SUITE, ["log_probabilities", "similarity"])],
)
def test_a_model_of_any_family_is_a_table_by_its_capabilities(
    toy: Toy, text: str, capabilities: list[Capability]
) -> None:
    toy.write_suite(text)
    prepared = gate.prepare("jobs", toy.root)
    suite, index = prepared.loaded.suite, prepared.dataset.index
    settings = resolve(suite, {"mlflow": "off"})
    theirs = Foreign(open_model(settings.model, prepared, settings), frozenset(capabilities))
    columns = columns_of(theirs, suite_prompts(suite, prepared.dataset.manifest.subjects))  # type: ignore[arg-type]
    answers = run_probes(columns, index, suite)
    for name, one in run_probes(theirs, index, suite).items():
        np.testing.assert_allclose(answers[name].value, one.value, atol=1e-9)
    biased, group = planting(prepared, columns, 0.1)
    assert max(losses(suite, index, columns, biased, group).values()) == pytest.approx(0.1, abs=0.02)


def test_a_model_that_lacks_what_the_prompts_need_is_refused_by_the_capability(toy: Toy) -> None:
    prepared = gate.prepare("jobs", toy.root)
    prompts = suite_prompts(prepared.loaded.suite, prepared.dataset.manifest.subjects)
    theirs = Foreign(None, frozenset({"similarity"}))
    with pytest.raises(ModelError, match="lacks the capability 'log_probabilities'"):
        columns_of(theirs, prompts)  # type: ignore[arg-type]


class SilentProbe(Probe):
    """Measures the first label's probability, and does not say so in `truths`."""

    needs: ClassVar[Capability] = "log_probabilities"
    answers_as: ClassVar[str] = "zero_shot_classification"
    kind: Literal["silent"]

    def choices(self, subjects: Sequence[str]) -> list[Choice]:
        return [Choice(subject, {text: f"a photo of a {text}" for text in ("chef", "nurse")}) for subject in subjects]

    def run(self, name: str, model: Any, rows: Rows, open_instrument: OpenInstrument) -> dict[str, ProbeScores]:  # noqa: ARG002 # the contract's
        answers = model.log_probabilities(["a photo of a chef", "a photo of a nurse"])
        assert len(answers) == len(rows.subject)
        return {name: ProbeScores(np.exp(answers[:, 0]))}


def test_a_probe_in_which_nothing_can_be_planted_is_left_out_by_name(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROBES._found, "silent", SilentProbe)
    gap = "  - {id: quiet, probe: quiet, metric: group_gap, over: skin_tone, no_worse_than: baseline, margin: 0.02}"
    text = "\n".join(line for line in LABELS.splitlines() if "probe: labels" not in line or "id: useful" in line)
    toy.write_suite(text.replace("probes:", "probes:\n  quiet: {kind: silent}") + f"\n{gap}\n")
    settings = resolve(gate.prepare("jobs", toy.root).loaded.suite, {"mlflow": "off", "cache": "off"})
    (only,) = prove("jobs", toy.root, settings, 0.1, lambda _what: None, ("fairgate",))
    assert only.level == "warning"
    assert "no bias can be planted in probe 'quiet' (silent), and its checks are not tried" in only.what
    assert "`truths`" in (only.remedy or "")
    prepared, columns = opened(toy.root)
    biased, group = planting(prepared, columns, 0.1)
    assert set(losses(prepared.loaded.suite, prepared.dataset.index, columns, biased, group)) == {"labels"}


def test_a_text_that_a_probe_does_not_declare_is_named(toy: Toy) -> None:
    _, columns = opened(toy.root)
    with pytest.raises(ModelError, match="'a photo of a pilot', which is in none of its choices or queries"):
        columns.log_probabilities(["a photo of a chef", "a photo of a pilot"])
