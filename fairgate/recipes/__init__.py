"""Recipes: one file per published pipeline, with its paper's parameters in sight."""

from fairgate.recipes.contract import Before, Knobs, Part, Recipe, open_recipe, recipe_names

__all__ = ["Before", "Knobs", "Part", "Recipe", "open_recipe", "recipe_names"]
