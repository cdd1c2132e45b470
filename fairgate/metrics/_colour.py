"""8-bit sRGB in other colour spaces: CIELAB under D65, and the studio-range YCbCr that published skin rules are for."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.errors import MetricError
from fairgate.metrics._checks import FloatArray

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
