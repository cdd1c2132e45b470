"""`fairgate study diffusion-classifier`: accuracy, S and one-sided pairs are those of the table of scores."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from toy_repository import Toy, members, rows
from typer.testing import CliRunner

from fairgate.data import write_dataset
from fairgate.formulas.metrics import differential_association, pair_choices
from fairgate.interfaces.cli.main import app
from fairgate.studies.papers.diffusion_classifier import DiffusionClassifierStudy
from fairgate.studies.papers.pair_answers import PairPrompts

WORDS = ("carpenter", "plumber", "nurse", "secretary", "man", "woman")


@pytest.fixture
def toy_of_pairs(toy: Toy) -> tuple[Toy, np.ndarray]:
    """`pairs.csv`: men are nearer to the first two words; every tenth picture's gender is read wrong."""
    rng = np.random.default_rng(0)
    shown = [gender for _, _, _, gender in members(40)]
    table = rng.normal(size=(len(shown), len(WORDS)))
    for row, gender in enumerate(shown):
        table[row, :2] += 1.0 if gender == "male" else -1.0
        table[row, 4:] = (5, 0) if (gender == "male") != (row % 10 == 0) else (0, 5)
    with (toy.root / "pairs.csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["set_id", "member", *(f"a portrait of a {word}" for word in WORDS)])
        for (_, set_id, tone, gender), row in zip(members(40), table, strict=True):
            writer.writerow([set_id, f"{tone}-{gender}", *row])
    return toy, table


def study(toy: Toy, *more: str) -> tuple[dict[str, Any], str]:
    given = ["--root", str(toy.root), "--model", "one=scores:pairs.csv?values=logit", "--data", "toy", "--draws", "100"]
    lists = ["--first", "carpenter,plumber", "--second", "nurse,secretary", "--template", "a portrait of a {word}"]
    places = ["--cache", str(toy.root / "cache"), "--out", str(toy.root / "out")]
    result = CliRunner().invoke(app, ["study", "diffusion-classifier", *given, *lists, *places, *more])
    assert result.exit_code == 0, " ".join(result.output.split())
    return json.loads((toy.root / "out" / "study.json").read_text()), result.output


def table(record: dict[str, Any], name: str) -> dict[Any, list[Any]]:
    (one,) = (one for one in record["tables"] if one["name"] == name)
    return {row[0] if len(row) == 2 else tuple(row[:3]): row[-1] for row in one["rows"]}


def test_its_numbers_are_those_of_the_published_functions(toy_of_pairs: tuple[Toy, np.ndarray]) -> None:
    toy, scores = toy_of_pairs
    record, _ = study(toy, "--pair", "plumber/nurse")
    male = np.array([gender == "male" for *_, gender in members(40)])
    choices = pair_choices(-scores[:, :2], -scores[:, 2:4])
    s = {name: choices[own].mean() for name, own in (("male", male), ("female", ~male))}
    found = table(record, "association")
    assert found["male"]["value"] == pytest.approx(s["male"])
    assert found["female"]["value"] == pytest.approx(s["female"])
    assert found["male less female"]["value"] == pytest.approx(differential_association(s["male"], s["female"]))
    assert found["male"]["lo"] < s["male"] < found["male"]["hi"]
    right = (scores[:, 4] > scores[:, 5]) == male
    assert table(record, "accuracy")["male"]["value"] == pytest.approx(right[male].mean())
    pairs = table(record, "pairs")
    shares = choices[male].mean(axis=0)
    listed = {(a, b) for (group, a, b) in pairs if group == "male"}
    assert listed == {
        (a, b)
        for i, a in enumerate(("carpenter", "plumber"))
        for j, b in enumerate(("nurse", "secretary"))
        if shares[i, j] > 0.75 or shares[i, j] < 0.25
    }
    assert listed
    for picture in record["pictures"]:
        assert (toy.root / "out" / f"{picture['name']}.png").read_bytes().startswith(b"\x89PNG")
    assert len(record["pictures"]) == 4


def test_three_groups_are_compared_pair_by_pair(toy: Toy) -> None:
    def three() -> Iterator[Mapping[str, object]]:
        for place, row in enumerate(rows(40)):
            yield {**row, "set_id": f"image-{place}", "gender": genders[place % 3]}

    genders, rng = ("man", "woman", "nonbinary"), np.random.default_rng(0)
    folder = toy.root / "datasets" / "three" / "v1"
    attributes = {"gender": list(genders)}
    facts = {"name": "three", "version": "v1", "recipe": {"name": "toy"}, "licence": "CC0-1.0", "counterfactual": False}
    write_dataset(folder, three(), attributes=attributes, **facts)
    words = ("carpenter", "plumber", "nurse", "secretary", *genders)
    scores = rng.normal(size=(320, len(words)))
    for place, row in enumerate(scores):
        row[:2] += (1.0, -1.0, 0.0)[place % 3]
        row[4 + place % 3] += 9
    with (toy.root / "pairs.csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["set_id", "member", *(f"a portrait of a {word}" for word in words)])
        writer.writerows([f"image-{at}", row["member"], *scores[at]] for at, row in enumerate(rows(40)))
    labels = [word for gender in genders for word in ("--label", f"{gender}={gender}")]
    record, _ = study(toy, "--data", "three", *labels)
    found = {name: cell["value"] for name, cell in table(record, "association").items()}
    s = pair_choices(-scores[:, :2], -scores[:, 2:4]).mean(axis=(1, 2))
    own = {gender: s[place::3].mean() for place, gender in enumerate(genders)}
    apart = {f"{x} less {y}": own[x] - own[y] for x, y in combinations(genders, 2)}
    assert found == pytest.approx(own | apart)
    assert {cell["value"] for cell in table(record, "accuracy").values()} == {1.0}


def test_refined_prompts_move_s_by_the_difference_of_both_with_its_interval(
    toy_of_pairs: tuple[Toy, np.ndarray],
) -> None:
    toy, scores = toy_of_pairs
    words = [f"a portrait of any {word}" for word in WORDS[:4]]
    refined = np.random.default_rng(1).normal(size=(len(scores), len(words)))
    head, *lines = (toy.root / "pairs.csv").read_text(encoding="utf-8").splitlines()
    wider = [f"{line},{','.join(map(str, row))}" for line, row in zip(lines, refined, strict=True)]
    (toy.root / "pairs.csv").write_text("\n".join([f"{head},{','.join(words)}", *wider]), encoding="utf-8")
    record, _ = study(toy, "--refined", "a portrait of any {word}")
    (found,) = (each for each in record["tables"] if each["name"] == "refined")
    rows = {row[1]: row[2:] for row in found["rows"]}
    of = {}
    for gender in ("male", "female"):
        own = np.array([shown == gender for *_, shown in members(40)])
        both = (scores[own], refined[own])
        plain, other = of[gender] = [float(pair_choices(-each[:, :2], -each[:, 2:4]).mean()) for each in both]
        assert [cell["value"] for cell in rows[gender]] == pytest.approx([plain, other, other - plain])
    apart = [of["male"][at] - of["female"][at] for at in (0, 1)]
    effect = rows["male less female"][2]
    assert effect["value"] == pytest.approx(apart[1] - apart[0])
    assert effect["lo"] < effect["value"] < effect["hi"] < 0


@pytest.fixture
def photographs(toy_of_pairs: tuple[Toy, np.ndarray]) -> tuple[Toy, np.ndarray]:
    """Release `photographs` and the rows that it has: Male and Female, a quarter of the dark men, nobody who is tan."""
    toy, _ = toy_of_pairs
    every = list(rows(40))
    some = [at for at, row in enumerate(every) if row["member"] != "dark-male" or at % 16 == 2]
    own = [{**every[at], "gender": str(every[at]["gender"]).capitalize()} for at in some]
    write_dataset(
        toy.root / "datasets" / "photographs" / "v1",
        own,
        name="photographs",
        version="v1",
        attributes={"skin_tone": ["light", "tan", "dark"], "gender": ["Male", "Female"]},
        recipe={"name": "toy"},
        licence="CC0-1.0",
        counterfactual=False,
    )
    head, *lines = (toy.root / "pairs.csv").read_text(encoding="utf-8").splitlines()
    (toy.root / "pairs.csv").write_text("\n".join([head, *(lines[at] for at in some)]), encoding="utf-8")
    return toy, np.array(some)


def test_every_race_counts_alike_in_the_row_of_a_gender(
    toy_of_pairs: tuple[Toy, np.ndarray], photographs: tuple[Toy, np.ndarray]
) -> None:
    toy, some = photographs
    record, _ = study(toy, "--data", "photographs")
    scores = toy_of_pairs[1][some]
    people = np.array([(tone, gender) for _, _, tone, gender in members(40)])[some]
    s = pair_choices(-scores[:, :2], -scores[:, 2:4]).mean(axis=(1, 2))
    by_race = [s[(people == (tone, "male")).all(axis=1)] for tone in ("light", "dark")]
    found = table(record, "association")["Male"]
    assert [len(one) for one in by_race] == [80, 20]
    assert found["value"] == pytest.approx(np.mean([one.mean() for one in by_race]))
    assert found["value"] != pytest.approx(np.concatenate(by_race).mean())
    assert found["n"] == 100
    assert found["lo"] < found["value"] < found["hi"]
    (figure,) = record["figures"]
    assert {one["name"]: one["y"][0] for one in figure["series"]}["Male"] == pytest.approx(found["value"])


def test_groups_are_those_of_over_and_only_people_of_where_are_classified(
    toy_of_pairs: tuple[Toy, np.ndarray],
) -> None:
    toy, scores = toy_of_pairs
    head, *lines = (toy.root / "pairs.csv").read_text(encoding="utf-8").splitlines()
    light = [line for line in lines if ",light-" in line]  # a table has the images that are asked for, and no other
    (toy.root / "pairs.csv").write_text("\n".join([head, *light]), encoding="utf-8")
    record, _ = study(toy, "--over", "gender", "--where", "skin_tone=light")
    own = np.array([(tone, gender) == ("light", "male") for _, _, tone, gender in members(40)])
    found = table(record, "association")
    assert set(found) == {"male", "female", "male less female"}
    assert found["male"]["value"] == pytest.approx(pair_choices(-scores[own, :2], -scores[own, 2:4]).mean())
    assert found["male"]["n"] == own.sum()


def test_pictures_are_sorted_by_the_papers_pair_where_it_is_in_the_lists() -> None:
    def pair(**options: Any) -> tuple[str, str]:
        return DiffusionClassifierStudy(model={}, data="toy", **options).sorted_by

    assert pair() == ("construction worker", "babysitter")
    assert pair(first=("chef", "doctor"), second=("nurse",)) == ("chef", "nurse")
    assert pair(pair=("plumber", "nurse")) == ("plumber", "nurse")


def test_the_papers_words_are_for_men_and_women_however_a_release_writes_them(
    toy_of_pairs: tuple[Toy, np.ndarray], photographs: tuple[Toy, np.ndarray]
) -> None:
    record, _ = study(photographs[0], "--data", "photographs")
    scores = toy_of_pairs[1][photographs[1]]
    assert record["settings"]["word for Male"] == "man"
    assert "Male less Female" in table(record, "association")
    male = np.array([gender == "male" for *_, gender in members(40)])[photographs[1]]
    light = np.array([tone == "light" for _, _, tone, _ in members(40)])[photographs[1]]
    right = (scores[:, 4] > scores[:, 5])[male & light].mean()
    assert table(record, "accuracy")["light × Male"]["value"] == pytest.approx(right)
    assert right > 0.5


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        (("--label", "male=man", "--label", "man=boy"), r"'gender' \(male, female\) than .* labels \(male, man\)"),
        (("--label", "male=man", "--label", "female=man"), "'female=man' as the same text"),
        (("--pair", "nurse/plumber"), "are no pair of the lists"),
        (("--pair", "nurse"), "is no pair"),
        (("--second", "nurse,plumber"), "given twice"),
        (("--label", "male=man"), "other groups of 'gender'"),
        (("--template", "a portrait"), "never uses"),
        (("--samples", "1"), "takes no samples.*leave --samples out"),
    ],
)
def test_what_makes_no_sense_is_refused(
    toy_of_pairs: tuple[Toy, np.ndarray], more: tuple[str, ...], wanted: str
) -> None:
    with pytest.raises(AssertionError, match=wanted):
        study(toy_of_pairs[0], *more)


