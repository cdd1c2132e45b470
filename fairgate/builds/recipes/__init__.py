"""Recipes: one file per published pipeline, with its paper's parameters in sight."""

from fairgate.builds.recipes.contract import Before, Part, Recipe, RecipeSettings, Work, register
from fairgate.builds.recipes.registry import open_recipe, recipe_names

__all__ = ["Before", "Part", "Recipe", "RecipeSettings", "Work", "open_recipe", "recipe_names", "register"]
