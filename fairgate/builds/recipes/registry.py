"""Recipes by name. Each registers itself when it is imported; installed packages add theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from fairgate.builds.recipes.contract import REGISTERED, Recipe
from fairgate.ground.errors import RecipeError, did_you_mean, suggestion
from fairgate.ground.validation_words import fault_words

_OWN = (
    "occupations",
    "social_counterfactuals",
    "social_identities",
    "photographs",
    "gensynth",
    "gensynth_unfiltered",
    "genswap",
    "faces",
)
"""Each is a module of this package."""

RECIPES = REGISTERED.with_modules({name: f"fairgate.builds.recipes.{name}" for name in _OWN})


def recipe_names() -> list[str]:
    """Every recipe there is."""
    return list(RECIPES)


def open_recipe(name: str, settings: Mapping[str, Any], *, where: str = "settings") -> Recipe:
    """The recipe of a name with its settings set. Raises RecipeError for an unknown recipe, setting or value."""
    if name not in RECIPES:
        raise RecipeError(
            f"there is no recipe '{name}'.",
            where=where,
            remedy=suggestion(name, RECIPES, f"recipes: {', '.join(RECIPES)}"),
        )
    recipe = RECIPES[name]
    try:
        return recipe(recipe.Settings.model_validate(dict(settings)))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        hint = did_you_mean(place, recipe.Settings.model_fields) if first["type"] == "extra_forbidden" else None
        raise RecipeError(
            f"recipe '{name}' does not take {place or 'this'}: {fault_words(first)}.",
            where=f"{where}: {place}",
            remedy=hint or f"settings: {', '.join(recipe.Settings.model_fields)}",
        ) from error
