"""The recipe `occupations`: the paper's prompts and numbers, its filters, waves, and images made again alone."""

from __future__ import annotations

import itertools
import json

import fake_makers
import numpy as np
import pytest
from in_memory_build import Finished, rows_of, run_recipe

from fairgate.builds import Factory
from fairgate.builds.recipes import occupations as published
from fairgate.builds.recipes import open_recipe
from fairgate.builds.recipes.occupations import questions, variant
from fairgate.builds.steps.pictures import picture, sampling
from fairgate.builds.steps.remake import revary
from fairgate.data import read_dataset, write_dataset
from fairgate.engines import open_engine
from fairgate.ground.errors import RecipeError
from fairgate.models.generation import Sampling

ROLES = ("painter", "inpainter", "asker", "detector", "segmenter", "face_reader")
TONES = {tone: f"{tone}-skinned" for tone in fake_makers.GROUPS}
SMALL = {
    **{role: f"fake:{role}" for role in ROLES},
    "occupations": {"doctor": "doctor"},
    "template": "a photo of a {phrase}",
    "attribute": "skin_tone",
    "words": TONES,
    "reads_as": {},
    "size": None,
    "min_colours": 100,
    "candidates": 160,
    "pool": 80,
    "sets": 12,
}

SURGEON = {"asked_as": {"surgeon": "doctor"}}


def build(fakes, **options):
    recipe = open_recipe("occupations", SMALL | options)
    pool, sets = run_recipe(recipe, recipe.subjects()[0])
    return recipe, pool, sets


def test_the_published_settings_are_the_defaults():
    options = open_recipe("occupations", {}).settings
    assert (options.paint_steps, options.paint_guidance, options.size) == (50, 5.0, 1024)
    assert (options.vary_steps, options.strength, options.refine_from) == (40, 0.7, 0.8)
    assert (options.box_threshold, options.text_threshold, options.person) == (0.35, 0.25, "person")
    assert (options.paint_negative, options.vary_guidance, options.refine_guidance) == ("", 7.5, 5.0)
    assert options.detector == "hf:IDEA-Research/grounding-dino-tiny"
    assert (options.min_colours, options.pool, options.sets) == (10_000, 2_000, 1_200)
    assert 5_000 <= options.candidates <= 10_000
    assert open_recipe("occupations", {}).attributes() == {"race": ["Black", "Caucasian", "East Asian", "Indian"]}


def test_prompts_are_the_papers_to_the_letter():
    recipe = open_recipe("occupations", {})
    assert [recipe.settings.phrase(subject) for subject in recipe.subjects()] == [
        "A photo of the face of a car mechanic",
        "A photo of the face of a chef in a chef's jacket",
        "A photo of the face of a commercial pilot",
        "A photo of the face of a doctor in a white coat with a stethoscope",
        "A photo of the face of a firefighter",
    ]
    told = [variant(recipe.settings, "firefighter", group).caption for group in recipe.attributes()["race"]]
    assert told == [
        f"A photo of the face of a {word} firefighter" for word in ("Black", "Caucasian", "Asian", "Indian")
    ]
    assert [question.text for question in questions(recipe.settings, "mechanic")] == [
        "Is there a car mechanic in this image?",
        "Are this person's limbs distorted?",
        "Is this image real or fake?",
    ]


def test_the_gender_balanced_variant_names_the_gender_in_both_prompts_and_builds_as_many_of_each():
    recipe = open_recipe("occupations", {"genders": list(published.GENDERS), "sets": 100})
    assert recipe.subjects()[-2:] == ["firefighter-male", "firefighter-female"]
    assert recipe.settings.phrase("firefighter-female") == "A photo of the face of a female firefighter"
    member = variant(recipe.settings, "firefighter-female", "Black")
    assert member.caption == "A photo of the face of a Black female firefighter"
    assert dict(member.columns) == {"race": "Black", "gender": "female"}
    assert recipe.attributes()["gender"] == ["male", "female"]
    assert questions(recipe.settings, "firefighter-female")[0].text == "Is there a firefighter in this image?"


def test_the_painter_reads_an_empty_negative_and_the_refiner_has_a_guidance_of_its_own(fakes):
    recipe, _, sets = build(fakes)
    for row in rows_of(recipe, sets):
        base, member = sampling(row["base_how"]), sampling(row["how"])
        assert (base.guidance, base.negative, base.refine_guidance) == (5.0, "", None)
        assert (member.guidance, member.negative, member.refine_guidance) == (7.5, None, 5.0)


