"""The stages of dvc.yaml and gpu/dvc.yaml name builds, parts and subjects that there are, and leave none out."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairgate.builds.build import build_names, read_build
from fairgate.builds.recipes.social_counterfactuals import subjects_of
from fairgate.builds.shard_store import slug

ROOT = Path(__file__).resolve().parent.parent.parent
PIPELINES = ("dvc.yaml", "gpu/dvc.yaml")
recipe_of = cache(partial(read_build, params=ROOT / "params.yaml"))
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
    values = [SUBJECTS[each[2:-1]] if isinstance(each, str) else each for each in matrix.values()]
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
            recipe = recipe_of(name)
            known = {slug(each) for each in recipe.subjects()}
            assert part is None or part[1] in [each.name for each in recipe.parts()]
            built[name, part and part[1]] |= {subject[1]} if subject else known
    for (name, part), subjects in built.items():
        recipe = recipe_of(name)
        assert subjects == {slug(each) for each in recipe.subjects()}, (name, part)
        parts = {each for build, each in built if build == name}
        assert parts in ({None}, {each.name for each in recipe.parts()})


def test_a_plain_repro_builds_the_embedded_builds_and_no_other() -> None:
    embedded = {name for name in build_names(ROOT / "params.yaml") if name.endswith("-embedded")}
    assert {command.split()[2] for _, command in commands("dvc.yaml")} == embedded


def test_the_published_builds_keep_the_papers_settings() -> None:
    builds = yaml.safe_load((ROOT / "params.yaml").read_text())["builds"]
    changed = {name: set(options) for name, options in builds.items() if not name.endswith("-embedded") and options}
    pairs = {name: changed.pop(name) for name in list(changed) if name.startswith("social_counterfactuals-")}
    assert changed == {
        "occupations-gender": {"recipe", "genders", "candidates", "pool", "sets"},
        "gensynth": {"neighbours", "group_neighbours"},  # as large a share of a smaller pool
    }
    assert set().union(*pairs.values()) == {"recipe", "of", "pair"}, "what table 5 varies and nothing else"
    assert builds["occupations-gender"]["sets"] == 100


def test_there_is_a_build_for_each_of_table_5s_pairs_with_as_many_images_as_it_says() -> None:
    """Sets are counted with every printed occupation, as in the paper; the builds make each spelling once."""
    table = {
        ("occupations", "race", "gender"): 1_252_800,
        ("occupations", "gender", "religion"): 835_200,
        ("occupations", "race", "religion"): 2_505_600,
        ("occupations", "physical_trait", "gender"): 2_923_200,
        ("occupations", "physical_trait", "race"): 8_769_600,
        ("occupations", "physical_trait", "religion"): 5_846_400,
        ("traits", "race", "gender"): 302_400,
        ("traits", "religion", "gender"): 201_600,
        ("traits", "race", "religion"): 604_800,
    }
    found = {}
    for name in PUBLISHED:
        recipe = recipe_of(name)
        options: Any = recipe.settings
        if recipe.name == "social_counterfactuals":
            members = math.prod(len(groups) for groups in recipe.attributes().values())
            sets = len(options.prefixes) * len(subjects_of(options.of))
            found[options.of, *options.pair] = sets * members * options.attempts
    assert found == table
    assert sum(found.values()) // 100 == 232_416, "the paper's 232k captions"


@pytest.mark.nightly
def test_dvc_reads_a_stage_for_every_subject_of_every_pair() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "dvc", "stage", "list", "gpu/dvc.yaml", "--names-only"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = found.stdout.split()
    assert "gpu/dvc.yaml:social-counterfactuals-traits@social_counterfactuals-traits-race-gender-warm" in names
    count = Counter(name.partition("@")[0].partition(":")[2] for name in names)
    assert count["social-counterfactuals-pairs"] == 5 * 181
    assert count["social-counterfactuals-traits"] == 3 * 63
    assert count["social-counterfactuals-pairs-dataset"] + count["social-counterfactuals-traits-dataset"] == 8


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
    recipe = recipe_of(name)
    cost, most = EVALUATIONS[recipe.name]
    assert cost(recipe.settings) <= most


def test_every_published_build_has_stages_that_build_it_and_one_that_puts_all_of_it_together() -> None:
    stages = yaml.safe_load((ROOT / "gpu" / "dvc.yaml").read_text())["stages"]
    of_build: dict[str, list[tuple[str, set[str], set[str]]]] = defaultdict(list)
    for stage in stages.values():
        rows: dict[str, list[dict[str, str]]] = defaultdict(list)
        for items in _items(stage.get("matrix", {})):
            rows[_filled(stage["cmd"], items).split()[2]].append(items)
        for build, every in rows.items():
            outs = {_filled(next(iter(out)), items) for out in stage["outs"] for items in every}
            deps = {_filled(dep, items) for dep in stage.get("deps", ()) for items in every}
            of_build[build].append((_filled(stage["cmd"], every[-1]), outs, deps))
    for build in PUBLISHED:
        *building, (command, outs, deps) = of_build[build]
        assert building, build
        assert command == f"fairgate build {build} --assemble"
        assert outs == {f"build/{build}/dataset"}
        assert deps == building[-1][1]
