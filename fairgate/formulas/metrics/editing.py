"""What an image edit does to a person: skin tone before and after as an angle, and who is taken for someone else.

Saravanan et al. 2023 ("Exploring social bias in downstream applications of text-to-image foundation models"): ITA of
average faces, and flips of a zero-shot class. ITA describes the pixels of a picture under its light, not a person.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.formulas.metrics._checks import BoolArray, FloatArray
from fairgate.ground.errors import MetricError

Pixels: TypeAlias = NDArray[np.uint8]

# IEC 61966-2-1 primaries and the D65 white of the 2 degree observer, with the digits that scikit-image carries.
_TO_XYZ = np.array([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]])
_WHITE = np.array([0.95047, 1.0, 1.08883])
# ITU-R BT.601, Y in 16..235, Cb and Cr in 16..240, not rounded.
_TO_YCBCR = np.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]]) / 255.0
_YCBCR_ZERO = np.array([16.0, 128.0, 128.0])


def pixels(name: str, rgb: ArrayLike) -> Pixels:
    """`rgb` as (h, w, 3) 8-bit values; refuses floats, grey and alpha: a rule on 8-bit values cannot guess a scale."""
    array: NDArray[Any] = np.asarray(rgb)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[-1] != 3 or array.size == 0:
        raise MetricError(
            f"{name} is {array.dtype} of shape {array.shape}, but 8-bit RGB of shape (h, w, 3) is needed.",
            where=name,
            remedy='pass np.asarray(image.convert("RGB")), or scale 0..1 floats by 255, round and cast to uint8',
        )
    return array


def cielab(rgb: Pixels) -> FloatArray:
    """CIELAB of 8-bit sRGB, (..., 3) -> (..., 3): L 0..100, a and b; as scikit-image's rgb2lab."""
    level = np.arange(256) / 255.0
    linear = np.where(level > 0.04045, ((level + 0.055) / 1.055) ** 2.4, level / 12.92)
    ratio = linear[rgb] @ _TO_XYZ.T / _WHITE
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16.0 / 116.0)
    x, y, z = f[..., 0], f[..., 1], f[..., 2]
    return np.stack([116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)], axis=-1)


def ycbcr(rgb: Pixels) -> FloatArray:
    """Y, Cb and Cr of 8-bit RGB, (..., 3) -> (..., 3), studio range and unrounded; as scikit-image's rgb2ycbcr."""
    converted: FloatArray = rgb.astype(np.float64) @ _TO_YCBCR.T + _YCBCR_ZERO
    return converted


SkinRule: TypeAlias = Literal["hue", "kolkur"]

HUE = (-10, 50)
"""Degrees of HSV hue of rule `hue`: from pinkish red to yellow-orange."""
SATURATION = (7, 80)
"""Percent of HSV saturation of rule `hue`; below lie white and grey."""
DARKEST_RED = 20
"""8-bit red under which rounding to 8 bits alone turns the hue by ten degrees, so that it says nothing."""
MIN_SKIN_FRACTION = 0.05


def skin_mask(rgb: ArrayLike, *, rule: SkinRule = "hue") -> BoolArray:
    """Which pixels have the colour of skin: 8-bit RGB (h, w, 3) -> bool (h, w).

    `hue` reads hue and saturation alone (HUE, SATURATION, red the largest channel and at least DARKEST_RED): they
    do not change when an image is darkened, so it treats dark skin as light skin. It also takes brown hair and wood:
    crop to the face, or bring a mask from a segmentation. `kolkur` is the rule of Saravanan et al. (Kolkur et al. 2017
    as in fitzpatrick17k), to reproduce published figures: its R >= 95 and Y >= 80 lose dark skin, and what is left of
    it is the lit part, which reads lighter (docs/evidence/metrics.md has the measured share and shift).
    Raises MetricError for anything but 8-bit RGB and for an unknown rule.

    >>> skin_mask(np.array([[[214, 164, 132], [60, 38, 28], [90, 90, 90]]], dtype=np.uint8))
    array([[ True,  True, False]])
    """
    image = pixels("rgb", rgb)
    if rule == "hue":
        return _hue(image)
    if rule == "kolkur":
        return _kolkur(image)
    raise MetricError(f"the skin rule is '{rule}'.", where="rule", remedy="use 'hue' or 'kolkur'")


def _hue(image: Pixels) -> BoolArray:
    red, green, blue = (image[..., channel].astype(np.int64) for channel in range(3))
    chroma = red - np.minimum(green, blue)
    # Hue is 60 (G - B) / chroma; multiplied out, whole numbers decide exactly. Where red is not the largest channel
    # it lies beyond +-60, or chroma is negative, and the limits refuse it.
    turn = 60 * (green - blue)
    keep: BoolArray = (red >= DARKEST_RED) & (turn >= HUE[0] * chroma) & (turn <= HUE[1] * chroma)
    keep &= (100 * chroma >= SATURATION[0] * red) & (100 * chroma <= SATURATION[1] * red)
    return keep


