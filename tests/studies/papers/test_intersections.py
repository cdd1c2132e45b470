"""`fairgate study intersections`: MaxSkew over pairs and within groups, and shares, are the public functions'."""

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np
import pytest
from toy_repository import GENDERS, TONES, Toy, rows, toy_repository
from typer.testing import CliRunner

from fairgate import gate
from fairgate.builds.recipes.social_counterfactuals import ATTRIBUTES, PREFIXES, TEMPLATES, caption_set
from fairgate.data import open_dataset, write_dataset
from fairgate.formulas.metrics import max_skew_at_k
from fairgate.ground.errors import DatasetError
from fairgate.interfaces.cli.main import app
from fairgate.records import Estimate
from fairgate.studies.papers.attribute_pairs import AttributePair
from fairgate.studies.papers.contract import StudyPlace
from fairgate.studies.papers.intersections import IntersectionsStudy, neutral_caption, neutral_captions
from fairgate.suites import resolve

TUNED, BIASED = ("scores:tuned.csv?values=logit", "scores:biased.csv?values=logit")


def study(toy: Toy, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["study", "intersections", "--root", str(toy.root), "--draws", "200", *words])
    return result.exit_code, result.output + str(result.exception or "")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """One for all of these tests, which write nothing into it but a release of their own."""
    return toy_repository(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def found(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The study of two models with the suite's queries, as study.json."""
    tmp_path = tmp_path_factory.mktemp("study")
    queries = ("--prompt", "{subject}", "--prompt", "a picture of {a_subject}", "--show", "doctor")
    out = tmp_path / "out"
    code, output = study(toy, "--model", TUNED, "--model", BIASED, "--data", "toy", *queries, "--out", str(out))
    assert code == 0, output
    assert "MaxSkew@4 over subjects" in output
    record: dict[str, Any] = json.loads((out / "study.json").read_text())
    for one in record["tables"]:
        with (out / f"{one['name']}.csv").open() as file:
            assert len(list(csv.reader(file))) == len(one["rows"]) + 1
    for one in record["figures"]:
        assert (out / f"{one['name']}.svg").read_bytes().startswith(b"<?xml")
    return record


def table(record: dict[str, Any], name: str) -> dict[str, list[Any]]:
    (one,) = (one for one in record["tables"] if one["name"] == name)
    return {row[0]: row[1:] for row in one["rows"]}


def test_its_numbers_are_those_of_the_published_functions(toy: Toy, found: dict[str, Any]) -> None:
    prepared = gate.prepare("jobs", toy.root)
    typed = {"mlflow": "off", "cache": "off", "model": TUNED, "baseline": "none"}
    value = gate.score(prepared, resolve(prepared.loaded.suite, typed, environment={})).scores["search"].value
    index = prepared.dataset.index
    tones, genders = (np.asarray(index.codes(name)[0]) for name in ("skin_tone", "gender"))
    skews, within = [], []
    for subject in ("chef", "doctor"):
        here = index.subject == subject
        skews.append(max_skew_at_k(value[here][None], (2 * tones + genders)[here], 4, groups=4)[0])
        of_tone = [here & (tones == tone) for tone in range(2)]
        within.append([max_skew_at_k(value[of][None], genders[of], 2, groups=2)[0] for of in of_tone])
    by_subject = table(found, "subjects-toy-skin-tone-gender")
    assert [by_subject[subject][0]["value"] for subject in ("chef", "doctor")] == pytest.approx(skews)
    assert table(found, "max-skew-toy-skin-tone-gender")["tuned"][0] == pytest.approx(np.mean(skews))
    means = np.mean(within, axis=0)
    row = table(found, "within-skin-tone-toy-skin-tone-gender")["tuned"]
    assert [cell["value"] for cell in row[:2]] == pytest.approx(means.tolist())
    for cell in row[:2]:
        assert cell["lo"] is None or cell["lo"] <= cell["value"] <= cell["hi"]


def test_shares_of_either_attribute_and_of_both_add_up(found: dict[str, Any]) -> None:
    shares = table(found, "shares-doctor-toy-skin-tone-gender")
    for groups in (
        ["light", "dark"],
        ["male", "female"],
        [f"{t} × {g}" for t in ("light", "dark") for g in ("male", "female")],
    ):
        assert sum(shares[group][0]["value"] for group in groups) == pytest.approx(1.0)
    assert found["settings"]["queries"] == ["{subject}", "a picture of {a_subject}"]


def test_it_says_that_text_embeddings_are_averaged_at_length_1_other_than_in_the_authors_code(
    found: dict[str, Any],
) -> None:
    assert any("scaled to length 1 before they are averaged" in note for note in found["notes"])


def test_chance_is_in_every_table_of_max_skew(found: dict[str, Any]) -> None:
    (columns,) = (one["columns"] for one in found["tables"] if one["name"] == "subjects-toy-skin-tone-gender")
    assert columns[-2:] == ["a fair ranker, median", "a fair ranker, 95%"]
    skews = [one for one in found["tables"] if one["title"].startswith("MaxSkew")]
    said = [f"{one['columns']} {[row[0] for row in one['rows']]} {one['note']}" for one in skews]
    assert all("fair ranker" in one for one in said), said


def test_each_figure_names_its_axes_and_chance_is_next_to_skew(found: dict[str, Any]) -> None:
    figures = {one["name"]: one for one in found["figures"]}
    boxes = figures["max-skew-figure"]
    assert boxes["kind"] == "boxes"
    assert [len(one["y"]) for one in boxes["series"]] == [2, 2]
    assert "(nats)" in boxes["y_label"]
    assert "a fair ranker, median" in figures["within-gender-toy-skin-tone-gender-figure"]["reference"]


def test_figure_5_has_a_box_over_subjects_for_every_pair_of_attributes(toy: Toy) -> None:
    faiths = ("Hindu", "Muslim")
    write_dataset(
        toy.root / "datasets" / "three" / "v1",
        ({**row, "religion": faiths[int(str(row["set_id"])[-1]) % 2]} for row in rows(40)),
        name="three",
        version="v1",
        attributes={"skin_tone": TONES, "gender": GENDERS, "religion": faiths},
        recipe={"name": "three"},
        licence="CC0-1.0",
        counterfactual=True,
        notice="drawn squares",
    )
    searched = IntersectionsStudy(model={"biased": BIASED}, data=("three",), prompt=("{subject}",), draws=100)
    contents = searched.run(StudyPlace(toy.root, "cpu", None, None))
    (series,) = contents.figures[0].series
    pairs = ("skin_tone × gender", "skin_tone × religion", "gender × religion")
    assert len(dict.fromkeys(series.x)) == 3
    tables = {each.name: each.rows for each in contents.tables}
    for pair in pairs:
        numbers = [y for x, y in zip(series.x, series.y, strict=True) if pair in str(x) and y is not None]
        by_subject = tables[f"subjects-three-{pair.replace('_', '-').replace(' × ', '-')}"]
        assert sorted(numbers) == sorted(row[1].value for row in by_subject if isinstance(row[1], Estimate))
        assert len(numbers) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "toy", "--k", "161", "--prompt", "{subject}"), "choose --k up to 160"),
        (("--data", "toy", "--prompt", "a photo"), "never uses"),
        (("--data", "toy", "--prompt", "{subject}", "--show", "docter"), "did you mean 'doctor'"),
        (("--data", "toy", "--prompt", "{subject}", "--model", TUNED), "two models are named 'tuned'"),
        (("--data", "toys"), "toy"),
    ],
)
def test_what_cannot_be_studied_is_refused_with_a_remedy(toy: Toy, words: tuple[str, ...], said: str) -> None:
    code, output = study(toy, "--model", TUNED, *words)
    assert code != 0
    assert said in output.replace("\n", " ")