@pytest.mark.parametrize(
    ("one", "other", "what"), [(4, 5, "labels 'male=man' and 'female=woman'"), (0, 2, "words 'carpenter'")]
)
def test_words_that_the_model_cannot_tell_apart_are_refused(
    toy_of_pairs: tuple[Toy, np.ndarray], one: int, other: int, what: str
) -> None:
    place = toy_of_pairs[0].root / "pairs.csv"
    head, *lines = place.read_text(encoding="utf-8").splitlines()
    cells = [line.split(",") for line in lines]
    for row in cells:
        row[2 + other] = row[2 + one]
    place.write_text("\n".join([head, *(",".join(row) for row in cells)]), encoding="utf-8")
    with pytest.raises(AssertionError, match=f"the model reads the {what}.* as the same text"):
        study(toy_of_pairs[0])


@pytest.mark.parametrize("option", ["--first", "--second"])
def test_one_own_list_is_not_compared_with_the_papers_other_one(option: str) -> None:
    given = ["--model", "one=scores:pairs.csv", "--data", "toy", option, "doctor,pilot"]
    result = CliRunner().invoke(app, ["study", "diffusion-classifier", *given])
    assert result.exit_code == 4
    assert "one list of words is given" in " ".join(result.output.split())


class Sampled:
    """Errors (samples, images, prompts) of a diffusion classifier; pairs are decided by a way of its own."""

    def __init__(self, errors: np.ndarray) -> None:
        self.sampled = errors

    def log_probabilities(self, prompts: list[str]) -> np.ndarray:
        return -self.sampled.mean(axis=0)[:, -len(prompts) :]

    def pair_choices(self, first: list[str], second: list[str]) -> np.ndarray:
        return np.full((self.sampled.shape[1], len(first), len(second)), 0.25)

    def errors_by_samples(self, prompts: list[str], counts: tuple[int, ...]) -> np.ndarray:
        return np.stack([self.sampled[:count].mean(axis=0)[:, : len(prompts)] for count in counts])