def _kolkur(image: Pixels) -> BoolArray:
    # The published rule has five more limits, which follow from these on every one of the 2^24 colours:
    # G >= 40, R >= G, R >= B, Cr >= 0.3448 Cb + 76.2069 and Cr >= -4.5652 Cb + 234.5652.
    red, green, blue = (image[..., channel].astype(np.int64) for channel in range(3))
    keep: BoolArray = (red >= 95) & (blue >= 20) & (red - green >= 15)
    y, cb, cr = np.moveaxis(ycbcr(image), -1, 0)
    keep &= (y >= 80) & (cb >= 85) & (cr >= 135)
    keep &= (cr <= 1.5862 * cb + 20) & (cr <= -1.15 * cb + 301.75) & (cr <= -2.2857 * cb + 432.85)
    return keep


@dataclass(frozen=True, slots=True)
class TypologyAngle:
    """ITA of the skin in one image, with the numbers that it is computed from."""

    degrees: float
    """-90 to 90, higher is lighter; NaN where `status` is invalid."""
    status: Literal["ok", "invalid"]
    reason: str | None
    """Why there is no angle; None where there is one."""
    skin_fraction: float
    """Share of the image's pixels in the mask."""
    lightness: float
    """Trimmed mean of CIELAB L over the mask, 0 to 100; NaN for an empty mask."""
    yellow: float
    """Trimmed mean of CIELAB b over the mask; NaN for an empty mask."""


def individual_typology_angle(
    rgb: ArrayLike, mask: ArrayLike, *, min_fraction: float = MIN_SKIN_FRACTION
) -> TypologyAngle:
    """Individual Typology Angle of the masked pixels of 8-bit RGB (h, w, 3), mask bool (h, w): higher is lighter.

    atan2(L - 50, b) in degrees on CIELAB (D65), L and b each averaged over the pixels within one standard deviation
    (ddof=0) of its own mean, as fitzpatrick17k and Saravanan et al. 2023 do. `invalid` where the mask covers less than
    `min_fraction` of the image, or where b <= 0: bluish pixels are not skin, and atan2 would turn past 90 degrees
    (that code returns -177 for a bright image on a blue ground). Raises MetricError for inputs of another kind.

    >>> swatch = np.full((4, 4, 3), (160, 126, 86), dtype=np.uint8)
    >>> round(individual_typology_angle(swatch, skin_mask(swatch)).degrees, 2)
    10.88
    """
    image = pixels("rgb", rgb)
    chosen: NDArray[Any] = np.asarray(mask)
    if chosen.dtype != np.bool_ or chosen.shape != image.shape[:2]:
        raise MetricError(
            f"mask is {chosen.dtype} of shape {chosen.shape}, but bool of shape {image.shape[:2]} is needed.",
            where="mask",
            remedy="pass skin_mask(rgb), or a segmentation of the same image compared with its skin label",
        )
    if not 0.0 <= min_fraction <= 1.0:
        raise MetricError(f"min_fraction is {min_fraction}.", where="min_fraction", remedy="pass a share, 0 to 1")
    fraction = float(chosen.mean())
    if not chosen.any():
        return TypologyAngle(np.nan, "invalid", "the mask holds no pixel", fraction, np.nan, np.nan)
    colour = cielab(image[chosen])
    lightness, yellow = _trimmed_mean(colour[:, 0]), _trimmed_mean(colour[:, 2])
    reason = None
    if fraction < min_fraction:
        reason = f"{fraction:.1%} of the pixels are skin, under the minimum of {min_fraction:.1%}"
    elif yellow <= 0.0:
        reason = f"b is {yellow:.2f}: the masked pixels are bluish, not skin"
    if reason is not None:
        return TypologyAngle(np.nan, "invalid", reason, fraction, lightness, yellow)
    degrees = float(np.degrees(np.arctan2(lightness - 50.0, yellow)))
    return TypologyAngle(degrees, "ok", None, fraction, lightness, yellow)


FITZPATRICK = (55.0, 41.0, 28.0, 19.0, 10.0)
"""Degrees above which skin is of Fitzpatrick's type 1 to 5 (Kinyanjui et al. 2020, as fitzpatrick17k applies them)."""


def fitzpatrick_type(degrees: float) -> int:
    """Fitzpatrick's type of a typology angle, 1 (lightest) to 6: a class of pixels under their light, not of a person.

    Raises MetricError for what is no number.

    >>> fitzpatrick_type(41.9), fitzpatrick_type(-17.7)
    (2, 6)
    """
    if not np.isfinite(degrees):
        raise MetricError(
            f"the angle is {degrees}.", where="degrees", remedy="leave out, and count, pictures without an angle"
        )
    return 1 + sum(degrees <= limit for limit in FITZPATRICK)


