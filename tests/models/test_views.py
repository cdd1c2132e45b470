"""Views of a picture: mirrored, shifted, cropped a little, resampled; the same on every machine and in any order."""

from __future__ import annotations

import io

import numpy as np
import pytest
from model_world import Pictures, encoded, picture
from numpy.typing import NDArray
from PIL import Image

from fairgate.models import Views
from fairgate.models.made_pictures import SMALLEST_SIDE, view_of


def seen(source: Views, batch_size: int = 32) -> list[bytes]:
    views: dict[int, bytes] = {}
    for rows, blobs in source.image_batches(batch_size):
        assert 0 < len(blobs) <= batch_size
        views |= dict(zip(rows.tolist(), blobs, strict=True))
    return [views[row] for row in range(len(source))]


def test_the_picture_itself_is_the_first_view_and_the_others_differ() -> None:
    blobs = [encoded(picture(seed)) for seed in range(3)]
    source = Views(Pictures(blobs), 4)
    views = seen(source)
    assert len(source) == len(views) == 12
    assert views[::4] == blobs
    assert len(set(views)) == 12
    assert {Image.open(io.BytesIO(view)).size for view in views} == {(40, 36)}
    assert source.index.set_id.tolist() == ["0000"] * 8 + ["0001"] * 4


@pytest.mark.parametrize("batch_size", [1, 3, 5, 64])
def test_views_depend_on_the_picture_and_on_no_order_or_batch(batch_size: int) -> None:
    blobs = [encoded(picture(seed)) for seed in range(3)]
    views = seen(Views(Pictures(blobs), 4), batch_size)
    turned = seen(Views(Pictures(blobs[::-1]), 4))
    assert [views[at : at + 4] for at in (8, 4, 0)] == [turned[at : at + 4] for at in (0, 4, 8)]
    assert seen(Views(Pictures(blobs), 2)) == [view for at in (0, 4, 8) for view in views[at : at + 2]]


def test_another_number_of_views_is_another_source() -> None:
    pictures = Pictures([encoded(picture(0))])
    marks = {pictures.fingerprint, *(Views(pictures, views).fingerprint for views in (2, 3, 16))}
    assert len(marks) == 4
    assert Views(pictures, 16).fingerprint in marks


def test_a_view_shows_at_least_19_twentieths_of_each_side_and_changes_no_colour_of_a_plain_picture() -> None:
    plain = Image.new("RGB", (50, 40), (200, 30, 90))
    ramp = Image.fromarray(np.broadcast_to(np.linspace(0, 255, 100).astype(np.uint8), (80, 100)).copy()).convert("RGB")
    mirrored = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        assert np.array_equal(np.asarray(view_of(plain, rng)), np.asarray(plain))
        row: NDArray[np.int64] = np.asarray(view_of(ramp, rng))[40, :, 0].astype(int)
        mirrored += row[0] > row[-1]
        assert abs(row[0] - row[-1]) >= 255 * SMALLEST_SIDE - 4
    assert 60 < mirrored < 140
