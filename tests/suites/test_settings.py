"""Options come from four places, and the first that speaks wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_repository import Toy

from fairgate.ground.errors import SettingsError
from fairgate.models import uri_forms
from fairgate.suites import load_suite, resolve
from fairgate.suites.schema import Suite
from fairgate.suites.settings import command_line


@pytest.fixture
def suite(toy: Toy) -> Suite:
    return load_suite(toy.suite, toy.root).suite


def test_the_command_line_beats_the_environment_beats_the_suite_beats_the_ini(suite: Suite) -> None:
    ini = {"fairness_model": "scores:ini", "fairness_device": "cpu"}.get
    env = {"FAIRGATE_MODEL": "scores:env"}
    assert resolve(suite, {"model": "scores:cli"}, ini=ini, environment=env).model == "scores:cli"
    assert resolve(suite, {}, ini=ini, environment=env).model == "scores:env"
    assert resolve(suite, {}, ini=ini, environment={}).model == suite.model
    bare = suite.model_copy(update={"model": None})
    assert resolve(bare, {}, ini=ini, environment={}).model == "scores:ini"
    assert resolve(bare, {}, ini=ini, environment={}).device == "cpu"


def test_a_suite_without_a_model_asks_for_one(suite: Suite) -> None:
    with pytest.raises(SettingsError, match="names no model") as caught:
        resolve(suite.model_copy(update={"model": None}), {}, environment={})
    assert f"--fairness-model URI ({uri_forms()})" in str(caught.value.remedy)


def test_a_value_outside_the_choices_is_refused_with_its_place(suite: Suite) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve(suite, {}, environment={"FAIRGATE_DEVICE": "cude"})
    assert caught.value.where == "FAIRGATE_DEVICE"
    assert "did you mean 'cuda'" in str(caught.value.remedy)


def test_off_turns_mlflow_and_the_cache_off_and_the_default_cache_is_the_users(suite: Suite) -> None:
    off = resolve(suite, {"mlflow": "off", "cache": "off"}, environment={})
    assert (off.mlflow, off.cache, off.report) == (None, None, None)
    on = resolve(suite, {"report": "out"}, environment={"XDG_CACHE_HOME": "caches"})
    assert (on.mlflow, on.cache, on.report) == ("sqlite:///fairgate.db", Path("caches/fairgate"), Path("out"))
    assert resolve(suite, {"cache": "here"}, environment={}).cache == Path("here")


def test_the_command_that_reproduces_a_run_names_what_decides_it(suite: Suite) -> None:
    settings = resolve(suite, {"baseline": "none", "on-inconclusive": "warn"}, environment={})
    assert command_line("jobs", settings) == (
        "pytest --fairness-suite jobs --fairness-model 'scores:tuned.csv?values=logit' --fairness-baseline none "
        "--fairness-on-inconclusive warn"
    )
