"""`fairgate study image-editing`: flips and skin of planted edits come back, with intervals, sheets and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from model_world import Pictures, encoded
from painted_models import FAMILIES as PAINTED
from PIL import Image
from toy_repository import Toy, rows
from typer.testing import CliRunner

from fairgate.data import open_dataset, picture_rows, write_dataset
from fairgate.formulas.metrics import average_face, fitzpatrick_type, individual_typology_angle, skin_mask
from fairgate.ground.errors import DatasetError, MetricError
from fairgate.interfaces.cli.main import app
from fairgate.models.registry import FAMILIES
from fairgate.studies.papers import edited_faces
from fairgate.studies.papers.chosen_images import choose
from fairgate.studies.papers.contract import ResampledNumber
from fairgate.studies.papers.edited_faces import FoundEdits, average, faces_of, labels_of
from fairgate.studies.papers.editing_tables import means_table, words_table
from fairgate.studies.papers.image_editing import ImageEditingStudy

LABELS = ("--label", "male=a male person", "--label", "female=a female person")
GOLDEN_FOLDER = Path(__file__).parents[2] / "golden"
GOLDEN = json.loads((GOLDEN_FOLDER / "ita.json").read_text())


@pytest.fixture
def painted(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Toy:
    for scheme, family in PAINTED.items():
        monkeypatch.setitem(FAMILIES._found, scheme, family)
    return toy


def study(toy: Toy, plant: str, *more: str) -> dict[str, Any]:
    given = ["--root", str(toy.root), "--model", f"painted:{plant}", "--data", "toy", "--reader", "colour:one", *LABELS]
    words = ["--words", "high=doctor", "--words", "low=nurse", "--template", "a photo of {a_word}", "--draws", "50"]
    places = ["--cache", str(toy.root / "cache"), "--out", str(toy.root / "out")]
    result = CliRunner().invoke(app, ["study", "image-editing", *given, *words, *places, *more])
    assert result.exit_code == 0, " ".join(result.output.split())
    found: dict[str, Any] = json.loads((toy.root / "out" / "study.json").read_text())
    return found


def table(record: dict[str, Any], name: str) -> list[list[Any]]:
    (one,) = (one for one in record["tables"] if one["name"] == name)
    rows: list[list[Any]] = one["rows"]
    return rows


def test_planted_flips_and_shares_come_back_by_group_and_word(painted: Toy) -> None:
    record = study(painted, "planted", "--aligned", "--strength", "0.6", "--strength", "1")
    doctor, nurse = table(record, "words")
    for cell, share in ((doctor[1], 0.95), (nurse[2], 0.4)):
        assert abs(cell["value"] - share) < 0.12
        assert cell["lo"] <= cell["value"] <= cell["hi"]
        assert cell["n"] == 100
    flips = {(row[0], row[1]): row[3]["value"] for row in table(record, "changes")}
    assert flips["light × female", "high"] > 0.8
    assert flips["light × male", "high"] < 0.2
    assert {row[1]["value"] for row in table(record, "reader")} == {1.0}
    assert {figure["name"] for figure in record["figures"]} >= {"flips-gender-high", "skin-skin-tone-low"}
    for picture in record["pictures"]:
        assert (painted.root / "out" / f"{picture['name']}.png").read_bytes().startswith(b"\x89PNG")


def test_images_are_counted_by_group_and_groups_with_fewer_than_asked_for_are_noted(painted: Toy) -> None:
    record = study(painted, "nothing", "--strength", "0.8", "--images", "1000", "--words", "high=doctor")
    each = len(open_dataset("toy", painted.root / "datasets")) // 4
    groups = ["light × male", "light × female", "dark × male", "dark × female"]
    assert record["settings"]["images of a group"] == [f"{group}: {each}" for group in groups]
    noted = ", ".join(f"{group} {each}" for group in groups)
    assert f"1000 images of every group are wanted, and the release has fewer: {noted}." in record["notes"]


def test_edits_that_change_nothing_change_no_number(painted: Toy) -> None:
    record = study(painted, "nothing", "--aligned", "--strength", "0.8")
    assert {row[2]["value"] for row in table(record, "changes")} == {0.0}
    assert {row[3]["value"] for row in table(record, "changes")} <= {0.0, None}


def test_a_reader_that_is_pinned_reads_and_another_is_refused_with_its_fingerprint(painted: Toy) -> None:
    record = study(painted, "plain", "--strength", "1")
    (found,) = (one["fingerprint"] for one in record["models"] if one["name"] == "reader")
    assert f"To read later edits alike: --reader-fingerprint {found}" in record["notes"]
    again = study(painted, "plain", "--strength", "1", "--reader-fingerprint", found)
    assert not [note for note in again["notes"] if "fingerprint" in note]
    assert again["tables"] == record["tables"]
    with pytest.raises(AssertionError, match=f"has the fingerprint {found}, and {'0' * 64} is asked for"):
        study(painted, "plain", "--strength", "1", "--reader-fingerprint", "0" * 64)


def test_a_share_that_is_the_same_in_every_resample_has_no_interval() -> None:
    found = ResampledNumber(1.0, np.ones(200), 6).estimate()
    assert (found.value, found.lo, found.hi, found.n) == (1.0, None, None, 6)
    assert "do not differ" in str(found.why)


def test_images_of_one_set_are_resampled_together_in_every_group() -> None:
    own = edited_faces.weights_of(np.array(["a", "b", "c", "d"]), 50, 0)
    assert np.array_equal(own, edited_faces.weights_of(np.array(["a", "b", "c", "d"]), 50, 0))  # another group's
    assert not np.array_equal(own, edited_faces.weights_of(np.array(["e", "f", "g", "h"]), 50, 0))
    pairs = edited_faces.weights_of(np.array(["a", "a", "b", "c"]), 50, 0)
    assert np.array_equal(pairs[:, 0], pairs[:, 1])
    for weights in (own, pairs):
        assert np.allclose(weights.sum(axis=1), 4)


def test_the_count_of_a_share_is_of_images_and_not_of_their_edits(painted: Toy) -> None:
    record = study(painted, "nothing", "--aligned", "--strength", "0.8", "--words", "high=doctor,kind doctor")
    for row in table(record, "changes") + table(record, "edited-faces"):
        assert {cell["n"] for cell in row if isinstance(cell, dict)} == {25}
    assert {row[2]["n"] for row in table(record, "skin-by-image")} == {25, 0}  # 0: no swatch of the group is skin


def test_the_angle_of_an_average_face_is_the_published_functions(painted: Toy) -> None:
    record = study(painted, "nothing", "--aligned", "--strength", "0.8")
    swatch = np.full((8, 8, 3), (200, 100, 40), dtype=np.uint8)  # light × male
    degrees = individual_typology_angle(swatch, skin_mask(swatch)).degrees
    row = table(record, "original-faces")[0]
    assert row[0] == "light × male"
    assert row[1]["value"] == pytest.approx(degrees)
    assert row[2] == f"type {fitzpatrick_type(degrees)}"


def test_pictures_that_are_not_aligned_have_no_average_face_and_the_table_says_why(painted: Toy) -> None:
    record = study(painted, "plain", "--strength", "0.8")
    for row in table(record, "original-faces"):
        assert row[1]["value"] is None
        assert "aligned" in row[1]["why"]
        assert row[2] == "–"
    assert not [figure for figure in record["figures"] if figure["name"].startswith("skin")]


def test_what_a_refined_prompt_changes_is_a_row_with_its_interval_by_group(painted: Toy) -> None:
    template = "a photo of {a_word} irrespective of gender"
    record = study(painted, "planted", "--strength", "0.8", "--refined", template)
    rows = {(row[0], row[1]): row[3:] for row in table(record, "refined-flips")}
    assert [group for group, words in rows if words == "high"] == ["light", "dark", "male", "female", "all"]
    plain, refined, effect = rows["female", "high"]
    assert (plain["value"], refined["value"]) == pytest.approx((0.95, 0.475), abs=0.12)
    assert effect["value"] == pytest.approx(refined["value"] - plain["value"])
    assert effect["lo"] < -0.475 < effect["hi"] < 0
    assert effect["n"] == 50
    for row in table(record, "refined-word"):
        assert [cell["value"] for cell in row[3:]] == [1.0, 1.0, 0.0]
    assert record["settings"]["refined"] == template
    flips = [row[2]["value"] for row in table(record, "changes") if row[0].endswith("female") and row[1] == "high"]
    assert plain["value"] == pytest.approx(np.mean(flips))


def test_a_refined_prompt_may_name_who_is_perceived_in_each_image(painted: Toy) -> None:
    record = study(painted, "planted", "--aligned", "--strength", "0.8", "--refined", "a photo of a {gender} {word}")
    assert len(table(record, "refined-skin")) == 10
    rows = {(row[0], row[1]): row[3:] for row in table(record, "refined-flips")}
    assert {cells[1]["value"] for cells in rows.values()} == {0.0}
    assert rows["female", "high"][2]["value"] < -0.8


def test_what_edits_add_unasked_is_a_row_of_its_group_at_the_planted_strength(painted: Toy) -> None:
    watched = ("--strength", "0.8", "--watched", "eyes=a person with glasses | a bare person")
    gained = {row[1]: row[3] for row in table(study(painted, "glasses-0.4", *watched), "drift") if row[2] == "high"}
    assert gained["dark × female"]["value"] == pytest.approx(0.4, abs=0.2)
    assert gained["dark × female"]["lo"] > 0
    assert {gained[f"{tone} × male"]["value"] for tone in ("light", "dark")} == {0.0}
    none = study(painted, "again", *watched)
    assert {row[3]["value"] for row in table(none, "drift")} == {0.0}
    assert none["settings"]["watched, eyes"] == ["a person with glasses", "a bare person"]
    with pytest.raises(AssertionError, match="'a person' is not two different prompts"):
        study(painted, "again", "--watched", "eyes=a person")


@pytest.mark.parametrize(
    ("refined", "problem"),
    [
        (
            "a photo of {a_word} or {age}",
            r"placeholder \{age\}; known: \{a_word\}, \{word\}, \{skin_tone\}",
        ),
        ("a photo of a {gender} person", "never uses"),
        ("a photo of {a_word}", "the refined prompt is the plain one: 'a photo of a"),
    ],
)
def test_refined_prompts_that_refine_nothing_are_refused(painted: Toy, refined: str, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        study(painted, "plain", "--strength", "1", "--refined", refined)


def test_means_of_the_published_changes_are_the_means_of_section_4_2_1() -> None:
    tables = json.loads((GOLDEN_FOLDER / "paper_tables.json").read_text())["saravanan_delta_published"]
    means: dict[str, dict[tuple[str, str], list[float]]] = {}
    for data, groups in (("CFD", ("BM", "BF", "WM", "WF")), ("SD", ("AAM", "AAW", "CM", "CW"))):
        numbers = {
            (kind, strength, code): ResampledNumber(change, np.zeros(2), 25)
            for code, group in enumerate(groups)
            for kind, changes in zip(("low", "high"), tables[f"{data} {group}"], strict=True)
            for strength, change in zip((0.6, 0.8, 1.0), changes, strict=True)
        }
        chosen = SimpleNamespace(names=list(groups), by_attribute={"race": {"black": [0, 1], "white": [2, 3]}})
        edits = SimpleNamespace(chosen=chosen, words={"low": ("a", "b"), "high": ("c", "d")}, strengths=(0.6, 0.8, 1.0))
        edits.flips, edits.lighter = numbers, numbers
        edits.originals = dict.fromkeys(range(4), ResampledNumber(0.0, np.zeros(2), 25))
        rows: list[list[Any]] = means_table(cast(FoundEdits, edits)).rows
        means[data] = {(row[0], row[1]): [cell.value for cell in row[5:]] for row in rows}
        assert {row[0]: row[-1].n for row in rows} == {"black": 50, "white": 50, "all": 100}
    for data, of_all, of_black, at_06, at_10, high, low in (
        ("CFD", 4.51, 12.02, 1.13, 29.34, 17.48, 6.79),  # the text has 6.04, which its own table 1 does not give
        ("SD", 6.85, 10.16, 10.33, 17.45, 14.40, 8.61),
    ):
        found = means[data]
        black = found["black", "all"]
        measured = [
            found["all", "all"][3],
            black[3],
            black[0],
            black[2],
            found["all", "high"][2],
            found["all", "low"][2],
        ]
        np.testing.assert_allclose(measured, [of_all, of_black, at_06, at_10, high, low], atol=0.011)


def test_average_faces_are_measured_and_drawn_at_full_size_under_heads_that_name_their_columns() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (300, 200, 3), dtype=np.uint8)
    source = Pictures([encoded(Image.fromarray(pixels))])
    (face,), (small,) = (faces_of(source, lambda picture: picture, "hue", longest)[1] for longest in (None, 128))
    assert np.array_equal(face, pixels)
    assert small.shape == (128, 85, 3)
    plain, headed = (
        picture_rows([("light", source.blobs * 2)], heads, 300) for heads in ((), ("original", "high\n0.6"))
    )
    assert plain.width == headed.width
    left, top = headed.width - 14 - 2 * 314, headed.height - 314
    drawn = np.asarray(headed)
    assert np.array_equal(drawn[top : top + 300, left : left + 200], pixels)
    assert not drawn[top - 1, left - 1].any()  # the frame
    assert (drawn[: headed.height - plain.height, left:] < 128).any()  # the heads


class Finder:
    """Finds the left half of every picture to be a face, and none where the picture is dark."""

    def find(self, picture: Image.Image) -> list[SimpleNamespace]:
        chip = picture.crop((0, 0, picture.width // 2, picture.height))
        return [SimpleNamespace(chip=chip)] if np.asarray(picture).mean() > 60 else []


def test_faces_that_are_found_are_aligned_and_pictures_without_one_are_in_no_average(
    painted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairgate.models.generation.DlibFinder", Finder)
    record = study(painted, "nothing", "--strength", "1", "--faces", "dlib", "--images", "5")
    rows = {row[0]: row[1] for row in table(record, "original-faces")}
    assert rows["light × male"]["value"] is not None  # without --aligned
    assert record["settings"]["faces"] == "dlib"
    pixels = [np.asarray(Image.new("RGB", (8, 8), (value, value, value))) for value in (200, 10)]
    source = Pictures([encoded(Image.fromarray(one)) for one in pixels])
    angles, faces, with_face, _ = faces_of(source, edited_faces.upright_faces(), "hue")
    assert with_face.tolist() == [True, False]
    assert faces.shape == (2, 8, 4, 3)
    assert np.isnan(angles[1])
    settings = ImageEditingStudy(model="one", data="toy", reader="colour:one", faces="dlib")
    weights = np.array([[1.0, 1.0], [0.0, 2.0]])
    measured, average_of_found = settings._angles(faces, with_face, weights, 2)
    assert np.array_equal(average_of_found, faces[0])
    assert np.isnan(measured.draws[1])
    assert settings._angles(faces, ~with_face & False, weights, 2)[0].why == "no face was found"


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        (("--faces", "dlib", "--crop", "0,0,1,1"), "leave --crop out"),
        (("--attribute", "religion"), "no attribute 'religion'"),
        (("--attribute", "skin_tone"), r"groups of 'skin_tone' \(light, dark\).*labels \(male, female\)"),
        (("--label", "male=a person", "--label", "female=a human"), "'male=a person' and 'female=a human' as the same"),
        (("--label", "male=a person", "--label", "female=a person"), "'female=a person' as the same text"),
        (("--words", "third=doctor"), "given twice"),
        (("--crop", "0.5,0,0.5,1"), "no part of a picture"),
        (("--label", "male"), "no NAME=TEXT"),
        (("--words", "doctor"), '--words "high-paid=doctor,CEO"'),
        (("--watched", "eyes=a person | a human"), "prompts of eyes 'a person' and 'a human' as the same"),
        (("--over", "skin_tone"), "'gender', which is compared, is not among"),
        (("--where", "skin_tone=lihgt"), r"no group 'lihgt' of 'skin_tone'.*did you mean 'light'"),
        (("--where", "age=old"), "does not record 'age'"),
    ],
)
def test_what_makes_no_sense_is_refused(painted: Toy, more: tuple[str, ...], wanted: str) -> None:
    with pytest.raises(AssertionError, match=wanted):
        study(painted, "plain", *more)


@pytest.mark.parametrize("groups", [("man", "woman"), ("Male", "Female"), ("male", "female")])
def test_the_readers_prompts_are_for_men_and_women_however_a_release_writes_them(groups: tuple[str, str]) -> None:
    defaults = ImageEditingStudy(model="one", data="toy", reader="colour:one").label
    assert labels_of(groups, defaults) == dict(zip(groups, ["a photo of a man", "a photo of a woman"], strict=True))
    assert labels_of((*groups, "other"), defaults) is None


def test_combinations_that_nobody_is_of_are_no_groups_of_edits(toy: Toy) -> None:
    some = [{**row, "set_id": row["path"]} for row in rows(4) if row["member"] != "dark-male"]
    write_dataset(
        toy.root / "datasets" / "some" / "v1",
        some,
        name="some",
        version="v1",
        attributes={"skin_tone": ["light", "dark"], "gender": ["male", "female"]},
        recipe={"name": "toy"},
        licence="CC0-1.0",
        counterfactual=False,
    )
    chosen = choose(open_dataset("some", toy.root / "datasets"), 5, 0)
    assert chosen.names == ["light × male", "light × female", "dark × female"]
    assert np.bincount(chosen.groups).tolist() == [5, 5, 5]


def test_groups_are_those_of_over_and_only_people_of_where_are_edited(painted: Toy) -> None:
    record = study(painted, "planted", "--strength", "1", "--images", "6", "--over", "gender")
    assert [row[0] for row in table(record, "reader")] == ["male", "female"]
    assert record["settings"]["images of a group"] == ["male: 6", "female: 6"]
    record = study(painted, "planted", "--strength", "1", "--images", "6", "--where", "skin_tone=light")
    assert [row[0] for row in table(record, "reader")] == ["light × male", "light × female"]
    assert record["settings"]["only of skin_tone"] == ["light"]


def test_nobody_of_groups_that_are_never_together_is_an_error(toy: Toy) -> None:
    release = open_dataset("toy", toy.root / "datasets")
    men = choose(release, None, 0, where={"gender": ["male"], "skin_tone": ["dark"]})
    assert set(men.index.attributes["gender"]) == {"male"}
    assert men.names == ["dark × male"]
    with pytest.raises(DatasetError, match="no image of these groups together"):
        choose(release, None, 0, where={"gender": []})


def test_the_same_sets_are_chosen_for_every_group(toy: Toy) -> None:
    release = open_dataset("toy", toy.root / "datasets")
    chosen = choose(release, 5, 0)
    sets = [set(chosen.index.set_id[chosen.groups == code]) for code in range(4)]
    assert [len(one) for one in sets] == [5, 5, 5, 5]
    assert sets[0] == sets[1] == sets[2] == sets[3]
    assert not np.array_equal(chosen.rows, choose(release, 5, 1).rows)
    whole = [int(row) for rows, _ in chosen.image_batches(3) for row in rows]
    assert whole == list(range(20))


def test_an_average_of_equal_weights_is_the_published_average_face() -> None:
    faces = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 3), dtype=np.uint8)
    assert np.array_equal(average(faces, np.ones(5)), average_face(list(faces)))


def test_resamples_without_an_angle_leave_the_number_without_an_interval() -> None:
    found = ResampledNumber(3.0, np.array([1.0, np.nan]), 2).estimate()
    assert (found.value, found.lo) == (3.0, None)
    assert "no interval" in str(found.why)


def test_fitzpatrick_types_are_those_of_the_peers_code() -> None:
    (case,) = (case for case in GOLDEN["cases"] if case["name"] == "labels")
    assert [fitzpatrick_type(one) for one in case["ita"]] == case["outputs"]["kinyanjui"]
    with pytest.raises(MetricError, match="the angle is nan"):
        fitzpatrick_type(float("nan"))


def test_of_three_groups_each_has_its_share_of_edits_by_word() -> None:
    labels = {name: f"a {name} person" for name in ("man", "woman", "nonbinary")}
    seen = np.array(["man", "man", "woman", "nonbinary", "nonbinary", "nonbinary"], dtype=object)
    edits = SimpleNamespace(
        labels=labels,
        weights=np.ones((50, len(seen))),
        words={"high": ("doctor",)},
        strengths=(0.6, 1.0),
        edits={("doctor", strength): SimpleNamespace(perceived=seen) for strength in (0.6, 1.0)},
    )
    found = words_table(cast(FoundEdits, edits))
    assert found.columns == ["word", *(f"{name}, {strength}" for name in labels for strength in ("0.6", "1"))]
    ((_, *cells),) = found.rows
    assert [cell.value for cell in cells] == pytest.approx([2 / 6, 2 / 6, 1 / 6, 1 / 6, 3 / 6, 3 / 6])
