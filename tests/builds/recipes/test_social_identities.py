"""The recipe `social_identities`: the paper's headshots, the same number of every identity."""

from __future__ import annotations

import fake_makers
import numpy as np
import pytest
from in_memory_build import rows_of, run_recipe

from fairgate.builds.recipes import open_recipe
from fairgate.builds.steps.pictures import picture
from fairgate.builds.steps.remake import repaint
from fairgate.ground.errors import RecipeError


def test_the_published_settings_are_the_defaults():
    recipe = open_recipe("social_identities", {})
    options = recipe.settings
    assert (options.painter, options.steps, options.guidance, options.images) == ("sd21", 100, 8.5, 256)
    assert recipe.attributes() == {"race": ["Caucasian", "African-American"], "gender": ["man", "woman"]}
    assert not recipe.counterfactual


def test_prompts_are_the_papers_to_the_letter(fakes):
    recipe = open_recipe("social_identities", {"painter": "fake:painter", "images": 1})
    told = [rows_of(recipe, run_recipe(recipe, subject)[-1])[0]["caption"] for subject in recipe.subjects()]
    assert told == [
        f"A color photograph of a {identity}, headshot, high-quality."
        for identity in ("Caucasian man", "Caucasian woman", "African-American man", "African-American woman")
    ]


def test_every_identity_comes_out_in_the_same_number_and_each_image_can_be_made_again(fakes):
    recipe = open_recipe("social_identities", {"painter": "fake:painter", "images": 11, "steps": 5})
    rows = [row for subject in recipe.subjects() for row in rows_of(recipe, run_recipe(recipe, subject)[-1])]
    assert len({row["set_id"] for row in rows}) == len(rows) == 4 * 11
    assert {row["subject"] for row in rows} == {"person"}
    assert sum(row["race"] == "African-American" and row["gender"] == "woman" for row in rows) == 11
    again = repaint(rows[-1], fake_makers.Painter("fake:painter"))
    assert np.array_equal(np.asarray(again), np.asarray(picture(rows[-1]["image"])))


@pytest.mark.parametrize(
    ("identities", "told"),
    [
        ({"a man": {"gender": "man"}, "a Black man": {"gender": "man", "race": "Black"}}, "the same attributes"),
        ({"a man": {}}, "the same attributes"),
        ({"a man": {"gender": "man"}, "A-man": {"gender": "man"}}, "differ in spaces and capitals alone"),
    ],
)
def test_identities_that_cannot_be_told_apart_are_refused(identities, told):
    with pytest.raises(RecipeError, match=told):
        open_recipe("social_identities", {"identities": identities})


@pytest.mark.parametrize(
    "template", ["A photograph of a person", "A photograph of {phrase}", "{identity} and {identity}"]
)
def test_a_template_that_does_not_name_the_identity_once_is_refused(template):
    with pytest.raises(RecipeError, match=r"`template` holds \{identity\}, once"):
        open_recipe("social_identities", {"template": template})
