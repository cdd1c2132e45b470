"""A release of prompts: what a generator is asked for, by word and seed, without pictures."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from fairgate.data import open_dataset, write_prompts
from fairgate.ground.errors import DatasetError
from fairgate.interfaces.cli.main import app

ASKED = {"doctor": "a photo of a doctor", "engineer": "a photo of an engineer"}


def test_a_row_is_a_prompt_and_a_seed_and_the_release_has_neither_pictures_nor_attributes(tmp_path):
    write_prompts(ASKED, 3, "jobs", root=tmp_path)
    found = open_dataset("jobs", tmp_path)
    assert found.index.set_id.tolist() == [f"{word}-{seed}" for word in ASKED for seed in range(3)]
    assert found.index.caption.tolist() == [prompt for prompt in ASKED.values() for _ in range(3)]
    assert (found.manifest.image_encoding, found.manifest.attributes, found.verify()) == ("none", {}, [])
    with pytest.raises(DatasetError, match="labels and no images"):
        next(found.image_batches(1))


def test_the_same_prompts_and_seeds_are_the_same_content_and_others_are_not(tmp_path):
    made = [write_prompts(ASKED, 3, name, root=tmp_path).fingerprint for name in ("jobs", "again")]
    other = write_prompts({**ASKED, "doctor": "a picture of a doctor"}, 3, "other", root=tmp_path).fingerprint
    assert made[0] == made[1] != other


@pytest.mark.parametrize(
    ("prompts", "seeds", "problem"),
    [
        ({}, 3, "0 prompts with 3 seeds"),
        (ASKED, 0, "2 prompts with 0 seeds"),
        ({"doctor": " "}, 1, "prompt is blank"),
        ({"doctor": "a doctor", "physician": "a  doctor"}, 1, "'doctor' and 'physician' have the same prompt"),
        ({"doctor": "a doctor", "d\u043ector": "a d\u043ector"}, 1, "look alike"),
        ({"::error::doctor": "a doctor"}, 1, "reads as a command"),
    ],
)
def test_prompts_that_make_no_release_are_refused_and_leave_nothing(tmp_path, prompts, seeds, problem):
    with pytest.raises(DatasetError, match=problem):
        write_prompts(prompts, seeds, "jobs", root=tmp_path)
    assert not (tmp_path / "jobs" / "v1").exists()


def test_the_command_fills_words_into_the_template_with_their_article(tmp_path):
    words = ["--word", "doctor", "--word", "engineer", "--seeds", "2", "--root", str(tmp_path)]
    done = CliRunner().invoke(app, ["dataset", "prompts", "jobs", "--template", "a photo of {a_word}", *words])
    assert done.exit_code == 0, done.output
    assert "4 rows, without pictures" in done.stdout
    assert open_dataset("jobs", tmp_path).index.caption.tolist()[::2] == list(ASKED.values())


def test_a_word_has_as_many_pictures_as_its_own_number(tmp_path):
    words = ["--word", "doctor=3", "--word", "engineer", "--seeds", "2", "--root", str(tmp_path)]
    done = CliRunner().invoke(app, ["dataset", "prompts", "jobs", "--template", "a photo of {a_word}", *words])
    assert done.exit_code == 0, done.output
    found = open_dataset("jobs", tmp_path)
    assert found.index.set_id.tolist() == ["doctor-0", "doctor-1", "doctor-2", "engineer-0", "engineer-1"]
    assert found.manifest.recipe["seeds"] == {"doctor": 3, "engineer": 2}


@pytest.mark.parametrize(
    ("template", "words", "problem"),
    [
        ("a photo", ["doctor"], "never uses {a_word}"),
        ("{word}", ["doctor", "doctor=3"], "'doctor' is given twice"),
        ("{word}", ["doctor=many"], "'many' is no number of pictures"),
        ("{word}", ["doctor=0"], "1 prompts with 0 seeds"),
    ],
)
def test_the_command_refuses_what_is_no_template_and_a_word_that_is_given_twice(tmp_path, template, words, problem):
    given = [part for word in words for part in ("--word", word)]
    command = ["dataset", "prompts", "jobs", "--template", template, *given, "--root", str(tmp_path)]
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, problem in done.stderr) == (4, True)


def test_a_check_over_each_attribute_of_a_release_without_any_is_refused(toy):
    write_prompts(ASKED, 40, "prompts", root=toy.root / "datasets")
    suite = """\
schema: 1
suite: prompts
dataset: prompts
model: scores:tuned.csv?values=logit
probes:
  labels: {kind: zero_shot_classification, template: "a photo of a {label}", labels: [doctor, engineer]}
checks:
  - {id: useful, probe: labels, metric: accuracy, over: each, at_least: 0.5}
"""
    toy.write_suite(suite, "prompts")
    said = CliRunner().invoke(app, ["check", "prompts", "--root", str(toy.root)])
    assert (said.exit_code, "records no attribute" in said.output) == (4, True), said.output
