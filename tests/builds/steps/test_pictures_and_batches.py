"""Pictures keep their pixels, and batches shrink until they fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image

from fairgate.builds.steps import Meter
from fairgate.builds.steps.contract import Batches, SmallerBatches
from fairgate.builds.steps.pictures import mask, mask_png, picture, png
from fairgate.ground.errors import DatasetError, DeviceError


def noise(mode: str = "RGB") -> Image.Image:
    channels = {"L": (9, 7), "RGB": (9, 7, 3), "RGBA": (9, 7, 4)}[mode]
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, channels, dtype=np.uint8))


def test_a_picture_is_the_same_from_an_image_from_bytes_and_from_a_stored_row() -> None:
    image = noise()
    for value in (image, png(image), {"bytes": png(image), "path": None}):
        assert picture(value).tobytes() == image.tobytes()


def test_a_picture_is_a_copy_that_may_be_drawn_on() -> None:
    image = noise()
    before = image.tobytes()
    picture(image).paste("black", (0, 0, 5, 5))
    assert image.tobytes() == before


def test_the_same_pixels_are_the_same_bytes_whatever_else_the_image_carries() -> None:
    image = noise()
    loaded = image.copy()
    loaded.info = {"dpi": (72, 72), "icc_profile": b"profile", "comment": "hello"}
    assert png(loaded) == png(image)


def test_transparency_is_laid_on_white() -> None:
    assert picture(Image.new("RGBA", (2, 2), (0, 0, 0, 0))).getpixel((0, 0)) == (255, 255, 255)


def test_a_mask_comes_back_to_the_pixel_at_one_bit_each() -> None:
    drawn = np.random.default_rng(1).random((31, 17)) > 0.5
    assert (mask(mask_png(drawn)) == drawn).all()
    assert (mask(drawn) == drawn).all()
    assert len(mask_png(np.zeros((512, 512), dtype=bool))) < 200


@pytest.mark.parametrize("value", [None, 3, "text", b"no image"])
def test_what_is_no_picture_is_refused(value: object) -> None:
    with pytest.raises(DatasetError):
        picture(value)


class Device:
    """Has room for `room` items, as a GPU would."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.sizes: list[int] = []

    def __call__(self, batch: Sequence[int]) -> list[int]:
        import torch

        self.sizes.append(len(batch))
        if len(batch) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [item * item for item in batch]


def test_memory_that_runs_out_halves_the_batch_and_says_so() -> None:
    device, meter = Device(room=3), Meter()
    with pytest.warns(SmallerBatches, match=r"batch of [84] images: going on with") as said:
        squares = Batches(what="images")(device, range(10), 8, meter)
    assert squares == [item * item for item in range(10)]
    assert device.sizes == [8, 4, 2, 2, 2, 2, 2]
    assert len(said) == meter.counts["halved_batches"] == 2


def test_a_size_that_did_not_fit_is_not_tried_again() -> None:
    device, batches = Device(room=4), Batches(what="images")
    with pytest.warns(SmallerBatches):
        batches(device, range(8))
    device.sizes.clear()
    assert batches(device, range(8)) == [item * item for item in range(8)]
    assert device.sizes == [4, 4]
    device.sizes.clear()
    assert batches(device, range(6), 3) == [item * item for item in range(6)]
    assert batches(device, range(6), 8) == [item * item for item in range(6)]
    assert device.sizes == [3, 3, 4, 2]


def test_a_single_item_that_does_not_fit_is_an_error_with_a_remedy() -> None:
    with pytest.raises(DeviceError, match=r"(?s)batch of one \(images\).*free memory"):
        Batches(what="images")(Device(room=0), [1])


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    with pytest.raises(ZeroDivisionError):
        Batches()(lambda batch: [batch[0] // 0], [1])
    with pytest.raises(ValueError, match="3 items went in, and 1 results came out"):
        Batches()(lambda batch: batch[:1], [1, 2, 3])
