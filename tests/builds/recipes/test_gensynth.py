"""The recipe `gensynth`: its paper's numbers, what the filter rejects, and edits that are not made in vain."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import edit_fakes
import numpy as np
import pytest
import yaml
from edit_fakes import PERSON, outcome, seen
from in_memory_build import rows_of, run_part, run_recipe
from PIL import Image
from scipy.stats import chisquare

from fairgate.builds.recipes import gensynth as published
from fairgate.builds.recipes import open_recipe
from fairgate.builds.steps import Meter, SetRows, run_steps
from fairgate.builds.steps.crop_edit import EditShares, EditUntilAccepted, EditWorkshop, NeighbourPool, NeighbourRule
from fairgate.builds.steps.person_photographs import Photographs
from fairgate.builds.steps.pictures import picture
from fairgate.builds.steps.remake import reedit
from fairgate.ground.errors import DatasetError, RecipeError
from fairgate.models import generation
from fairgate.models.generation import registry

PHOTOS, PILOT = 60, 16
ROOT = Path(__file__).resolve().parents[3]
FEW = {"editor": "fake:editor", "matcher": "fake:matcher", "edit_steps": 2, "pilot_photos": PILOT, "neighbours": 20}


def faked(monkeypatch):
    for role in ("editor", "matcher"):
        monkeypatch.setitem(registry.ADAPTERS, f"fake.{role}", "edit_fakes")
    edit_fakes.OPENED.clear()
    return edit_fakes.OPENED


@pytest.fixture
def fakes(monkeypatch):
    return faked(monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return edit_fakes.write_folder(tmp_path_factory.mktemp("coco"), PHOTOS)


def build(folder, **options):
    recipe = open_recipe("gensynth", {**FEW, **folder, **options})
    return recipe, run_recipe(recipe, "person")


@pytest.fixture(scope="module")
def built(folder):
    """The recipe and its parts, run once: tests read them."""
    with pytest.MonkeyPatch.context() as patch:
        faked(patch)
        return build(folder)


def test_the_published_settings_are_the_defaults():
    options = open_recipe("gensynth", {}).settings
    assert (options.edit_steps, options.guidances) == (500, [9.5, 15.0])
    assert (options.neighbours, options.group_neighbours, options.tau_real, options.tau_group) == (50, None, 0.08, 0.5)
    assert options.rule == NeighbourRule(50, 50, 0.08, 0.5)
    assert {how.size for how in (each.how for each in options.candidates)} == {512}
    assert (options.editor, options.subjects, options.gender_words) == ("instruct-pix2pix", {"person": []}, "published")
    assert len(options.candidates) == 16
    frames = ["Make this person more {}", "Make this person look like a {}", "Turn this person into a {}"]
    for group, words in {"male": ("masculine", "man"), "female": ("feminine", "woman")}.items():
        lines = [frame.format(words[place > 0]) for place, frame in enumerate([*frames, "Convert this into a {}"])]
        assert published.INSTRUCTIONS[group] == lines


def test_the_dino_variant_is_settings_alone():
    dino = {"neighbours": 217, "tau_real": 0.0046, "group_neighbours": 50, "tau_group": 0.4}
    options = open_recipe("gensynth", dino).settings
    assert options.rule == NeighbourRule(217, 50, 0.0046, 0.4)
    pool, papers = 17 * options.pilot_photos, 17 * 11_541
    assert options.neighbours == round(5_000 * pool / papers)  # as large a share of the pool as in appendix F
    assert options.rule.accepts(EditShares(real=1 / 217, group=0.5))  # one real image is enough
    assert not options.rule.accepts(EditShares(real=0.0, group=0.5))


def test_the_builds_neighbourhood_is_as_large_a_share_of_the_pool_as_the_papers():
    for name, build, published_k in (
        ("params.yaml", "gensynth", published.NEIGHBOURS),
        ("examples/gensynth/params.yaml", "gensynth_unfiltered", published.NEIGHBOURS),
        ("examples/gensynth/params.yaml", "gensynth-dino", 5_000),
    ):
        typed = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))["builds"][build]
        options = open_recipe("gensynth", {key: value for key, value in typed.items() if key != "recipe"}).settings
        assert options.neighbours == round(published_k * options.pilot_photos / 11_541), build
        assert options.rule.k_group == 50
        assert options.rule.accepts(EditShares(real=1 / options.neighbours, group=0.51))  # one real image is enough


def test_a_set_is_one_photograph_with_its_person_edited_both_ways_and_nothing_else_changed(fakes, folder, built):
    recipe, (_, _, edits) = built
    rows = rows_of(recipe, edits)
    assert len(rows) == 2 * len(edits.set_ids) >= 60
    for male, female in zip(rows[::2], rows[1::2], strict=True):
        assert (male["member"], female["member"]) == (male["gender"], female["gender"]) == ("male", "female")
        photo = np.asarray(Image.open(folder["images"] / male["photo"]).convert("RGB"))
        left, top, right, bottom = (male[f"box_{side}"] for side in ("left", "top", "right", "bottom"))
        assert (left, top, bottom) == (PERSON[0], PERSON[1], PERSON[3])
        outside = np.ones(photo.shape[:2], dtype=bool)
        outside[top:bottom, left:right] = False
        for row in (male, female):
            made = np.asarray(picture(row["image"]))
            assert np.array_equal(made[outside], photo[outside])
            assert row["p_real"] > 0.08
            assert row["p_group"] > 0.5
        assert male["set_id"] == f"{int(male['photo'].split('.')[0]):012d}"


def test_members_say_how_they_were_made_and_what_they_show(fakes, built):
    recipe, (_, _, edits) = built
    for row in rows_of(recipe, edits):
        assert row["instruction"] in published.INSTRUCTIONS[row["gender"]]
        assert row["guidance"] == json.loads(row["how"])["guidance"]
        assert row["guidance"] in published.GUIDANCES
        assert (row["generator"], row["recipe"], row["subject"]) == ("fake:editor", "gensynth", "person")
        noun = {"male": "man", "female": "woman"}[row["gender"]]
        assert row["caption"].startswith(f"A {noun} with ")
        assert row["neutral_caption"] == "A person with their dog."
        assert json.loads(row["captions"])[2] == f"The {noun}'s coat."
        assert "pilot" not in row
        assert "embedding" not in row


def test_an_edit_is_made_again_from_its_row_alone(fakes, folder, built):
    recipe, (_, _, edits) = built
    for row in rows_of(recipe, edits)[:6]:
        again = reedit(row, Image.open(folder["images"] / row["photo"]), edit_fakes.Editor("again"))
        assert np.array_equal(np.asarray(again), np.asarray(picture(row["image"])))


def test_planted_failures_are_rejected_and_good_edits_are_found(fakes, built):
    recipe, (photos, _, edits) = built
    rows = rows_of(recipe, edits)
    boxes = {row["photo"]: tuple(row[f"box_{side}"] for side in ("left", "top", "right", "bottom")) for row in rows}
    shown = [seen(picture(row["image"]).crop(boxes[row["photo"]])) for row in rows]
    wrong = [row for row, colour in zip(rows, shown, strict=True) if colour != row["gender"]]
    assert not wrong  # an accepted edit was left alone only where the photograph showed the group already
    assert all(outcome(row["seed"]) != "green" for row in rows)
    assert len(edits.set_ids) >= 0.75 * len(photos.set_ids)


def test_the_filter_rejects_planted_failures_with_the_precision_and_recall_that_are_reported(fakes, built):
    recipe, (_, pilot, _) = built
    pool = recipe.parts()[2].context("person", pilot)
    told = Counter()  # (is a failure, is rejected)
    for rows in pilot.kept.values():
        for row in rows.rows[1:]:
            failed = seen(picture(row["image"])) != row["gender"]
            shares = pool.shares(row["embedding"], row["gender"], rows.set_id, recipe.settings.rule)
            told[failed, not recipe.settings.rule.accepts(shares)] += 1
    assert sum(told.values()) == 16 * PILOT
    assert told[True, True] / (told[True, True] + told[True, False]) == 1.0  # recall: every failure is rejected
    # precision: tau_real is so near the share of real images in the pool (1 of 17) that good edits are lost as well
    assert told[True, True] / (told[True, True] + told[False, True]) == pytest.approx(0.43, abs=0.1)


def test_fewer_edits_are_made_than_published_and_every_one_is_counted(fakes, built):
    _, (photos, pilot, edits) = built
    made = pilot.meter.counts["edits"] + edits.meter.counts["edits"]
    assert pilot.meter.counts["edits"] == 16 * PILOT
    assert pilot.meter.counts["unet"] + edits.meter.counts["unet"] == made * 3 * 2
    assert made < 0.6 * 16 * len(photos.set_ids)


def test_the_pilots_edits_are_not_made_twice(fakes, folder):
    recipe, (_, pilot, edits) = build(folder)
    pilots = set(pilot.set_ids[:PILOT])
    kept = [row for row in rows_of(recipe, edits) if row["set_id"] in pilots]
    assert kept
    made = {(rows.set_id, row["seed"]) for rows in pilot.kept.values() for row in rows.rows[1:]}
    assert all((row["set_id"], row["seed"]) in made for row in kept)
    assert not {call[2] for call in fakes["editor"].calls} & {(seed,) for _, seed in made}


def test_the_group_that_the_photograph_does_not_show_is_tried_first_and_alone_where_it_fails(
    fakes, folder, monkeypatch
):
    monkeypatch.setattr(edit_fakes, "OUTCOMES", {"good": 0.0, "same": 1.0, "green": 0.0})
    _, (photos, _, edits) = build(folder, tau_real=0.0)
    assert edits.set_ids == []
    for trace in edits.traces:
        shown = photos.kept[trace.set_id].columns["original_gender"]
        assert (trace.drop.reason, trace.drop.limit) == ("wrong_group", 0.5)
        assert trace.drop.member == ("female" if shown == "male" else "male")
        assert trace.drop.measured <= 0.5
    assert edits.meter.counts["judged"] == 8 * len(photos.set_ids)


def test_edits_that_look_like_nobody_are_dropped_as_unlike_real(fakes, folder, monkeypatch):
    monkeypatch.setattr(edit_fakes, "COLOURS", {"male": (230, 250, 30), "female": (250, 30, 250)})
    monkeypatch.setattr(edit_fakes, "OUTCOMES", {"good": 1.0, "same": 0.0, "green": 0.0})
    _, (_, _, edits) = build(folder)
    reasons = Counter(trace.drop.reason for trace in edits.traces)
    assert reasons == {"unlike_real": len(edits.traces)}
    assert all(trace.drop.limit == 0.08 for trace in edits.traces)


def test_a_dropped_set_tells_whom_it_tried(fakes, folder):
    recipe, (_, pilot, _) = build(folder)
    part = recipe.parts()[2]
    sets = [rows for shard in part.shards("person", pilot) for rows in shard]
    run_steps(part.steps("person", "cpu", part.context("person", pilot)), sets, Meter())
    dropped = [rows for rows in sets if rows.drop]
    assert dropped
    for rows in dropped:
        assert rows.rows[-1] == {"member": rows.drop.member, "gender": rows.drop.member}
        assert len(rows.rows) == (1 if rows.drop.member != rows.columns["original_gender"] else 2)


def test_what_is_chosen_does_not_depend_on_waves_batches_or_shards(fakes, folder, built):
    recipe, (_, _, edits) = built
    expected = {row["set_id"] + row["member"]: row["seed"] for row in rows_of(recipe, edits)}
    for options in ({"wave": 3}, {"batch": 1, "wave": 8}, {"shard_sets": 5}):
        other, (_, _, again) = build(folder, **options)
        assert {row["set_id"] + row["member"]: row["seed"] for row in rows_of(other, again)} == expected


def test_it_stops_once_enough_sets_are_kept(fakes, folder):
    _, (_, _, edits) = build(folder, sets=10)
    assert len(edits.set_ids) == 10
    assert len(edits.traces) <= 24


class _Unit:
    """An editor and a matcher for the simulation: an edit's embedding says whether it will be accepted."""

    uri, fingerprint = "unit", "0" * 64

    def __init__(self, accepted):
        self.accepted, self.spent = accepted, Counter()
        self.places = {}

    def edit(self, image, instructions, seeds, hows):  # noqa: ARG002
        return [Image.new("RGB", image.size, (255 * (line in self.accepted), 0, 0)) for line in instructions]

    def embed_images(self, images):
        return np.array([[np.asarray(image)[0, 0, 0] / 255] for image in images], dtype=np.float32)