def test_every_picture_that_should_go_goes_with_its_reason_and_no_other(fakes):
    recipe, pool, _ = build(fakes)
    dropped = {trace.set_id: trace.drop.reason if trace.drop else None for trace in pool.traces}
    due = {}
    for members in itertools.chain.from_iterable(recipe.parts()[0].shards("doctor", Finished())):
        known = fake_makers.facts(fakes["painter"].paint([""], [members.seed_of("paint", "base")], Sampling(1, 1.0))[0])
        reasons = {"grey": known["colour"], "not_present": known["present"], "distorted": known["whole"]}
        due[members.set_id] = next((reason for reason, fine in reasons.items() if not fine), None)
    assert dropped == due
    assert set(due.values()) == {None, "grey", "not_present", "distorted"}


def test_the_pool_is_the_most_real_ones_and_a_picture_that_comes_twice_comes_once(fakes):
    recipe, pool, _ = build(fakes, pool=40)
    real = {trace.set_id: trace.numbers["vqa_real"] for trace in pool.traces if trace.kept}
    assert len(pool.set_ids) == 40 < len(real)
    assert min(real[chosen] for chosen in pool.set_ids) >= max(real[left] for left in set(real) - set(pool.set_ids))
    twice = [trace for trace in pool.traces if trace.kept] * 2
    assert len(recipe.parts()[0].choose("doctor", twice)) == 40


def test_the_three_questions_are_asked_in_one_batch_per_eight_pictures(fakes):
    build(fakes)
    asker = fakes["asker"]
    assert asker.calls["ask"] == 160 / 8
    assert asker.calls["pictures"] < 160  # grey ones went before


def test_kept_sets_show_every_group_as_asked_and_dropped_ones_name_the_member_that_failed(fakes):
    recipe, _, sets = build(fakes)
    rows = rows_of(recipe, sets)
    assert len(rows) == 12 * 4
    assert [row["member"] for row in rows[:4]] == list(TONES)
    assert all(row["perceived_skin_tone"] == row["skin_tone"] == row["member"] for row in rows)
    assert all(row["p_skin_tone"] == pytest.approx(0.7) for row in rows)
    drops = [trace.drop for trace in sets.traces if trace.drop]
    assert {drop.reason for drop in drops} == {"no_person", "several_persons", "perceived_otherwise"}
    assert {drop.member for drop in drops if drop.reason == "perceived_otherwise"} <= set(TONES)
    assert all(drop.measured == pytest.approx(0.1) for drop in drops if drop.reason == "perceived_otherwise")


@pytest.mark.parametrize("waves", [[["dark"], ["brown"], ["tan"], ["light"]], [["dark", "brown"], ["tan", "light"]]])
def test_waves_keep_what_making_all_members_at_once_keeps_and_make_fewer(fakes, waves):
    plain, _, at_once = build(fakes, waves=[list(TONES)], sets=1000)
    waved, _, in_waves = build(fakes, waves=waves, sets=1000)
    assert rows_of(waved, in_waves) == rows_of(plain, at_once)
    assert 0 < in_waves.meter.counts["unet"] < 0.8 * at_once.meter.counts["unet"]


def test_the_hardest_group_first_costs_least(fakes):
    spent = {}
    for first in ("dark", "light"):
        order = sorted(TONES, key=fake_makers.FAILS.get, reverse=first == "dark")
        _, _, sets = build(fakes, waves=[[group] for group in order], sets=1000)
        spent[first] = sets.meter.counts["unet"]
    assert spent["dark"] < spent["light"]


def test_a_part_ends_once_enough_are_kept_and_every_subject_keeps_as_many(fakes):
    recipe = open_recipe(
        "occupations", SMALL | {"occupations": {"doctor": "doctor", "surgeon": "doctor"}, "sets": 5, **SURGEON}
    )
    last = [run_recipe(recipe, subject)[-1] for subject in recipe.subjects()]
    assert [len(finished.set_ids) for finished in last] == [5, 5]
    assert all(len(finished.traces) < 80 for finished in last)


def test_the_first_sets_kept_are_no_more_real_than_the_rest(fakes):
    _, _, few = build(fakes, sets=1)
    _, _, all_of_them = build(fakes, sets=1000)
    assert all_of_them.set_ids[: len(few.set_ids)] == few.set_ids
    order = [trace.numbers["vqa_real"] for trace in all_of_them.traces]
    assert order != sorted(order, reverse=True)


def test_an_image_is_made_again_alone_from_its_columns(fakes):
    recipe, _, sets = build(fakes)
    for row in rows_of(recipe, sets)[:8]:
        again = revary(row, fake_makers.Painter("fake:painter"), fake_makers.Inpainter("fake:inpainter"))
        assert np.array_equal(np.asarray(again), np.asarray(picture(row["image"])))


