"""Pictures: whole or refused, and what is hashed is what a model is shown."""

from __future__ import annotations

import io
import struct
import threading
import zlib
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from fairgate.data import UnreadableImage, decode
from fairgate.ground.errors import DatasetError
from fairgate.ground.pixels import many_pixels, pixels_of
from fairgate.models.decoding import decode_rgb

ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(size, raw: bytes, *, depth: int = 8, colour: int = 2, interlaced: bool = False) -> bytes:
    """A PNG whose header is whole and whose rows are `raw`, with an end."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, int(interlaced)))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def scanlines(pixels: np.ndarray) -> bytes:
    """(height, width, channels) uint8 as unfiltered rows."""
    return b"".join(b"\0" + row.tobytes() for row in pixels)


def interlaced(pixels: np.ndarray) -> bytes:
    parts = [pixels[y::dy, x::dx] for x, y, dx, dy in ADAM7]
    return b"".join(scanlines(part) for part in parts if part.size)


@pytest.mark.parametrize("rows", [1, 30, 89])
def test_a_png_whose_rows_end_early_is_refused(rows):
    pixels = np.full((90, 60, 3), 200, np.uint8)
    assert decode(png((60, 90), scanlines(pixels))).size == (60, 90)
    with pytest.raises(UnreadableImage, match=f"it ends early: {(90 - rows) * 181:,} bytes of its rows are missing"):
        decode(png((60, 90), scanlines(pixels[:rows])))


def test_a_png_of_8190_x_8190_with_a_third_of_its_rows_is_refused_when_written_and_when_read(write, rows):
    third = png((8190, 8190), (b"\0" + bytes(1024)) * 2730, depth=1, colour=0)
    first, *rest = rows()
    with pytest.raises(DatasetError, match=r"the image cannot be read: it ends early: 5,\d+,\d+ bytes"):
        write(rows=[first | {"image": third}, *rest])


def test_an_interlaced_png_is_read_and_refused_where_a_pass_is_missing():
    pixels = np.arange(33 * 21 * 3, dtype=np.uint32).astype(np.uint8).reshape(33, 21, 3)
    for height, width in product((1, 2, 5, 8, 33), (1, 3, 8, 21)):
        part = pixels[:height, :width]
        whole = decode(png((width, height), interlaced(part), interlaced=True))
        assert np.array_equal(np.asarray(whole), part)
    last = len(scanlines(pixels[1::2]))
    with pytest.raises(UnreadableImage, match=f"{last:,} bytes of its rows are missing"):
        decode(png((21, 33), interlaced(pixels)[:-last], interlaced=True))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16"])
@pytest.mark.parametrize("size", [(1, 1), (7, 9), (64, 3)])
def test_whole_pngs_of_every_kind_are_read(mode, size):
    image = Image.new("L", size, 77).convert(mode) if mode != "I;16" else Image.new(mode, size, 777)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    assert decode(buffer.getvalue()).size == size
    for bits in (1, 2, 4) if mode == "P" else ():
        buffer = io.BytesIO()
        Image.new("P", size, 1).save(buffer, "PNG", bits=bits)
        assert decode(buffer.getvalue()).size == size


@pytest.mark.parametrize("kind", ["BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"])
@pytest.mark.parametrize("share", [0.4, 0.9])
def test_a_file_that_is_cut_short_is_refused(kind, share):
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(buffer, kind)
    whole = buffer.getvalue()
    decode(whole)
    with pytest.raises(UnreadableImage):
        decode(whole[: int(len(whole) * share)])


def saved(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def noise(seed: int = 0, channels: int = 3) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (12, 20, channels), dtype=np.uint8))


TRICKY = {
    "upright": saved(noise(), "PNG"),
    "orientation in PNG": saved(noise(), "PNG", exif=turned()),
    "orientation in JPEG": saved(noise(), "JPEG", exif=turned()),
    "palette": saved(noise().quantize(9), "PNG"),
    "transparent palette": saved(noise().quantize(9), "PNG", transparency=3),
    "transparent colour": saved(noise(), "PNG", transparency=(1, 2, 3)),
    "alpha": saved(noise(channels=4), "PNG"),
    "grey": saved(noise().convert("L"), "PNG"),
    "bits": saved(noise().convert("1"), "PNG"),
    "CMYK": saved(noise().convert("CMYK"), "JPEG"),
    "many frames GIF": saved(noise(), "GIF", save_all=True, append_images=[noise(1)]),
    "many frames TIFF": saved(noise(), "TIFF", save_all=True, append_images=[noise(1)]),
    "many frames PNG": saved(noise(), "PNG", save_all=True, append_images=[noise(1)]),
    "many frames WebP": saved(noise(), "WEBP", save_all=True, append_images=[noise(1)], lossless=True),
    "colour profile": saved(noise(), "PNG", icc_profile=b"\0" * 200),
    "trailing bytes": saved(noise(), "PNG") + saved(noise(1), "PNG"),
    "trailing bytes JPEG": saved(noise(), "JPEG") + saved(noise(1), "JPEG"),
}


@pytest.mark.parametrize("name", TRICKY)
def test_a_model_is_shown_the_pixels_that_are_hashed(name):
    source = SimpleNamespace(folder="x", index=None)
    shown = decode_rgb(TRICKY[name], source, 0)
    hashed = decode(TRICKY[name])
    assert np.array_equal(np.asarray(shown), np.asarray(hashed.convert("RGB")))


def test_sixteen_bits_are_hashed_and_not_shown_to_a_model():
    data = saved(Image.new("I;16", (4, 4), 777), "PNG")
    assert pixels_of(data) != pixels_of(saved(Image.new("I;16", (4, 4), 778), "PNG"))
    index = SimpleNamespace(set_id=["s"], member=["m"], path=[""])
    with pytest.raises(DatasetError, match="more than 8 bits"):
        decode_rgb(data, SimpleNamespace(folder="x", index=index), 0)


def test_the_largest_pictures_are_decoded_one_after_another(monkeypatch):
    from fairgate.ground import pixels

    busy, most = [], []
    whole = pixels._decoded

    def watched(image):
        busy.append(threading.get_ident())
        most.append(len(busy))
        try:
            return whole(image)
        finally:
            busy.pop()

    monkeypatch.setattr(pixels, "_decoded", watched)
    monkeypatch.setattr(pixels, "_LARGE", 20 * 12)
    monkeypatch.setattr(pixels.os, "cpu_count", lambda: 8)
    many_pixels([TRICKY["upright"]] * 40)
    assert max(most) == 1