@pytest.mark.parametrize("accepted", [["male 0", "male 5"], [f"male {n}" for n in range(7)]])
def test_the_first_accepted_edit_is_a_random_accepted_one(tmp_path, accepted):
    Image.new("RGB", (4, 4)).save(tmp_path / "photo.png")
    lines = {"male": [f"male {n}" for n in range(8)]}
    unit = _Unit(accepted)
    pool = NeighbourPool.of([([1.0], "male", "another")], [([0.0], "female", "another")])
    some = published.candidates(lines, [generation.Sampling(1, 1.0)])
    step = EditUntilAccepted(
        EditWorkshop(unit, unit), Photographs(tmp_path), tuple(some), pool, NeighbourRule(1, 1, 0.5, 0.5)
    )
    columns = {"photo": "photo.png", "box_left": 0, "box_top": 0, "box_right": 4, "box_bottom": 4}
    sets = [
        SetRows(str(n), "person", ("simulated", n), columns={**columns, "original_gender": "female"})
        for n in range(1000)
    ]
    meter = Meter()
    assert all(trace.kept for trace in run_steps([step], sets, meter))
    chosen = Counter(rows.rows[0]["instruction"] for rows in sets)
    assert set(chosen) == set(accepted)
    assert chisquare([chosen[line] for line in accepted]).pvalue > 0.001
    # the mean place of the first of a accepted in a random order of n is (n + 1) / (a + 1)
    assert meter.counts["edits"] / len(sets) == pytest.approx(9 / (len(accepted) + 1), rel=0.1)