def test_a_row_that_lacks_what_it_was_made_with_says_so(fakes):
    recipe, _, sets = build(fakes)
    row = rows_of(recipe, sets)[0]
    with pytest.raises(RecipeError, match="has no 'base_seed'"):
        revary(row | {"base_seed": None}, fake_makers.Painter("p"), fake_makers.Inpainter("i"))
    with pytest.raises(RecipeError, match="does not say how"):
        revary(row | {"how": "{}"}, fake_makers.Painter("p"), fake_makers.Inpainter("i"))


def test_the_rows_are_a_dataset(fakes, tmp_path):
    recipe, _, sets = build(fakes, genders=["female"])
    write_dataset(
        tmp_path / "out",
        rows_of(recipe, sets),
        name="occupations",
        version="v1",
        attributes=recipe.attributes(),
        recipe={},
        licence="unknown",
        counterfactual=recipe.counterfactual,
    )
    dataset = read_dataset(tmp_path / "out")
    assert set(dataset.index.subject) == {"doctor"}
    assert dataset.manifest.members == list(TONES)


def test_waves_name_each_group_once():
    with pytest.raises(RecipeError, match="`waves` names each group once"):
        open_recipe("occupations", SMALL | {"waves": [["dark"], ["dark"], ["tan"], ["light"]]})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"template": "A photo of {occupation}"}, r"`template` holds \{phrase\}, once"),
        ({"template": "A photo of a doctor"}, r"`template` holds \{phrase\}, once"),
        ({"template": "{phrase} and {phrase}"}, r"`template` holds \{phrase\}, once"),
        ({"template": "A photo of {phrase!r:>9}"}, r"`template` holds \{phrase\}, once"),
        ({"template": "A photo of {phrase} {"}, r"`template` holds \{phrase\}, once"),
        ({"present": "Is there a {phrase}?"}, r"`present` holds \{occupation\}, once"),
        ({"present": "Is there {} {occupation}?"}, r"`present` holds \{occupation\}, once"),
    ],
)
def test_a_text_that_does_not_hold_its_field_once_is_refused_when_settings_are_read(wrong, told):
    with pytest.raises(RecipeError, match=told):
        open_recipe("occupations", SMALL | wrong)


def test_a_reader_without_the_group_says_which_it_has(fakes):
    with pytest.raises(RecipeError, match="no group 'Fair'") as caught:
        build(fakes, reads_as={"light": "Fair"})
    assert "its groups: light, tan" in str(caught.value)


def made_by_the_factory(tmp_path, **options):
    recipe = open_recipe("occupations", SMALL | options)
    factory = Factory("occupations", recipe, tmp_path / "build")
    return factory.assemble(open_engine("local", device="cpu")), factory.places.root


def test_a_build_tells_how_often_each_group_was_made_and_failed(fakes, tmp_path):
    manifest, root = made_by_the_factory(tmp_path, genders=["male", "female"], sets=6)
    assert manifest.counts.groups == {"skin_tone": dict.fromkeys(TONES, 12), "gender": {"male": 24, "female": 24}}
    yields = json.loads((root / "yield.json").read_text())["subjects"]["doctor-female"]
    assert yields["images"] == 24
    assert yields["balance"] == {"skin_tone": 1.0, "gender": 0.0}  # the subject is of one gender alone
    part = yields["parts"]["sets"]
    found = part["groups"]["skin_tone"]
    assert sum(group["failed"] for group in found.values()) == part["dropped"]["perceived_otherwise"]
    tried = [found[tone]["tried"] for tone in TONES]
    assert tried == sorted(tried, reverse=True)  # a later wave is made for those that are left
    assert found["dark"]["passed_share"] == pytest.approx(1 - found["dark"]["failed"] / tried[-1], abs=1e-4)


def test_the_share_of_a_group_that_passed_does_not_depend_on_its_place_in_a_wave(fakes, tmp_path):
    shares = []
    for order in (list(TONES), list(TONES)[::-1]):
        _, root = made_by_the_factory(tmp_path / order[0], waves=[order], sets=6)
        found = json.loads((root / "yield.json").read_text())["subjects"]["doctor"]["parts"]["sets"]
        shares.append(found["groups"]["skin_tone"])
        assert sum(group["failed"] for group in shares[-1].values()) > found["dropped"]["perceived_otherwise"]
    assert shares[0] == shares[1]


def test_more_candidates_are_added_to_those_that_are_there(fakes, tmp_path):
    made_by_the_factory(tmp_path, candidates=40, sets=3)
    assert fakes["painter"].spent["unet"] == 2 * 50 * 40
    made_by_the_factory(tmp_path, candidates=60, sets=5)
    assert fakes["painter"].spent["unet"] == 2 * 50 * 24  # to whole shards of 8