def test_pairs_are_compared_as_the_model_does_and_by_the_errors_of_its_samples() -> None:
    errors = np.random.default_rng(0).normal(size=(10, 8, 5))
    model: Any = Sampled(errors)
    asked = PairPrompts(["a", "b"], ["c"], {"male": "man", "female": "woman"})
    shown = np.array(["male", "female"] * 4, dtype=object)
    assert (asked.answers(model, shown).choices == 0.25).all()
    parts = asked.answers_by_samples(model, (1, 10), shown, "--model one")
    for count, part in parts.items():
        mean = errors[:count].mean(axis=0)
        assert np.array_equal(part.choices, pair_choices(mean[:, :2], mean[:, 2:3]))
        assert np.array_equal(part.right, (mean[:, 3] < mean[:, 4]) == (shown == "male"))


def test_a_refined_prompt_for_a_table_may_name_who_is_perceived(toy_of_pairs: tuple[Toy, np.ndarray]) -> None:
    toy, _ = toy_of_pairs
    words = [f"a portrait of a {gender} {word}" for gender in ("male", "female") for word in WORDS[:4]]
    refined = np.random.default_rng(1).normal(size=(320, len(words)))
    head, *lines = (toy.root / "pairs.csv").read_text(encoding="utf-8").splitlines()
    wider = [f"{line},{','.join(map(str, row))}" for line, row in zip(lines, refined, strict=True)]
    (toy.root / "pairs.csv").write_text("\n".join([f"{head},{','.join(words)}", *wider]), encoding="utf-8")
    record, _ = study(toy, "--refined", "a portrait of a {gender} {word}", "--where", "skin_tone=dark")
    (found,) = (each for each in record["tables"] if each["name"] == "refined")
    other = {row[1]: row[3]["value"] for row in found["rows"]}
    for of, gender in enumerate(("male", "female")):
        own = np.array([(tone, shown) == ("dark", gender) for _, _, tone, shown in members(40)])
        first, second = (refined[own, 4 * of + at : 4 * of + at + 2] for at in (0, 2))
        assert other[gender] == pytest.approx(pair_choices(-first, -second).mean())
