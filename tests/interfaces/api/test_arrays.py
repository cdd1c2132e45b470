"""Arrays of numbers and groups are judged without a repository; suites are written from Python; reprs are a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_repository import Toy

import fairgate
from fairgate.data import large_columns
from fairgate.ground.errors import SettingsError, SuiteError
from fairgate.reports import render_comment, terminal_summary

IMAGES = 240
GENDER = np.array(["female", "male"])[np.arange(IMAGES) % 2]
SKIN = np.array(["dark", "light"])[np.arange(IMAGES) // 2 % 2]
DARK_WOMEN = (GENDER == "female") & (SKIN == "dark")


@pytest.fixture(scope="module")
def before() -> Any:
    return np.random.default_rng(0).uniform(0.6, 1, IMAGES)


def test_arrays_of_a_harmless_change_pass_and_those_in_which_a_crossing_lost_fail_and_name_it(before: Any) -> None:
    groups = {"gender": GENDER, "skin_tone": SKIN}
    now = before + np.random.default_rng(1).normal(0, 0.01, IMAGES)
    run = fairgate.check_arrays(now, groups, baseline=before)
    assert run.ok, run
    run = fairgate.check_arrays(now - 0.1 * DARK_WOMEN, groups, baseline=before)
    assert repr(run) == "Run(arrays: fail, 1 failed, 1 passed)"
    (failed,) = run.record.closing
    assert [group.group for group in failed.failing_groups] == ["female × dark"]
    told = "\n".join([*terminal_summary(run.record), render_comment(run.record), run._repr_html_()])
    assert "arrays: fail" in told
    for absent in (
        "fairgate check",
        "fairgate audit",
        "pull request",
        "fairness_suites/",
        "Reproduce",
        "to reproduce",
        "reproduce: ",
    ):
        assert absent not in told, "the folder of the suite is gone"


def test_right_and_wrong_answers_pass_if_as_many_are_right_and_fail_if_a_group_lost() -> None:
    """1,500 answers, 90% right, of which 10% turn: no fewer are right, in no group."""
    rng = np.random.default_rng(3)
    gender = np.array(["female", "male"])[np.arange(1500) % 2]
    before = (rng.random(1500) < 0.9).astype(int)
    right, wrong = np.flatnonzero(before == 1), np.flatnonzero(before == 0)
    harmless = before.copy()
    harmless[rng.choice(right, 70, replace=False)] = 0
    harmless[rng.choice(wrong, 80, replace=False)] = 1
    run = fairgate.check_arrays(harmless, gender, baseline=before, margin=0.05)
    assert run.ok, run.record.checks
    biased = before.copy()
    biased[rng.choice(right[gender[right] == "female"], 90, replace=False)] = 0
    run = fairgate.check_arrays(biased, gender, baseline=before, margin=0.05)
    (failed,) = [check for check in run.record.closing if check.id == "no-group-loses"]
    assert [group.group for group in failed.failing_groups] == ["female"]


def test_one_rating_for_everybody_fails_and_a_small_group_is_not_judged(before: Any) -> None:
    groups = np.where(np.arange(IMAGES) < 10, "few", "many")
    run = fairgate.check_arrays(np.full(IMAGES, 5.0), groups, baseline=5 * before)
    assert {check.id: check.verdict for check in run.record.checks} == {
        "still-useful": "fail",
        "no-group-loses": "inconclusive",
    }


@pytest.mark.parametrize(
    ("scores", "groups", "said"),
    [
        (np.ones((IMAGES, 2)), GENDER, "'scores' is not a number for every image"),
        (np.full(IMAGES, np.nan), GENDER, "'scores' is not a number for every image"),
        (["a"] * IMAGES, GENDER, "'scores' is not a number for every image"),
        (np.ones(IMAGES), {"gender": GENDER[1:]}, "'gender' has the shape (239,), and scores have (240,)"),
        (np.ones(IMAGES - 1), GENDER, "'baseline' has the shape (240,), and scores have (239,)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(before: Any, scores: Any, groups: Any, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        fairgate.check_arrays(scores, groups, baseline=before)
    assert said in caught.value.problem


def test_a_suite_is_written_from_python_as_by_the_command(toy: Toy) -> None:
    model = "scores:base.csv?values=logit"
    suite = fairgate.new_suite("first", "toy", model, root=toy.root, baseline="none", measured=False)
    assert repr(suite) == f"LoadedSuite(first: {len(suite.suite.checks)} checks on toy)"
    assert suite.path == toy.root / "fairness_suites" / "first.yaml"
    assert repr(fairgate.open_dataset("toy", toy.root)) == "Dataset(toy@v1: 320 rows, skin_tone, gender)"
    with pytest.raises(SuiteError, match="is there"):
        fairgate.new_suite("first", "toy", model, root=Path(toy.root), measured=False)


def test_arrays_whose_columns_are_on_disk_get_the_same_verdicts_and_numbers(
    before: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = before - 0.1 * DARK_WOMEN
    in_memory = fairgate.check_arrays(now, {"gender": GENDER, "skin_tone": SKIN}, baseline=before)
    monkeypatch.setattr(large_columns, "LARGE", 1)
    there = fairgate.check_arrays(now, {"gender": GENDER, "skin_tone": SKIN}, baseline=before)
    assert there.record.checks == in_memory.record.checks
    assert there.record.scores_digest == in_memory.record.scores_digest
