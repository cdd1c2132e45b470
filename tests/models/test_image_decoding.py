"""Images of every kind reach the model as upright RGB, or are named as unreadable."""

from __future__ import annotations

import numpy as np
import pytest
from model_world import Pictures, encoded, picture
from PIL import Image

from fairgate.ground.errors import DatasetError
from fairgate.models.decoding import decode_rgb

BASE = picture(3).resize((8, 6))


def decode(blob: bytes) -> Image.Image:
    return decode_rgb(blob, Pictures([blob]), 0)


def test_rgb_comes_back_as_it_is() -> None:
    np.testing.assert_array_equal(np.asarray(decode(encoded(BASE))), np.asarray(BASE))


@pytest.mark.parametrize("mode", ["L", "P", "CMYK", "RGBA", "LA", "1", "YCbCr"])
def test_every_colour_mode_becomes_rgb(mode: str) -> None:
    kind = {"CMYK": "TIFF", "YCbCr": "TIFF"}.get(mode, "PNG")
    source = BASE.convert("RGBA") if mode == "LA" else BASE
    image = source.convert(mode)
    found = decode(encoded(image, kind))
    assert found.mode == "RGB"
    np.testing.assert_array_equal(np.asarray(found), np.asarray(image.convert("RGB")))


def test_a_palette_with_transparency_needs_no_warning() -> None:
    image = BASE.convert("P")
    image.info["transparency"] = bytes([0, 128, 255])
    found = decode(encoded(image, transparency=bytes([0, 128, 255])))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(BASE.convert("P").convert("RGB")))


def test_a_photograph_taken_sideways_is_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    found = decode(encoded(BASE, exif=exif))
    assert found.size == (6, 8)
    np.testing.assert_array_equal(np.asarray(found), np.rot90(np.asarray(BASE), k=-1))


@pytest.mark.parametrize("blob", [b"", b"not an image", encoded(picture(1), "JPEG")[:200], encoded(picture(1))[:300]])
def test_an_unreadable_image_is_named(blob: bytes) -> None:
    with pytest.raises(DatasetError, match="cannot be decoded") as caught:
        decode(blob)
    assert caught.match(r"val/0.png \(set 0000, member dark\)")


def test_deep_greyscale_is_refused_because_pillow_would_clip_it() -> None:
    deep = Image.fromarray(np.full((4, 4), 4000, dtype=np.uint16))
    with pytest.raises(DatasetError, match="more than 8 bits a channel"):
        decode(encoded(deep))


def test_a_decompression_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(DatasetError, match="decompression bomb"):
        decode(encoded(BASE))


def test_the_memory_of_large_pictures_is_used_again() -> None:
    """New pages for each picture take up to as long as decoding it."""
    core = Image.core  # type: ignore[attr-defined] # documented: Pillow's block allocator
    data = encoded(Image.new("RGB", (4000, 3000), "red"), "JPEG")
    decode(data)
    before = core.get_stats()
    for _ in range(3):
        decode(data)
    after = core.get_stats()
    assert after["reused_blocks"] - before["reused_blocks"] >= 9  # 48 MB of three blocks each
    assert after["blocks_cached"] <= core.get_blocks_max() <= 64