def test_a_photograph_that_changed_under_the_build_is_noticed(fakes, tmp_path):
    folder = edit_fakes.write_folder(tmp_path, 20)
    recipe = open_recipe("gensynth", {**FEW, **folder, "pilot_photos": 4, "neighbours": 5})
    photos = run_part(recipe.parts()[0], "person", None)
    for path in folder["images"].iterdir():
        Image.new("RGB", (40, 36)).save(path)
    with pytest.raises(DatasetError, match=r"has changed since the build began"):
        run_part(recipe.parts()[1], "person", photos)


@pytest.mark.parametrize(
    "options",
    [{"pilot_photos": 2, "neighbours": 18}, {"pilot_photos": 2, "neighbours": 5, "group_neighbours": 18}],
)
def test_settings_with_more_neighbours_than_the_pool_can_hold_are_refused(options):
    with pytest.raises(RecipeError, match="are a pool of 17 for each of them; raise pilot_photos"):
        open_recipe("gensynth", {**FEW, **options})
    assert open_recipe("gensynth", {**FEW, **options, "pilot_photos": 3})


def test_photographs_too_few_for_the_neighbours_say_what_to_do(fakes, tmp_path):
    with pytest.raises(RecipeError, match="which makes the pilot again"):
        build(edit_fakes.write_folder(tmp_path, 2), neighbours=50)


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"subjects": {"pilot": ["pilot", "pilots"]}}, "no image's captions name the subject 'pilot'"),
        ({"instructions": {"male": ["Make it so"]}}, "give instructions for each of: male, female"),
    ],
)
def test_settings_that_make_no_sense_are_refused(fakes, folder, options, remedy):
    def run():
        recipe = open_recipe("gensynth", {**FEW, **folder, **options})
        run_recipe(recipe, recipe.subjects()[0])

    with pytest.raises(RecipeError, match=remedy):
        run()


