"""`occupations` in the embedded world: its filters against planted failures, and images made again by the real code.

The stand-ins and the tiny generator are trained on drawn portraits; what they score here says nothing of other models.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from in_memory_build import rows_of, run_recipe

from fairgate.factory import read_build
from fairgate.models.making import open_model
from fairgate.portraits.draw import draw
from fairgate.portraits.planted_failures import distorted, grey, two_people
from fairgate.portraits.scene import scene_of
from fairgate.portraits.world import ATTRIBUTES, SUBJECTS
from fairgate.randomness import stream
from fairgate.recipes.occupations import Occupations
from fairgate.steps import Meter, SetRows, run_steps
from fairgate.steps.mask import MaskPerson
from fairgate.steps.perceive import Perceive
from fairgate.steps.pictures import picture
from fairgate.steps.remake import revary

ROOT = Path(__file__).parents[2]
EACH = 40
SEED = 31_000


@pytest.fixture(scope="module", autouse=True)
def at_the_root():
    """The build names its models from the repository's root."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        yield


@pytest.fixture(scope="module")
def knobs():
    return read_build("occupations-embedded", ROOT / "params.yaml").recipe.knobs


def portrait(number, label="doctor", tone=None, gender=None):
    tones, genders = ATTRIBUTES["skin_tone"], ATTRIBUTES["gender"]
    return draw(scene_of(SEED, label, number), label, tone or tones[number % 4], gender or genders[number // 4 % 2])


def a_set(number, kind, columns=None, rows=()):
    return SetRows(f"{kind}-{number}", "doctor", ("planted", number), rows=list(rows), columns=columns or {})


def told(kinds, sets, traces, record):
    """Recall per planted kind and precision over all, noted in the test report."""
    dropped = Counter(kind for kind, trace in zip(kinds, traces, strict=True) if trace.drop)
    planted = Counter(kinds)
    recall = {kind: dropped[kind] / planted[kind] for kind in planted if kind != "good"}
    precision = 1 - dropped["good"] / sum(dropped.values())
    record("recall", {kind: round(value, 3) for kind, value in recall.items()})
    record("precision", round(precision, 3))
    return recall, precision


def test_grey_distorted_and_off_prompt_pictures_do_not_reach_the_pool(knobs, record_property):
    rng = stream(SEED, "distorted")
    made = []
    for number in range(EACH):
        good = portrait(number)
        other = SUBJECTS[:1] + SUBJECTS[2:]
        made += [
            ("good", good),
            ("grey", grey(good)),
            ("distorted", distorted(good, rng)),
            ("off-prompt", portrait(number, other[number % 4])),
        ]
    kinds = [kind for kind, _ in made]
    sets = [
        a_set(number, kind, rows=[{"member": "base", "caption": "", "image": image}])
        for number, (kind, image) in enumerate(made)
    ]
    [_, *filters] = Occupations(knobs).parts()[0].steps("doctor", "cpu", None)
    recall, precision = told(kinds, sets, run_steps(filters, sets, Meter()), record_property)
    assert recall["grey"] == 1
    assert recall["off-prompt"] >= 0.95
    assert recall["distorted"] >= 0.8
    assert precision >= 0.95


def test_pictures_of_two_people_and_of_none_are_not_masked(knobs, record_property):
    made = []
    for number in range(EACH):
        good = portrait(number)
        made += [("good", good), ("two people", two_people(good, portrait(number + 1)))]
    sets = [a_set(number, kind, {"base": image}) for number, (kind, image) in enumerate(made)]
    [masking] = [
        step for step in Occupations(knobs).parts()[1].steps("doctor", "cpu", None) if isinstance(step, MaskPerson)
    ]
    traces = run_steps([masking], sets, Meter())
    recall, precision = told([kind for kind, _ in made], sets, traces, record_property)
    assert recall["two people"] >= 0.95
    assert precision >= 0.95


def test_members_of_another_group_and_two_faces_do_not_stay(knobs, record_property):
    made = []
    tones = ATTRIBUTES["skin_tone"]
    for number in range(EACH):
        right, wrong = tones[number % 4], tones[(number + 1 + number // 4 % 3) % 4]
        good = portrait(number, tone=right)
        made += [
            ("good", right, good),
            ("wrong group", right, portrait(number, tone=wrong)),
            ("two faces", right, two_people(good, portrait(number, tone=right))),
        ]
    sets = [
        a_set(number, kind, rows=[{"member": tone, "skin_tone": tone, "image": image}])
        for number, (kind, tone, image) in enumerate(made)
    ]
    reading = next(
        step for step in Occupations(knobs).parts()[1].steps("doctor", "cpu", None) if isinstance(step, Perceive)
    )
    traces = run_steps([reading], sets, Meter())
    recall, precision = told([kind for kind, _, _ in made], sets, traces, record_property)
    assert recall["wrong group"] >= 0.95
    assert recall["two faces"] >= 0.95
    assert precision >= 0.95


def test_an_image_of_the_tiny_generator_is_made_again_alone_from_its_columns(knobs):
    few = {"candidates": 8, "pool": 4, "sets": 2, "shard_sets": 4, "batch": 4, "paint_steps": 8, "vary_steps": 8}
    recipe = Occupations(knobs.model_copy(update=few))
    pool, sets = run_recipe(recipe, "doctor")
    rows = rows_of(recipe, sets)
    assert rows, (pool.traces, sets.traces)
    painter, inpainter = open_model("painter", knobs.painter), open_model("inpainter", knobs.inpainter)
    for row in rows[::3]:
        kept = np.asarray(picture(row["image"]), dtype=int)
        again = np.asarray(revary(row, painter, inpainter), dtype=int)
        assert np.abs(again - kept).max() <= 1
        assert (again == kept).mean() > 0.999
