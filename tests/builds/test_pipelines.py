"""The stages of dvc.yaml and gpu/dvc.yaml name builds, parts and subjects that there are, and leave none out."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairgate.builds.build import build_names, read_build
from fairgate.builds.shard_store import slug

ROOT = Path(__file__).resolve().parent.parent.parent
PIPELINES = ("dvc.yaml", "gpu/dvc.yaml")
PUBLISHED = [name for name in build_names(ROOT / "params.yaml") if not name.endswith("-embedded")]
SUBJECTS = yaml.safe_load((ROOT / "gpu" / "subjects.yaml").read_text())


def commands(pipeline: str) -> list[tuple[str, str]]:
    """(stage, command) of every `fairgate build`, with the matrix written out."""
    found: list[tuple[str, str]] = []
    for name, stage in yaml.safe_load((ROOT / pipeline).read_text())["stages"].items():
        if stage["cmd"].startswith("fairgate build "):
            found += [(name, _filled(stage["cmd"], items)) for items in _items(stage.get("matrix", {}))]
    return found


def _items(matrix: dict[str, Any]) -> list[dict[str, str]]:
    values = [SUBJECTS["occupations"] if each == "${occupations}" else each for each in matrix.values()]
    return [dict(zip(matrix, row, strict=True)) for row in itertools.product(*values)]


def _filled(command: str, items: dict[str, str]) -> str:
    for key, value in items.items():
        command = command.replace("${item." + key + "}", value)
    return command


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_stages_build_every_subject_and_part_that_their_recipe_has(pipeline: str) -> None:
    built: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for _, command in commands(pipeline):
        name = command.split()[2]
        subject, part = (re.search(rf"--{word} '?([^ ']+)", command) for word in ("subject", "part"))
        if "--assemble" not in command:
            recipe = read_build(name, ROOT / "params.yaml")
            known = {slug(each) for each in recipe.subjects()}
            assert part is None or part[1] in [each.name for each in recipe.parts()]
            built[name, part and part[1]] |= {subject[1]} if subject else known
    for (name, part), subjects in built.items():
        recipe = read_build(name, ROOT / "params.yaml")
        assert subjects == {slug(each) for each in recipe.subjects()}, (name, part)
        parts = {each for build, each in built if build == name}
        assert parts in ({None}, {each.name for each in recipe.parts()})


def test_a_plain_repro_builds_the_embedded_builds_and_no_other() -> None:
    embedded = {name for name in build_names(ROOT / "params.yaml") if name.endswith("-embedded")}
    assert {command.split()[2] for _, command in commands("dvc.yaml")} == embedded


def test_the_published_builds_keep_the_papers_settings() -> None:
    builds = yaml.safe_load((ROOT / "params.yaml").read_text())["builds"]
    changed = {name: set(options) for name, options in builds.items() if not name.endswith("-embedded") and options}
    assert changed == {"occupations-gender": {"recipe", "genders", "candidates", "pool", "sets"}}
    assert builds["occupations-gender"]["sets"] == 100


def occupations_per_image(options: Any) -> float:
    groups = len(options.words)
    painted = options.candidates * 2 * options.paint_steps
    varied = options.pool * groups * 2 * int(options.vary_steps * options.strength)
    return float(painted + varied) / (options.sets * groups)


def social_counterfactuals_per_image(options: Any) -> float:
    return float(options.attempts * 2 * options.steps) / options.kept


def gensynth_per_photograph(options: Any) -> float:
    return float(sum(3 * each.how.steps for each in options.candidates))


EVALUATIONS = {
    "occupations": (occupations_per_image, 302),  # the paper's: 198 to 302
    "social_identities": (lambda options: 2 * options.steps, 200),
    "social_counterfactuals": (social_counterfactuals_per_image, 2_000),
    "gensynth": (gensynth_per_photograph, 24_000),  # 16 edits: no setting says how many images come of them
    "genswap": (lambda _: 0, 0),
}
"""Recipe -> UNet evaluations per wanted image where a build has to make all that it may, and the most that is taken."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_no_published_build_costs_more_per_wanted_image_than_the_papers(name: str) -> None:
    recipe = read_build(name, ROOT / "params.yaml")
    cost, most = EVALUATIONS[recipe.name]
    assert cost(recipe.settings) <= most


def test_every_published_build_has_stages_that_build_it_and_one_that_puts_all_of_it_together() -> None:
    stages = yaml.safe_load((ROOT / "gpu" / "dvc.yaml").read_text())["stages"]
    made: dict[str, set[str]] = defaultdict(set)
    for name, stage in stages.items():
        for out in (next(iter(out)) for out in stage["outs"]):
            made[name] |= {_filled(out, items) for items in _items(stage.get("matrix", {}))}
    for build in PUBLISHED:
        of_it = [name for name, stage in stages.items() if stage["cmd"].split()[2] == build]
        *building, last = of_it
        assert building, build
        assert stages[last]["cmd"] == f"fairgate build {build} --assemble"
        assert made[last] == {f"build/{build}/dataset"}
        assert set(stages[last]["deps"]) == made[building[-1]]
