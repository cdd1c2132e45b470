"""The fingerprint names content: it stays under any rewriting of the files and moves with a pixel or a label."""

from __future__ import annotations

import io
import string

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from fairgate.data import UnreadableImage, decode, read_dataset, write_dataset
from fairgate.ground.errors import harmless
from fairgate.ground.pixels import many_pixels, pixels_of


def _rewrite(folder, **options):
    for shard in folder.glob("*.parquet"):
        pq.write_table(pq.read_table(shard), shard, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip"},
        {"row_group_size": 3},
        {"version": "1.0", "use_dictionary": False, "write_statistics": False},
    ],
)
def test_rewriting_parquet_does_not_move_it(root, options):
    folder = root / "people" / "v1"
    _rewrite(folder, **options)
    assert {problem.kind for problem in read_dataset(folder).verify()} == {"changed_shard"}


def test_cutting_shards_otherwise_does_not_move_it(write, tmp_path):
    one = write(folder=tmp_path / "one")
    many = write(folder=tmp_path / "many", shard_bytes=1)
    assert (len(one.shards), len(many.shards)) == (1, 6)
    assert one.fingerprint == many.fingerprint


def test_name_version_and_words_do_not_move_it(write, tmp_path):
    one = write(folder=tmp_path / "one")
    other = write(folder=tmp_path / "two", name="persons", version="v7", licence="MIT", about="x", recipe={})
    assert one.fingerprint == other.fingerprint


def test_another_encoder_of_the_same_pixels_does_not_move_it(write, rows, tmp_path, image):
    one = write(folder=tmp_path / "one")
    recoded = ({**row, "image": image((int(row["set_id"][4:]), int(row["member"]), 7), "BMP")} for row in rows())
    assert write(folder=tmp_path / "two", rows=recoded).fingerprint == one.fingerprint


def test_the_order_of_columns_does_not_move_it(write, rows, tmp_path):
    turned = (dict(reversed(row.items())) for row in rows())
    assert write(folder=tmp_path / "one").fingerprint == write(folder=tmp_path / "two", rows=turned).fingerprint


def _repainted(png, pixel):
    picture = Image.open(io.BytesIO(png))
    picture.putpixel(pixel, (200, 0, 0))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        {"image": (3, 3)},
        {"tone": "dark"},
        {"caption": "another"},
        {"seed": 99},
        {"sharpness": 0.50001},
    ],
    ids=["pixel", "label", "caption", "provenance", "quality"],
)
def test_one_changed_value_moves_it(write, rows, tmp_path, change):
    before = write(folder=tmp_path / "one")
    changed = list(rows())
    changed[5] |= {"image": _repainted(changed[5]["image"], change["image"])} if "image" in change else change
    after = write(folder=tmp_path / "two", rows=changed)
    assert before.fingerprint != after.fingerprint


def test_swapping_the_images_of_two_members_moves_it(write, rows, tmp_path):
    given = list(rows())
    given[0]["image"], given[1]["image"] = given[1]["image"], given[0]["image"]
    assert write(folder=tmp_path / "one").fingerprint != write(folder=tmp_path / "two", rows=given).fingerprint


def test_mode_size_and_palette_are_content():
    def saved(picture, **options):
        buffer = io.BytesIO()
        picture.save(buffer, "PNG", **options)
        return pixels_of(buffer.getvalue()).sha256

    grey = Image.new("L", (4, 2), 9)
    assert saved(grey) != saved(grey.convert("RGB"))
    assert saved(grey) != saved(Image.new("L", (2, 4), 9))
    palette = Image.new("P", (4, 2), 0)
    palette.putpalette([1, 2, 3])
    before = saved(palette)
    palette.putpalette([3, 2, 1])
    assert before != saved(palette)
    assert saved(grey) != saved(grey, transparency=9)


def test_an_image_is_decoded_upright():
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    Image.new("RGB", (4, 2)).save(buffer, "JPEG", exif=exif)
    assert decode(buffer.getvalue()).size == (2, 4)


@pytest.mark.parametrize("encoding", ["PNG", "JPEG"])
def test_an_image_cut_short_is_unreadable_and_names_no_pixels(image, encoding):
    whole = image((1, 2, 3), encoding, size=(64, 64))
    with pytest.raises(UnreadableImage):
        pixels_of(whole[: len(whole) * 2 // 3])
    good, bad = many_pixels([whole, whole[:40]])
    assert good == pixels_of(whole)
    assert isinstance(bad, UnreadableImage)


def test_an_image_of_unreasonable_size_is_unreadable(image, monkeypatch):
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 10)
    with pytest.raises(UnreadableImage, match="decompression bomb"):
        pixels_of(image((0, 0, 0)))


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=12)
plain = texts.filter(lambda text: text and harmless(text) == text)
names = st.text(string.ascii_lowercase, min_size=1, max_size=6).map(lambda name: f"x_{name}")
values = {
    "text": texts,
    "whole": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "truth": st.booleans(),
    "bytes": st.binary(max_size=8),
    "list": st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=3),
}


@st.composite
def datasets(draw):
    kinds = draw(st.dictionaries(names, st.sampled_from(sorted(values)), max_size=3))
    members = draw(st.lists(plain, min_size=2, max_size=3, unique=True))
    rows = []
    for set_id in draw(st.lists(plain, min_size=1, max_size=4, unique=True)):
        subject = draw(plain)
        for member in members:
            extras = {name: draw(st.none() | values[kind]) for name, kind in kinds.items()}
            caption, path = draw(texts), draw(st.none() | texts)
            tone = draw(st.sampled_from(["light", "dark"]))
            own = {"image": None, "set_id": set_id, "member": member, "subject": subject, "caption": caption}
            rows.append({**own, "path": path, "tone": tone, **extras})
    return rows


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=datasets(), shard_bytes=st.sampled_from([1, 2000, 10**6]))
def test_whatever_is_written_comes_back_and_verifies(tmp_path_factory, rows, shard_bytes):
    folder = tmp_path_factory.mktemp("round") / "trip"
    manifest = write_dataset(
        folder,
        iter(rows),
        name="any",
        version="v1",
        attributes={"tone": ["light", "dark"]},
        recipe={},
        licence="unknown",
        counterfactual=True,
        shard_bytes=shard_bytes,
    )
    dataset = read_dataset(folder)
    assert dataset.manifest == manifest
    assert dataset.verify() == []
    stored = pa.concat_tables([dataset.parquet(shard).read() for shard in manifest.shards]).to_pylist()
    assert stored == rows
    assert dataset.index.path.tolist() == [row["path"] or "" for row in rows]
