"""The plan of one subject's shards holds what they depend on, and nothing of other subjects."""

from __future__ import annotations

from typing import Any

import pytest

from fairgate.builds.plan import BuildDependencies
from fairgate.builds.recipes import open_recipe

WORDS = {"subjects": {"doctor": ["doctor"], "chef": ["chef"]}}
MAN, WOMAN = {"man": {"gender": "man"}}, {"woman": {"gender": "woman"}}


def plans(name: str, subject: str, **settings: Any) -> list[dict[str, Any]]:
    """The plans of all parts of a subject."""
    recipe = open_recipe(name, settings)
    assert subject in recipe.subjects()
    return [BuildDependencies(recipe, {}, {}, "code").plan(part, subject, "before") for part in recipe.parts()]


@pytest.mark.parametrize(
    ("name", "subject", "alone", "with_others", "changed"),
    [
        (
            "occupations",
            "doctor",
            {"occupations": {"doctor": "doctor"}, "asked_as": {}},
            {"occupations": {"chef": "cook", "doctor": "doctor"}, "asked_as": {"chef": "cook"}},
            {"occupations": {"doctor": "doctor in a white coat"}},
        ),
        (
            "occupations",
            "mechanic-female",
            {"genders": ["female"], "occupations": {"mechanic": "mechanic"}},
            {"genders": ["male", "female"]} | {"occupations": {"mechanic": "mechanic", "chef": "chef"}},
            {"genders": ["male", "female"], "occupations": {"mechanic": "car mechanic"}},
        ),
        ("social_identities", "man", {"identities": MAN}, {"identities": WOMAN | MAN}, {"identities": MAN, "steps": 9}),
        ("social_counterfactuals", "chef", {"subjects": ["chef"]}, {}, {"subjects": ["chef"], "of": "traits"}),
        ("social_counterfactuals", "chef", {"subjects": ["chef"]}, {"subjects": ["vet", "chef"]}, {"prefixes": [""]}),
        *(
            (name, "doctor", {"subjects": {"doctor": ["doctor"]}}, WORDS, {"subjects": {"doctor": ["doctors"]}})
            for name in ("gensynth", "genswap")
        ),
    ],
)
def test_a_subjects_shards_go_stale_by_its_own_settings_and_not_by_other_subjects(
    name: str, subject: str, alone: dict[str, Any], with_others: dict[str, Any], changed: dict[str, Any]
) -> None:
    assert plans(name, subject, **alone) == plans(name, subject, **with_others)
    assert plans(name, subject, **alone)[0] != plans(name, subject, **changed)[0]


@pytest.mark.parametrize("name", ["gensynth", "genswap"])
def test_a_subject_that_comes_before_takes_photographs_away_so_it_is_in_the_plan(name: str) -> None:
    before = {"subjects": {"chef": ["chef"], "doctor": ["doctor"]}}
    assert plans(name, "doctor", **WORDS) != plans(name, "doctor", **before)