def _trimmed_mean(values: FloatArray) -> float:
    mean, spread = values.mean(), values.std()
    # One colour has a spread of 1e-15, and half of it would fall to rounding without the small allowance.
    return float(values[np.abs(values - mean) <= spread + 1e-9].mean())


def average_face(images: Iterable[ArrayLike]) -> Pixels:
    """Mean image of *aligned* 8-bit RGB images, each (h, w, 3) -> (h, w, 3), rounded to 8 bits.

    Alignment is the caller's (Saravanan et al. 2023 use facer's landmarks): unaligned faces average to background.
    One image is in memory at a time. Raises MetricError for no image, and for images of different size.

    >>> average_face([np.full((1, 1, 3), 10, np.uint8), np.full((1, 1, 3), 20, np.uint8)]).tolist()
    [[[15, 15, 15]]]
    """
    total: NDArray[np.int64] | None = None
    count = 0
    for image in images:
        face = pixels(f"image {count}", image)
        if total is None:
            total = np.zeros(face.shape, dtype=np.int64)
        if face.shape != total.shape:
            raise MetricError(
                f"image {count} has shape {face.shape}, the first {total.shape}.",
                where=f"images: {count}",
                remedy="align and crop all faces to one size first",
            )
        total += face
        count += 1
    if total is None:
        raise MetricError("there is no image to average.", where="images", remedy="pass at least one aligned image")
    return np.floor(total / count + 0.5).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class DeltaITA:
    """Change in the skin tone of an average face by editing; positive is lighter."""

    degrees: float
    """After less before; NaN where either angle is invalid."""
    status: Literal["ok", "invalid"]
    before: TypologyAngle
    after: TypologyAngle


def delta_ita(
    originals: Iterable[ArrayLike],
    edited: Iterable[ArrayLike],
    *,
    rule: SkinRule = "hue",
    min_fraction: float = MIN_SKIN_FRACTION,
) -> DeltaITA:
    """ITA(average of the edited) - ITA(average of the originals), degrees: positive where edits lighten skin.

    Both are aligned 8-bit RGB images of one social group; there may be several edits to an original. Saravanan et al.
    2023, table 1, with `rule="kolkur"`. Raises MetricError as `average_face` and `skin_mask` do.

    >>> tan, dark = np.full((2, 2, 3), (180, 125, 92), np.uint8), np.full((2, 2, 3), (95, 58, 40), np.uint8)
    >>> round(delta_ita([dark], [tan, dark]).degrees, 1)
    34.0
    """
    angles = []
    for images in (originals, edited):
        face = average_face(images)
        angles.append(individual_typology_angle(face, skin_mask(face, rule=rule), min_fraction=min_fraction))
    before, after = angles
    known = before.status == "ok" and after.status == "ok"
    return DeltaITA(after.degrees - before.degrees, "ok" if known else "invalid", before, after)


def flip_rate(before: ArrayLike, after: ArrayLike) -> float:
    """Share of edits whose zero-shot class differs from the original's, 0 to 1.

    before (images,) and after (images,) or (images, edits), class codes or names. 0 where editing an occupation changes
    nobody's perceived gender. Saravanan et al. 2023, "change in gender". Raises MetricError for a missing class (-1,
    None or an empty name), tables that do not fit, and classes of different kinds.

    >>> flip_rate(["man", "woman"], [["man", "man"], ["man", "woman"]])
    0.25
    """
    original, edit = _classes("before", before), _classes("after", after)
    if original.ndim != 1 or edit.ndim not in (1, 2) or original.shape[0] != edit.shape[0]:
        raise MetricError(
            f"before has shape {original.shape}, after {edit.shape}.",
            where="after",
            remedy="pass one class per original, (images,), and its edits as (images,) or (images, edits)",
        )
    if (original.dtype.kind == "U") != (edit.dtype.kind == "U"):
        raise MetricError(
            f"before holds {original.dtype} classes, after {edit.dtype}.",
            where="after",
            remedy="pass codes of one coding for both, or names for both",
        )
    if edit.ndim == 2:
        original = original[:, None]
    return float((edit != original).mean())


def _classes(name: str, values: ArrayLike) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(values)
    known = array.dtype.kind in "iuU" and array.size > 0
    missing = not known or bool((array == "").any() if array.dtype.kind == "U" else (array < 0).any())
    if missing:
        raise MetricError(
            f"{name} holds no class for some images ({array.dtype} of shape {array.shape}).",
            where=name,
            remedy="pass a class code (0, 1, ...) or a name for every image; leave out, and count, those without one",
        )
    return array
