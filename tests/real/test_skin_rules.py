"""Skin rules on real colours and faces: what each keeps of dark and light skin, and what that does to the angle."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fairgate.formulas.metrics import individual_typology_angle, skin_mask

REAL = Path(__file__).parents[2] / "../shared/real"
SKIN, PHOTOGRAPHS = REAL / "skin", REAL / "fairface_photos"

pytestmark = pytest.mark.skipif(
    not (SKIN.is_dir() and PHOTOGRAPHS.is_dir()), reason="the photographs are not beside this checkout"
)


def read(path: str) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


@pytest.fixture(scope="module")
def monk() -> list[np.ndarray]:
    return [read(str(SKIN / f"MST_{tone}.png")) for tone in range(1, 11)]


@pytest.fixture(scope="module")
def faces() -> list[tuple[str, np.ndarray]]:
    """Race and the middle of each photograph: 80 x 80 pixels of 224 x 224, almost all of them face."""
    with (PHOTOGRAPHS / "labels.csv").open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    return [(row["race"], read(str(PHOTOGRAPHS / row["file"].split("/")[-1]))[77:157, 72:152]) for row in rows]


def test_the_angle_falls_over_the_monk_tones_and_the_default_keeps_them_all(monk: list[np.ndarray]) -> None:
    found = [individual_typology_angle(tone, skin_mask(tone)) for tone in monk]
    degrees = [tone.degrees for tone in found]
    assert (np.diff(degrees) < 0).all()
    assert [round(degrees[0]), round(degrees[-1])] == [83, -84]
    assert [tone.skin_fraction for tone in found] == [1.0] * 10
    assert [float(skin_mask(tone, rule="kolkur").mean()) for tone in monk] == [0, 0, 0, 1, 1, 1, 1, 0, 0, 0]


def test_the_papers_rule_loses_dark_faces_and_reads_the_rest_lighter(faces: Sequence[tuple[str, np.ndarray]]) -> None:
    images = [image for _, image in faces]
    angles = np.array([individual_typology_angle(image, np.ones(image.shape[:2], bool)).degrees for image in images])
    order = [index for index in np.argsort(angles) if np.isfinite(angles[index])]
    darkest, lightest = order[: len(order) // 5], order[-len(order) // 5 :]

    def kept(rule: str, among: Sequence[int]) -> float:
        return float(np.mean([skin_mask(images[index], rule=rule).mean() for index in among]))  # type: ignore[arg-type]

    def shift(rule: str, among: Sequence[int]) -> float:
        found = [
            individual_typology_angle(images[index], skin_mask(images[index], rule=rule)).degrees - angles[index]  # type: ignore[arg-type]
            for index in among
        ]
        return float(np.nanmedian(found))

    assert kept("kolkur", lightest) - kept("kolkur", darkest) > 0.3
    assert abs(kept("hue", lightest) - kept("hue", darkest)) < 0.1
    assert shift("kolkur", darkest) > 10.0
    assert abs(shift("hue", darkest)) < 1.0


def test_the_default_rule_keeps_faces_of_every_perceived_race_alike(faces: Sequence[tuple[str, np.ndarray]]) -> None:
    def kept(rule: str) -> dict[str, float]:
        return {
            race: float(np.mean([skin_mask(image, rule=rule).mean() for other, image in faces if other == race]))  # type: ignore[arg-type]
            for race, _ in faces
        }

    papers, ours = kept("kolkur"), kept("hue")
    assert min(papers, key=lambda race: papers[race]) == "Black"
    assert max(papers.values()) - min(papers.values()) > 0.15
    assert min(ours.values()) > 0.75
    assert max(ours.values()) - min(ours.values()) < 0.1


def test_on_a_segmented_photograph_the_default_finds_more_skin_and_little_else() -> None:
    image = read(str(SKIN / "00000.png"))
    parts = np.asarray(Image.open(SKIN / "00000_mask.png"))
    face, background = parts == 1, parts == 0  # the labels of CelebAMask-HQ
    default, papers = skin_mask(image), skin_mask(image, rule="kolkur")
    assert default[face].mean() > 0.7
    assert papers[face].mean() < 0.3
    assert default[background].mean() < 0.01


def test_the_papers_rule_leaves_more_faces_without_an_angle(faces: Sequence[tuple[str, np.ndarray]]) -> None:
    def without(rule: str) -> list[str]:
        angles = [(race, individual_typology_angle(image, skin_mask(image, rule=rule))) for race, image in faces]  # type: ignore[arg-type]
        return [race for race, one in angles if one.status == "invalid"]

    ours, papers = without("hue"), without("kolkur")
    assert (len(faces), len(ours), len(papers)) == (252, 9, 25)
    assert ours.count("Black") == 0
    assert papers.count("Black") == max(papers.count(race) for race in set(papers)) == 6
