"""Recipes: one file per published pipeline, with its paper's parameters in sight."""

from fairgate.recipes.contract import Before, Part, Recipe, RecipeSettings, open_recipe, recipe_names, register

__all__ = ["Before", "Part", "Recipe", "RecipeSettings", "open_recipe", "recipe_names", "register"]
