"""Builds that `params.yaml` names: a recipe and the settings that differ from the paper's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fairgate.data import NAME_PATTERN
from fairgate.errors import RecipeError, SuiteError, did_you_mean
from fairgate.recipes import Recipe, open_recipe, recipe_names
from fairgate.suites import Source, read_source

PARAMS = Path("params.yaml")
RESERVED = ("status", "run")
"""Names that are commands of `fairgate build`."""


def read_build(name: str, params: Path = PARAMS) -> Recipe:
    """The recipe of a named build, with its settings. Raises RecipeError for a file that is not plain YAML, an unknown
    name, recipe or setting.

    The recipe is the one that `recipe:` names, or else the build's own name. Recipes are those of fairgate: a file that
    comes with a pull request names no code.
    """
    source, builds = _builds(params)
    if name not in builds:
        raise RecipeError(
            f"there is no build '{name}'.",
            where=f"{source.shown}: builds",
            remedy=did_you_mean(name, [*builds, *RESERVED]) or f"builds: {', '.join(builds) or 'none yet'}",
        )
    where = source.where(("builds", name))
    if name in RESERVED or not re.fullmatch(NAME_PATTERN, name):
        raise RecipeError(
            f"a build cannot be called '{name}'.",
            where=where,
            remedy="use small letters, digits, - and _; 'status' and 'run' are commands",
        )
    entry = builds[name] or {}
    if not isinstance(entry, dict):
        raise RecipeError("a build is a mapping of settings.", where=where, remedy=f"write `{name}: {{recipe: NAME}}`")
    settings = {setting: value for setting, value in entry.items() if setting != "recipe"}
    recipe = entry.get("recipe", name)
    if not isinstance(recipe, str) or ("recipe" not in entry and name not in recipe_names()):
        raise RecipeError(
            f"build '{name}' does not say which recipe it is.",
            where=where,
            remedy=f"add `recipe: NAME`; recipes: {', '.join(recipe_names())}",
        )
    return open_recipe(recipe, settings, where=where)


def build_names(params: Path = PARAMS) -> list[str]:
    """Every build of the file, in its order."""
    return list(_builds(params)[1])


def _builds(params: Path) -> tuple[Source, dict[str, Any]]:
    try:
        source = read_source(params)
    except SuiteError as error:  # the reader of suites: the same care, other words
        raise RecipeError(
            error.problem.replace("the suite", "the file").replace("a suite", "this file"),
            where=error.where,
            remedy="name builds under `builds:` in params.yaml, or name another file with --params",
        ) from error
    builds = source.data.get("builds")
    if not isinstance(builds, dict):
        raise RecipeError(
            "the file names no builds.",
            where=source.shown,
            remedy="add `builds:` with a mapping of names to recipes and settings",
        )
    return source, builds