def test_a_model_that_ranks_nothing_is_refused_by_what_it_lacks(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    from fairgate.studies.papers import contract

    class Labels:
        uri, capabilities, fingerprint = "labels:x", frozenset({"log_probabilities"}), "f"

    monkeypatch.setattr(contract, "open_scorer", lambda *_, **__: Labels())
    code, output = study(toy, "--model", "labels:x", "--data", "toy")
    assert code != 0
    assert "lacks the capability 'similarity'" in output.replace("\n", " ")


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("of", "subject"), [("occupations", "police officer"), ("occupations", "actor"), ("traits", "honest")]
)
def test_the_neutral_caption_of_a_published_set_names_no_group(prefix: str, of: Any, subject: str) -> None:
    words = {name: ATTRIBUTES[name] for name in ("race", "gender")}
    captions = [row["caption"] for row in caption_set(prefix, subject, words, TEMPLATES[of])]
    named = {"police officer": "a police officer", "actor": "an actor", "honest": "an honest person"}[subject]
    assert neutral_caption(captions) == f"{prefix} {named}".strip()


def few_sets(toy: Toy, sets: int) -> AttributePair:
    """Eight subjects of a few sets: resamples over all subjects leave one out, or fewer than K of its images."""
    data = open_dataset("toy", toy.root / "datasets")
    (image,) = [next(iter(data.images_of([data.index.set_id[0]])[data.index.set_id[0]]))[1]]
    rows = [
        {"image": image, "set_id": f"{job}{n}", "member": f"{t}{g}", "subject": job, "skin_tone": t, "gender": g}
        for job in "abcdefgh"
        for n in range(sets)
        for t in ("light", "dark")
        for g in ("male", "female")
    ]
    given: dict[str, Any] = {"name": f"few{sets}", "version": "v1", "recipe": {"name": "x"}, "licence": "CC0-1.0"}
    groups = {"skin_tone": ["light", "dark"], "gender": ["male", "female"]}
    write_dataset(toy.root / "datasets" / f"few{sets}" / "v1", rows, attributes=groups, counterfactual=True, **given)
    few = open_dataset(f"few{sets}", toy.root / "datasets")
    answers = {"model": np.random.default_rng(0).random(len(few.index))}
    return AttributePair(few, ("skin_tone", "gender"), answers, cut=None, draws=200)


