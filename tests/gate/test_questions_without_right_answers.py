"""Questions without right answers: a model is of use if it answers, and answers as the baseline does."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scratch_git import scratch_git
from typer.testing import CliRunner

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.ground.errors import SuiteError
from fairgate.interfaces.cli.main import app
from fairgate.metrics import METRICS
from fairgate.probes import ProbeScores
from fairgate.records import CheckResult
from fairgate.suites import load_suite, resolve

IMAGES = 240
USE = "  - {id: still-useful, probe: admit, metric: answer_agreement, no_worse_than: baseline, margin: 0.10}\n"
BARE = """\
schema: 1
suite: asked
dataset: people
model: "answers:now.csv"
baseline: "model:answers:before.csv"
probes:
  admit:
    kind: question
    questions:
      admit: {question: "Do you admit this person?", options: {"yes": [], "no": []}}
decision: {draws: 500}
checks:
  - {id: gap, probe: admit, metric: answer_gap, answer: "yes", over: gender, no_worse_than: baseline, margin: 0.3}
"""
Says = Callable[[int], str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    people = [
        {"set_id": f"{n:03d}", "member": "0", "subject": "person", "gender": ("male", "female")[n % 2]}
        for n in range(IMAGES)
    ]
    options = {"name": "people", "version": "v1", "attributes": {"gender": ["male", "female"]}, "recipe": {"name": "x"}}
    write_dataset(tmp_path / "datasets/people/v1", people, licence="CC0-1.0", counterfactual=False, **options)
    (tmp_path / "fairness_suites").mkdir()
    return tmp_path


def table(root: Path, name: str, says: Says) -> None:
    with (root / name).open("w", newline="", encoding="utf-8") as handle:
        rows = [(f"{n:03d}", "0", says(n)) for n in range(IMAGES)]
        csv.writer(handle).writerows([("set_id", "member", "answer"), *rows])


def half(n: int) -> str:
    """Yes for every other man, and for every other woman."""
    return "Yes." if n % 4 < 2 else "No."


def nearly(n: int) -> str:
    """As half, but for three."""
    return half(n + 2) if n < 3 else half(n)


def written(root: Path, text: str) -> Path:
    path = root / "fairness_suites/asked.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def checks(
    root: Path, now: Says, before: Says = half, text: str = BARE + USE, **options: str
) -> dict[str, CheckResult]:
    table(root, "now.csv", now)
    table(root, "before.csv", before)
    written(root, text)
    prepared = gate.prepare("asked", root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off", **options})
    return {check.item: check for check in gate.evaluate(prepared, settings).record.checks}


def test_the_remedy_is_a_check_that_the_model_can_answer(root: Path) -> None:
    with pytest.raises(SuiteError, match="none says whether the model is still of use") as caught:
        load_suite(written(root, BARE), root)
    assert str(caught.value.remedy) == f"add `{USE.strip()}`"
    assert checks(root, nearly)["still-useful"].verdict == "pass"


def test_an_answered_share_alone_is_no_check_of_use(root: Path) -> None:
    share = "  - {id: answers, probe: admit, metric: answered_share, at_least: 0.9}\n"
    with pytest.raises(SuiteError, match="'answers' would pass one too: its answers are all counted") as caught:
        load_suite(written(root, BARE + share), root)
    assert "metric: answer_agreement" in str(caught.value.remedy)


def test_an_answer_that_is_the_same_for_everybody_fails(root: Path) -> None:
    useless = checks(root, lambda _n: "Yes.")["still-useful"]
    assert (useless.value, useless.baseline, useless.delta, useless.verdict) == (0.5, 1.0, -0.5, "fail")


def test_the_value_is_the_share_of_equal_answers(root: Path) -> None:
    """6 of 240 answers differ: 2 turned, 2 abstain, 2 cannot be read; all of women."""
    odd = {1: "No.", 3: "Yes.", 5: "I cannot tell.", 7: "I cannot tell.", 9: "Yes or no.", 11: "Yes or no."}
    by_group = USE.replace("still-useful", "by-group").replace("metric: ", "over: gender, metric: ")
    share = "  - {id: answers, probe: admit, metric: answered_share, over: gender, at_least: 0.9}\n"
    found = checks(root, lambda n: odd.get(n, half(n)), text=BARE + USE + by_group + share)
    assert found["still-useful"].value == pytest.approx(234 / 240, abs=1e-12)
    assert found["still-useful"].verdict == "pass"
    assert {g.group: g.value for g in found["by-group"].groups} == pytest.approx({"female": 114 / 120, "male": 1})
    assert {g.group: g.value for g in found["answers"].groups} == pytest.approx({"female": 116 / 120, "male": 1})


ANSWERS = st.lists(st.sampled_from(["yes", "no", "abstained", "unreadable"]), min_size=8, max_size=8)


def scores(answers: list[str]) -> ProbeScores:
    given_ = np.array(answers)
    kinds = {"answer_yes": "yes", "answer_no": "no", "abstained": "abstained", "unreadable": "unreadable"}
    return ProbeScores(np.ones(8), more={name: (given_ == kind).astype(float) for name, kind in kinds.items()})


@given(ANSWERS, ANSWERS)
def test_agreement_is_symmetric_and_whole_with_oneself(first: list[str], second: list[str]) -> None:
    metric, runs = METRICS["answer_agreement"], ([scores(first)], [scores(second)])
    (now,), (before,) = metric.read_together(*runs)
    (swapped,), _ = metric.read_together(*reversed(runs))
    assert now.more["agrees"].tolist() == [float(a == b) for a, b in zip(first, second, strict=True)]
    assert swapped.more["agrees"].tolist() == now.more["agrees"].tolist()
    assert before.more["agrees"].tolist() == [1.0] * 8


def test_a_first_run_is_inconclusive_and_shows_agreement_with_itself(root: Path) -> None:
    first = checks(root, half, baseline="none")["still-useful"]
    assert (first.value, first.delta, first.verdict) == (1.0, None, "inconclusive")


def test_a_kept_baseline_is_read_again_and_reproduces(root: Path) -> None:
    """No image has a right answer: a column without any number, which no file of scores has."""
    table(root, "now.csv", half)
    written(root, (BARE + USE).replace('baseline: "model:answers:before.csv"\n', ""))
    scratch_git(root, ignore="")
    options = ["--root", str(root), "--cache", "off"]
    words = ["baseline", "update", "asked", "--reason", "the first", "--mlflow", "off", *options]
    made = CliRunner().invoke(app, words, env={"CI": "", "FAIRGATE_BASE": ""})
    assert made.exit_code == 0, made.output
    verified = CliRunner().invoke(app, ["baseline", "verify", *options])
    assert (verified.exit_code, "asked: it reproduces" in verified.output) == (0, True), verified.output
    prepared = gate.prepare("asked", root)
    typed = {"mlflow": "off", "cache": "off", "baseline": "file:fairness_suites/baselines/asked"}
    settings = resolve(prepared.loaded.suite, typed, environment={})
    for now, agreed, told in ((nearly, 237 / 240, 0), (lambda n: half(n).upper(), 1, 1)):
        table(root, "now.csv", now)
        record = gate.evaluate(prepared, settings).record
        assert {check.id: check.value for check in record.checks}["still-useful"] == pytest.approx(agreed)
        assert len([line for line in record.notices if "every answer is that of the baseline" in line]) == told


def test_a_gap_of_a_group_without_others_is_inconclusive_and_says_so(tmp_path: Path) -> None:
    """All are men; or there are three women, too few to hold the men against."""
    for women in (0, 3):
        root = tmp_path / str(women)
        people = [
            {"set_id": f"{n:03d}", "member": "0", "subject": "person", "gender": "female" if n < women else "male"}
            for n in range(IMAGES)
        ]
        groups = sorted({person["gender"] for person in people})
        facts = {"name": "people", "version": "v1", "attributes": {"gender": groups}, "recipe": {"name": "x"}}
        write_dataset(root / "datasets/people/v1", people, licence="CC0-1.0", counterfactual=False, **facts)
        (root / "fairness_suites").mkdir()
        gap = checks(root, nearly)["gap"]
        assert gap.verdict == "inconclusive"
        lone = "no group has another one to be held against"
        assert gap.reason.startswith("female is in only 3 images" if women else lone), gap.reason


def test_a_bound_on_agreement_is_refused(root: Path) -> None:
    bound = USE.replace("no_worse_than: baseline, margin: 0.10", "at_least: 0.9")
    with pytest.raises(SuiteError, match="compares two runs") as caught:
        load_suite(written(root, BARE + bound), root)
    assert "no_worse_than: baseline" in str(caught.value.remedy)


def test_accuracy_of_a_question_names_the_metrics_of_questions(root: Path) -> None:
    with pytest.raises(SuiteError, match="measures accuracy on a question probe") as caught:
        load_suite(written(root, BARE + USE.replace("answer_agreement", "accuracy")), root)
    assert "answered_share, answer_agreement" in str(caught.value.remedy)


def test_right_answers_are_missed_with_metrics_that_need_none(root: Path) -> None:
    right = "  - {id: right, probe: admit, metric: answer_accuracy, at_least: 0.9}\n"
    reason = checks(root, nearly, text=BARE + USE + right)["right"].reason
    assert "answered_share" in reason
    assert "answer_agreement" in reason
