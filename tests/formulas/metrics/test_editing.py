"""Skin masks, the typology angle, average faces and flips: by hand, against peers, with planted lightening."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import (
    average_face,
    delta_ita,
    fitzpatrick_type,
    flip_rate,
    individual_typology_angle,
    skin_mask,
)
from fairgate.formulas.metrics.editing import cielab
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream

GOLDEN = Path(__file__).parents[2] / "golden"
FITZPATRICK17K = [case for case in json.loads((GOLDEN / "ita.json").read_text())["cases"] if "rgb" in case]

MONK = ("f6ede4", "f3e7db", "f7ead0", "eadaba", "d7bd96", "a07e56", "825c43", "604134", "3a312a", "292420")
# CIELAB L and b of these colours from scikit-image 0.26, rgb2lab
MONK_L = (94.21109156308486, 92.27476897361252, 93.09109597009085, 87.57331697617073, 77.90221915571911,
          55.142877220205236, 42.4700012043818, 30.6782645807152, 21.069480228254, 14.610243994524634)  # fmt: skip
MONK_B = (5.434487412861944, 7.292219681138934, 14.216187075394892, 17.758546767702743, 23.144471551471103,
          26.746355342094986, 20.5350125163848, 13.339426638624607, 5.968021488586395, 3.5286798669944277)  # fmt: skip


def swatch(colour: str | tuple[int, int, int], size: tuple[int, int] = (6, 5)) -> np.ndarray:
    rgb = bytes.fromhex(colour) if isinstance(colour, str) else bytes(colour)
    return np.full((*size, 3), list(rgb), dtype=np.uint8)


def line(*colours: tuple[int, int, int]) -> np.ndarray:
    return np.array([colours], dtype=np.uint8)


def whole(image: np.ndarray) -> np.ndarray:
    return np.ones(image.shape[:2], dtype=bool)


@pytest.mark.parametrize("case", FITZPATRICK17K, ids=lambda case: case["name"])
def test_the_papers_mask_and_angle_are_fitzpatrick17ks(case: dict[str, Any]) -> None:
    image, expected = np.array(case["rgb"], dtype=np.uint8), case["outputs"]
    mask = skin_mask(image, rule="kolkur")
    np.testing.assert_array_equal(mask, np.array(expected["fitz.ycbcr.mask"], dtype=bool))
    found = individual_typology_angle(image, mask)
    assert found.skin_fraction == expected["fitz.ycbcr.skin_pixels"] / mask.size
    if expected["fitz.ITA(masked png)"] == "nan":
        assert (found.status, found.reason) == ("invalid", "the mask holds no pixel")
        assert np.isnan([found.degrees, found.lightness, found.yellow]).all()
    else:
        assert (found.status, found.reason) == ("ok", None)
        assert found.degrees == pytest.approx(expected["fitz.ITA(masked png)"], abs=1e-6)


@pytest.mark.parametrize("case", FITZPATRICK17K, ids=lambda case: case["name"])
def test_where_the_peer_turns_past_ninety_degrees_there_is_no_angle(case: dict[str, Any]) -> None:
    image = np.array(case["rgb"], dtype=np.uint8)
    peers = case["outputs"]["fitz.ITA(full image)"]
    found = individual_typology_angle(image, image.any(axis=-1))  # the peer leaves out black
    if peers == "nan" or abs(peers) > 90:
        assert found.status == "invalid"
        assert np.isnan(found.degrees)
    else:
        assert found.degrees == pytest.approx(peers, abs=1e-6)


def test_monk_tones_fall_from_83_to_minus_84_degrees_and_all_of_them_are_skin() -> None:
    found = [individual_typology_angle(swatch(tone), skin_mask(swatch(tone))) for tone in MONK]
    degrees = [tone.degrees for tone in found]
    assert (np.diff(degrees) < 0).all()
    np.testing.assert_allclose(degrees, np.degrees(np.arctan2(np.array(MONK_L) - 50, MONK_B)), atol=1e-6)
    assert [round(degrees[0]), round(degrees[-1])] == [83, -84]
    np.testing.assert_allclose([tone.lightness for tone in found], MONK_L, atol=1e-6)
    np.testing.assert_allclose([tone.yellow for tone in found], MONK_B, atol=1e-6)
    assert [tone.skin_fraction for tone in found] == [1.0] * 10


def test_cielab_is_scikit_images() -> None:
    rgb = np.array([(0, 0, 0), (255, 255, 255), (1, 2, 3), (10, 11, 12), (255, 0, 0), (0, 255, 0), (0, 0, 255)])
    expected = [  # scikit-image 0.26, rgb2lab
        (0.0, 0.0, 0.0),
        (100.0, -0.0024549378620508655, 0.004653421154054982),
        (0.5098250675092544, -0.12249030481624457, -0.4704960765506305),
        (2.984614289837282, -0.11720069376322528, -0.5055173964567172),
        (53.2405879437449, 80.0923082256922, 67.2027510444287),
        (87.73509948831895, -86.18302974439501, 83.17970317538452),
        (32.29567256501351, 79.18559091176556, -107.85730020669489),
    ]
    np.testing.assert_allclose(cielab(rgb.astype(np.uint8)), expected, atol=1e-9)


def test_the_papers_rule_loses_the_darkest_three_monk_tones() -> None:
    kept = [bool(skin_mask(swatch(tone), rule="kolkur").all()) for tone in MONK]
    assert kept == [False] * 3 + [True] * 4 + [False] * 3


def test_darkening_an_image_leaves_the_default_mask_and_empties_the_papers() -> None:
    rng = stream(8, "darkening")
    image = (4 * rng.integers(20, 64, (40, 40, 3))).astype(np.uint8)
    image[..., 0] = np.maximum(image[..., 0], 80)
    bright, dark = skin_mask(image), skin_mask(image // 4)
    np.testing.assert_array_equal(bright, dark)  # red 80 // 4 is DARKEST_RED
    assert 0.05 < bright.mean() < 0.95
    assert skin_mask(image, rule="kolkur").any()
    assert not skin_mask(image // 4, rule="kolkur").any()


@pytest.mark.parametrize(
    ("colour", "skin"),
    [
        ((20, 15, 12), True),  # as dark as the rule looks
        ((19, 15, 12), False),
        ((100, 93, 93), True),  # saturation 0.07
        ((100, 94, 94), False),
        ((101, 94, 94), False),  # 7 of 101
        ((100, 20, 20), True),  # saturation 0.8
        ((100, 19, 19), False),
        ((160, 140, 100 + 36), True),  # hue 10
        ((160, 150, 100), True),  # hue 50
        ((160, 151, 100), False),
        ((160, 100, 110), True),  # hue -10
        ((160, 100, 111), False),
        ((100, 101, 60), False),  # green over red
        ((100, 60, 101), False),  # blue over red
        ((0, 0, 0), False),
        ((255, 255, 255), False),
    ],
)
def test_the_default_rule_keeps_its_limits(colour: tuple[int, int, int], skin: bool) -> None:
    assert skin_mask(line(colour)).tolist() == [[skin]]
    assert skin_mask(line(colour), rule="hue").tolist() == [[skin]]


@pytest.mark.parametrize(
    ("inside", "outside"),
    [  # for each limit the nearest colour that keeps all of them, and the nearest that breaks this one alone
        pytest.param((95, 65, 70), (94, 65, 73), id="R >= 95"),
        pytest.param((95, 75, 20), (95, 75, 19), id="B >= 20"),
        pytest.param((95, 80, 20), (95, 81, 20), id="R - G >= 15"),
        pytest.param((114, 65, 20), (105, 69, 23), id="Y >= 80"),
        pytest.param((163, 116, 34), (128, 113, 20), id="Cb >= 85"),
        pytest.param((95, 80, 74), (95, 78, 85), id="Cr >= 135"),
        pytest.param((153, 77, 20), (159, 75, 25), id="Cr <= 1.5862 Cb + 20"),
        pytest.param((151, 49, 47), (163, 40, 25), id="Cr <= -1.15 Cb + 301.75"),
        pytest.param((151, 103, 111), (149, 73, 78), id="Cr <= -2.2857 Cb + 432.85"),
    ],
)
def test_the_papers_rule_keeps_its_limits(inside: tuple[int, int, int], outside: tuple[int, int, int]) -> None:
    assert skin_mask(line(inside, outside), rule="kolkur").tolist() == [[True, False]]


def test_the_papers_rule_is_the_published_one_with_all_its_limits() -> None:
    colours = stream(11, "colours").integers(0, 256, (1, 200_000, 3))
    r, g, b = np.moveaxis(colours, -1, 0)
    y = 16 + (65.481 * r + 128.553 * g + 24.966 * b) / 255
    cb = 128 + (-37.797 * r - 74.203 * g + 112.0 * b) / 255
    cr = 128 + (112.0 * r - 93.786 * g - 18.214 * b) / 255
    published = (r >= 95) & (g >= 40) & (b >= 20) & (r >= g) & (r >= b) & (r - g >= 15)
    published &= (y >= 80) & (cb >= 85) & (cr >= 135) & (cr <= 1.5862 * cb + 20) & (cr >= 0.3448 * cb + 76.2069)
    published &= (cr >= -4.5652 * cb + 234.5652) & (cr <= -1.15 * cb + 301.75) & (cr <= -2.2857 * cb + 432.85)
    np.testing.assert_array_equal(skin_mask(colours.astype(np.uint8), rule="kolkur"), published)
    assert 5_000 < published.sum() < 20_000


def test_lightness_and_yellow_are_trimmed_each_on_its_own() -> None:
    colours = [(60, 40, 30)] + [(180, 125, 92)] * 6 + [(250, 235, 230)]
    found = individual_typology_angle(line(*colours), whole(line(*colours)))
    middle = individual_typology_angle(swatch((180, 125, 92)), whole(swatch((180, 125, 92))))
    assert found.lightness == pytest.approx(middle.lightness, abs=1e-9)  # both ends lie beyond one deviation
    alone = {c: individual_typology_angle(line(c), np.array([[True]])).yellow for c in set(colours)}
    yellow = np.array([alone[c] for c in colours])
    near = np.abs(yellow - yellow.mean()) <= yellow.std()
    assert found.yellow == pytest.approx(yellow[near].mean(), abs=1e-9)


def test_only_masked_pixels_count_and_too_few_of_them_are_no_angle() -> None:
    image = swatch((20, 60, 200), (10, 10))
    image[0, :5] = (180, 125, 92)
    mask = np.zeros((10, 10), dtype=bool)
    mask[0, :5] = True
    found = individual_typology_angle(image, mask)
    assert (found.status, found.skin_fraction) == ("ok", 0.05)  # the minimum itself is enough
    alone = swatch((180, 125, 92))
    assert found.degrees == pytest.approx(individual_typology_angle(alone, whole(alone)).degrees)
    mask[0, 4] = False
    few = individual_typology_angle(image, mask)
    assert (few.status, few.skin_fraction) == ("invalid", 0.04)
    assert few.reason == "4.0% of the pixels are skin, under the minimum of 5.0%"
    assert np.isnan(few.degrees)
    assert (few.lightness, few.yellow) == pytest.approx((found.lightness, found.yellow))
    assert individual_typology_angle(image, mask, min_fraction=0.0).status == "ok"
    assert individual_typology_angle(alone, whole(alone), min_fraction=1.0).status == "ok"
    assert individual_typology_angle(image, mask, min_fraction=0.04).status == "ok"
    bluish = individual_typology_angle(image, ~mask)
    assert bluish.status == "invalid"
    assert bluish.reason is not None
    assert "bluish" in bluish.reason


def test_an_average_face_is_the_rounded_mean_of_one_size() -> None:
    faces = [line((0, 10, 255)), line((1, 11, 255)), line((1, 12, 255))]
    assert average_face(faces).tolist() == [[[1, 11, 255]]]
    assert average_face(iter(faces[:2])).tolist() == [[[1, 11, 255]]]  # a half goes up
    assert average_face(faces).dtype == np.uint8
    assert average_face([line((255, 255, 255))] * 300).tolist() == [[[255, 255, 255]]]  # sums do not overflow
    with pytest.raises(MetricError, match="no image to average"):
        average_face([])
    with pytest.raises(MetricError, match="image 1 has shape"):
        average_face([line((0, 0, 0)), line((0, 0, 0), (0, 0, 0))])
    with pytest.raises(MetricError, match="image 1 is float64"):
        average_face([line((0, 0, 0)), np.zeros((1, 1, 3))])


def test_delta_is_after_less_before_so_that_lighter_is_positive() -> None:
    dark, light = swatch((140, 90, 62)), swatch((214, 164, 132))
    lightened = delta_ita([dark], [light, light])
    assert lightened.status == "ok"
    assert lightened.degrees == pytest.approx(lightened.after.degrees - lightened.before.degrees)
    assert lightened.degrees == pytest.approx(57.6, abs=1.0)
    assert delta_ita([light], [dark]).degrees == pytest.approx(-lightened.degrees)
    assert delta_ita([dark], [dark, dark]).degrees == 0.0


def test_an_edit_that_leaves_no_skin_has_no_delta() -> None:
    skin, sea = swatch((180, 125, 92)), swatch((20, 60, 200))
    for originals, edited in (([skin], [sea]), ([sea], [skin])):
        found = delta_ita(originals, edited)
        assert found.status == "invalid"
        assert np.isnan(found.degrees)
    darkest = swatch(MONK[8])
    assert delta_ita([darkest], [darkest]).status == "ok"
    assert delta_ita([darkest], [darkest], rule="kolkur").status == "invalid"
    half = np.concatenate([skin, sea])
    assert delta_ita([half], [half], min_fraction=0.5).status == "ok"
    assert delta_ita([half], [half], min_fraction=0.51).status == "invalid"


def test_a_planted_lightening_is_found_in_order_and_none_at_zero() -> None:
    rng = stream(9, "planted", "lightening")
    originals = [
        np.clip(swatch((120, 80, 60), (30, 30)) + rng.normal(0, 8, (30, 30, 3)), 0, 255).astype(np.uint8)
        for _ in range(10)
    ]

    def delta(strength: float) -> float:
        edited = [(image + strength * (255.0 - image)).astype(np.uint8) for image in originals]
        return delta_ita(originals, edited).degrees

    found = [delta(strength) for strength in (0.0, 0.1, 0.2, 0.4)]
    assert found[0] == 0.0
    assert (np.diff(found) > 10.0).all()


def test_flips_are_counted_per_edit() -> None:
    before = np.array([0, 1, 1, 0])
    assert flip_rate(before, before) == 0.0
    assert flip_rate(before, 1 - before) == 1.0
    assert flip_rate(before, np.array([[0, 1], [1, 1], [0, 0], [0, 0]])) == 3 / 8
    assert flip_rate(["woman", "man"], ["man", "man"]) == 0.5


def test_a_planted_share_of_flips_is_found() -> None:
    rng = stream(10, "planted", "flips")
    before = rng.integers(0, 2, 5000)
    for strength in (0.0, 0.2, 0.6):
        after = np.where(rng.random(5000) < strength, 1 - before, before)
        assert flip_rate(before, after) == pytest.approx(strength, abs=0.03)


@pytest.mark.parametrize(
    ("before", "after", "match"),
    [
        ([0, 1], [0], "before has shape"),
        ([[0, 1]], [[0, 1]], "before has shape"),
        ([0], [[[0]]], "before has shape"),
        ([0, 1], [0, -1], "after holds no class"),
        ([0.0, 1.0], [0, 1], "before holds no class"),
        (["man", ""], ["man", "man"], "before holds no class"),
        ([], [], "before holds no class"),
        ([0, 1], ["man", "woman"], "before holds int64 classes"),
    ],
)
def test_flips_need_a_class_for_every_image(before: Any, after: Any, match: str) -> None:
    with pytest.raises(MetricError, match=match):
        flip_rate(before, after)


def test_an_angle_on_the_limit_of_two_types_is_of_the_darker_one() -> None:
    assert [fitzpatrick_type(limit) for limit in (55.0, 41.0, 28.0, 19.0, 10.0)] == [2, 3, 4, 5, 6]
    assert fitzpatrick_type(55.1) == 1


def test_images_are_8_bit_rgb_and_masks_are_theirs() -> None:
    image = swatch((180, 125, 92))
    for wrong in (image / 255.0, image[..., 0], np.dstack([image, image[..., :1]]), image[:0]):
        with pytest.raises(MetricError, match="8-bit RGB of shape"):
            skin_mask(wrong)
        with pytest.raises(MetricError, match="8-bit RGB of shape"):
            individual_typology_angle(wrong, whole(image))
    for mask in (whole(image)[:-1], whole(image).astype(int), np.float64(1.0)):
        with pytest.raises(MetricError, match="bool of shape"):
            individual_typology_angle(image, mask)
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(MetricError, match="min_fraction is"):
            individual_typology_angle(image, whole(image), min_fraction=share)
    with pytest.raises(MetricError, match="the skin rule is 'hsv'") as caught:
        skin_mask(image, rule="hsv")  # type: ignore[arg-type]
    assert caught.value.remedy == "use 'hue' or 'kolkur'"