def test_sets_are_resampled_within_subjects_so_that_few_sets_per_subject_have_intervals(toy: Toy) -> None:
    cells = [one for of in few_sets(toy, 6).within for one in of.values["model"]]
    assert len(cells) == 4
    for cell in cells:
        assert cell.lo is not None
        assert cell.hi is not None
        assert cell.lo < cell.hi


def test_too_few_sets_per_subject_have_no_interval_and_the_reason_is_said(toy: Toy) -> None:
    for of in few_sets(toy, 3).within:
        for cell in of.values["model"]:
            assert (cell.lo, cell.why) == (None, "no interval: 3 sets are too few")


def test_captions_of_many_wordings_are_not_averaged(toy: Toy) -> None:
    data = open_dataset("toy", toy.root / "datasets")
    assert neutral_captions(data) == {"chef": ["a photo of a chef"], "doctor": ["a photo of a doctor"]}
    rows = [
        {"image": image, "set_id": f"s{n}", "member": g, "subject": "chef", "caption": f"{n} words {g}", "gender": g}
        for n, image in enumerate([next(iter(data.images_of([data.index.set_id[0]])[data.index.set_id[0]]))[1]] * 33)
        for g in ("male", "female")
    ]
    folder = toy.root / "datasets" / "free" / "v1"
    given: dict[str, Any] = {"name": "free", "version": "v1", "recipe": {"name": "x"}, "licence": "CC0-1.0"}
    write_dataset(folder, rows, attributes={"gender": ["male", "female"]}, counterfactual=True, **given)
    with pytest.raises(DatasetError, match="33 different ones") as caught:
        neutral_captions(open_dataset("free", toy.root / "datasets"))
    assert "--prompt" in caught.value.remedy
