"""A CLIP's zero-shot groups beside what people perceive: the embedded one, on drawn portraits, told the truth."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn import mark_all, rows, write_build
from typer.testing import CliRunner

from fairgate.builds.review import figures_of, read_records
from fairgate.builds.review.mark_statistics import ZeroShot
from fairgate.data import read_dataset
from fairgate.ground.errors import ModelError, SettingsError
from fairgate.interfaces.cli.main import app

WORLD = Path(__file__).parents[3] / "build" / "portraits"
MATCHER = f"open_clip:local-dir:{WORLD / 'checkpoints' / 'base'}"
ASK = {"gender": "a photo of a {} doctor", "skin_tone": "a photo of a {}-skinned doctor"}


def test_a_rater_who_answers_as_drawn_agrees_with_the_embedded_clip(tmp_path):
    dataset = read_dataset(WORLD / "occupations")
    sample = mark_all(dataset, tmp_path, 80)
    records = read_records(tmp_path, dataset.manifest)
    asked = ZeroShot(MATCHER, "cpu", ASK)
    found = figures_of(dataset, records, sample, lambda rows: asked.labels(dataset, rows))
    assert [(one.attribute, one.group) for one in found.groups] == [
        *(("gender", group) for group in ("male", "female")),
        *(("skin_tone", group) for group in ("light", "tan", "brown", "dark")),
    ]
    assert {one.attribute: one.column for one in found.groups}["gender"].endswith("base: “a photo of a {} doctor”")
    assert all(one.support == (40 if one.attribute == "gender" else 20) for one in found.groups)
    assert all((one.f1 or 0) > 0.9 for one in found.groups if one.attribute == "gender")


@pytest.mark.parametrize(
    ("sentences", "told"),
    [({"gendre": "a {} person"}, "did you mean 'gender'"), ({"gender": "a person"}, 'gender="A {} person"')],
)
def test_a_sentence_about_nothing_is_refused(tmp_path, sentences, told):
    with pytest.raises(SettingsError, match=told):
        ZeroShot(MATCHER, "cpu", sentences).labels(write_build(tmp_path, rows(2)), [0])


def test_every_attribute_is_asked_in_the_papers_sentence_unless_told(tmp_path):
    with pytest.raises(ModelError, match="nothing"):
        ZeroShot("nothing", "cpu").labels(write_build(tmp_path, rows(2)), [0])


@pytest.mark.parametrize("command", [["review", "--figures"], ["release"]])
def test_a_question_without_anybody_to_ask_is_refused(tmp_path, command):
    write_build(tmp_path / "b", rows(4))
    name, *options = command
    refused = CliRunner().invoke(app, [name, str(tmp_path / "b"), *options, "--ask", "gender"])
    assert refused.exit_code == 4
    assert "name a CLIP with --matcher" in refused.stderr


def test_the_figures_tell_what_the_matcher_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dataset = read_dataset(WORLD / "occupations")
    mark_all(dataset, tmp_path / "reviews" / dataset.name / dataset.fingerprint[:12], 10)
    asked = ["--matcher", MATCHER, "--ask", f"gender={ASK['gender']}", "--device", "cpu"]
    told = CliRunner().invoke(app, ["review", str(WORLD / "occupations"), "--figures", *asked])
    assert told.exit_code == 0, told.output
    assert "“a photo of a \\{\\} doctor” | male |" in told.stdout