def test_stored_rows_are_what_a_dataset_takes(fakes, folder, tmp_path):
    from fairgate.data import read_dataset, write_dataset

    recipe, (_, _, edits) = build(folder, sets=5)
    manifest = write_dataset(
        tmp_path / "set",
        rows_of(recipe, edits),
        name="gensynth",
        version="v1",
        attributes=recipe.attributes(),
        recipe={"name": recipe.name},
        licence="unknown",
        counterfactual=recipe.counterfactual,
    )
    assert (manifest.n_sets, manifest.members) == (5, ["male", "female"])
    assert read_dataset(tmp_path / "set").verify() == []
    first = Image.open(io.BytesIO(rows_of(recipe, edits)[0]["image"]))
    assert first.size == (40, 36)


def test_unfiltered_keeps_every_edit_with_the_shares_that_the_filter_would_see(fakes, folder):
    recipe = open_recipe("gensynth_unfiltered", {**FEW, **folder, "sets": 3})
    _, pilot, edits = run_recipe(recipe, "person")
    rows = rows_of(recipe, edits)
    assert len(rows) == 16 * len(edits.set_ids) >= 48
    assert len({(row["set_id"], row["member"]) for row in rows}) == len(rows)
    accepts = [recipe.settings.rule.accepts(EditShares(row["p_real"], row["p_group"])) for row in rows]
    assert set(accepts) == {True, False}, "edits that the filter would take, and others"
    male = next(row for row in rows if row["member"] == "male-0")
    photo = np.asarray(Image.open(folder["images"] / male["photo"]).convert("RGB"))
    assert np.asarray(picture(male["image"])).shape == photo.shape
    assert "embedding" not in male
    assert pilot.meter.counts["edits"] == 16 * PILOT


def test_originals_are_the_photographs_under_the_ids_of_their_edits(fakes, folder, built):
    recipe = open_recipe("photographs", folder)
    _, whole = run_recipe(recipe, "person")
    rows = rows_of(recipe, whole)
    _, (_, _, edits) = built
    assert set(edits.set_ids) <= {row["set_id"] for row in rows}
    for row in rows[:5]:
        photo = np.asarray(Image.open(folder["images"] / row["photo"]).convert("RGB"))
        assert np.array_equal(np.asarray(picture(row["image"])), photo)
        assert row["gender"] == row["original_gender"]
        assert len(json.loads(row["neutral_captions"])) == len(json.loads(row["captions"]))
