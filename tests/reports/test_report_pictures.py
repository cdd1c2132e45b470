"""Pictures in a page: as they are where they fit, smaller where they do not, and never invented."""

from __future__ import annotations

import base64
import io

import pytest
from example_records import gap_check, portrait
from PIL import Image

from fairgate.reports.run_page import MOST_SETS, album, wanted_sets


def _decoded(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1])))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_picture_that_fits_is_embedded_byte_for_byte(kind: str) -> None:
    data = portrait("tan", kind=kind)
    uri = album({"a": [("m", data)]}, ["a"], 100_000).uris["a", "m"]
    assert uri.startswith(f"data:image/{kind.lower()};base64,")
    assert base64.b64decode(uri.split(",")[1]) == data


def test_a_format_that_browsers_do_not_draw_becomes_png() -> None:
    uri = album({"a": [("m", portrait("tan", kind="BMP"))]}, ["a"], 100_000).uris["a", "m"]
    assert uri.startswith("data:image/png;base64,")


def test_vector_pictures_are_never_embedded() -> None:
    made = album({"a": [("m", b"<svg onload='alert(1)'/>")]}, ["a"], 100_000)
    assert not made.uris
    assert made.unreadable == {("a", "m")}
    assert not made.empty


def test_pictures_shrink_before_any_set_is_left_out() -> None:
    given = {f"s{i}": [("m", portrait("dark", size=512, noise=i))] for i in range(3)}
    made = album(given, list(given), 150_000)
    assert len(made.uris) == 3
    assert sum(map(len, made.uris.values())) <= 150_000
    assert max(_decoded(made.uris["s0", "m"]).size) <= 256


def test_sets_that_still_do_not_fit_are_left_out_from_the_end_and_named() -> None:
    given = {f"s{i}": [("m", portrait("dark", size=128, noise=i))] for i in range(4)}
    made = album(given, list(given), 12_000)
    assert ("s0", "m") in made.uris
    assert "s3" in made.left_out
    assert sum(map(len, made.uris.values())) <= 12_000


def test_sets_beyond_the_most_are_left_out_and_named() -> None:
    ids = [f"s{i}" for i in range(MOST_SETS + 2)]
    made = album({ids[0]: [("m", portrait("tan"))]}, ids, 100_000)
    assert made.left_out == {ids[-1], ids[-2]}


def test_no_picture_at_all_is_an_empty_album() -> None:
    assert album({}, ["a"] * 99, 1000).empty


def test_a_bomb_is_unreadable_and_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    assert album({"a": [("m", portrait("tan", kind="BMP"))]}, ["a"], 100_000).unreadable == {("a", "m")}


def test_only_checks_that_did_not_pass_ask_for_pictures() -> None:
    checks = [gap_check("nurse", "pass"), gap_check("doctor", "fail"), gap_check("doctor", "inconclusive")]
    assert wanted_sets(checks) == ["doctor-0000", "doctor-0001", "doctor-0002"]
