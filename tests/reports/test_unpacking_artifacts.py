"""An artifact is somebody else's archive: two files are taken out of it, within limits, or nothing is."""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fairgate.ground.errors import FairgateError
from fairgate.reports import artifact
from fairgate.reports.artifact import unpack_report

Pack = Callable[[zipfile.ZipFile], None]


def _zip(path: Path, *packs: Pack) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for pack in packs:
            pack(archive)
    return path


def _entry(name: str, content: bytes = b"{}", mode: int = 0, method: int = zipfile.ZIP_DEFLATED) -> Pack:
    def pack(archive: zipfile.ZipFile) -> None:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        entry.compress_type = method
        archive.writestr(entry, content)

    return pack


RECORD = _entry("results.json")


def test_the_record_and_its_scores_are_taken_and_everything_else_is_left(tmp_path: Path) -> None:
    archive = _zip(tmp_path / "a.zip", RECORD, _entry("scores.parquet", b"PAR1"), _entry("report.html"), _entry("a/b"))
    assert unpack_report(archive, tmp_path / "out") == ["a/b", "report.html"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {
        "results.json": b"{}",
        "scores.parquet": b"PAR1",
    }


@pytest.mark.parametrize(
    ("pack", "problem"),
    [
        (_entry("../results.json"), "leads elsewhere"),
        (_entry("a/../../b"), "leads elsewhere"),
        (_entry("/etc/passwd"), "leads elsewhere"),
        (_entry("a\\..\\b"), "leads elsewhere"),
        (_entry("C:/b"), "leads elsewhere"),
        (_entry("a//b"), "leads elsewhere"),
        (_entry("b\x1b[31m\n::error::x"), "leads elsewhere"),
        (_entry("link", b"/etc/passwd", stat.S_IFLNK | 0o777), "is a link or a device"),
        (_entry("pipe", b"", stat.S_IFIFO | 0o644), "is a link or a device"),
        (_entry("report.html", b"x", method=zipfile.ZIP_BZIP2), "compressed in a way that artifacts are not"),
    ],
)
def test_an_entry_that_no_gate_packs_refuses_the_whole_archive(tmp_path: Path, pack: Pack, problem: str) -> None:
    archive = _zip(tmp_path / "a.zip", RECORD, pack)
    with pytest.raises(FairgateError, match=problem) as caught:
        unpack_report(archive, tmp_path / "out")
    assert "whole" in (caught.value.remedy or "")
    assert "\x1b" not in str(caught.value)
    assert "\n::error" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_link_in_the_place_of_the_record_is_refused(tmp_path: Path) -> None:
    archive = _zip(tmp_path / "a.zip", _entry("results.json", b"/etc/passwd", stat.S_IFLNK | 0o777))
    with pytest.raises(FairgateError, match="link"):
        unpack_report(archive, tmp_path / "out")


def test_a_bomb_is_refused_by_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(artifact.TAKEN, "results.json", 1024 * 1024)
    archive = _zip(tmp_path / "a.zip", _entry("results.json", bytes(2 * 1024 * 1024)))
    assert archive.stat().st_size < 10_000
    with pytest.raises(FairgateError, match="would unpack to 2 MB; the limit is 1 MB"):
        unpack_report(archive, tmp_path / "out")


def test_a_bomb_that_lies_about_its_size_is_refused_while_it_unpacks(tmp_path: Path) -> None:
    archive = _zip(tmp_path / "a.zip", _entry("results.json", bytes(2_000_000)))
    packed = archive.read_bytes()
    archive.write_bytes(packed.replace(struct.pack("<L", 2_000_000), struct.pack("<L", 2)))
    with pytest.raises(FairgateError, match="damaged or forged"):
        unpack_report(archive, tmp_path / "out")


def test_more_entries_than_a_report_has_are_refused(tmp_path: Path) -> None:
    archive = _zip(tmp_path / "a.zip", RECORD, *(_entry(f"{i}") for i in range(artifact.MAX_ENTRIES)))
    with pytest.raises(FairgateError, match="1,001 entries; the limit is 1,000"):
        unpack_report(archive, tmp_path / "out")


def test_a_huge_table_of_contents_is_refused_before_it_is_read(tmp_path: Path) -> None:
    archive = _zip(tmp_path / "a.zip", RECORD, *(_entry(f"{'x' * 400}{i}", b"") for i in range(2500)))
    with pytest.raises(FairgateError, match="table of contents is larger"):
        unpack_report(archive, tmp_path / "out")


def test_an_archive_of_the_64_bit_kind_is_refused(tmp_path: Path) -> None:
    archive = _zip(tmp_path / "a.zip", RECORD)
    packed = archive.read_bytes()
    at = packed.rindex(b"PK\x05\x06")
    archive.write_bytes(packed[:at] + b"PK\x06\x07" + bytes(16) + packed[at:])
    with pytest.raises(FairgateError, match="table of contents is larger"):
        unpack_report(archive, tmp_path / "out")


def test_an_archive_beyond_the_limit_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "MAX_ARCHIVE", 100)
    with pytest.raises(FairgateError, match="the limit is 0 MB"):
        unpack_report(_zip(tmp_path / "a.zip", RECORD), tmp_path / "out")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_one_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FairgateError, match="one name twice"):
        unpack_report(_zip(tmp_path / "a.zip", RECORD, RECORD), tmp_path / "out")


def test_an_archive_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FairgateError, match=r"holds no results\.json"):
        unpack_report(_zip(tmp_path / "a.zip", _entry("sub/results.json")), tmp_path / "out")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06", b"PK\x05\x06" + b"\xff" * 18])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(FairgateError):
        unpack_report(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("place", range(0, 240, 7))
def test_a_damaged_archive_never_ends_in_anything_but_an_error_of_ours(tmp_path: Path, place: int) -> None:
    archive = _zip(tmp_path / "a.zip", _entry("results.json", b"{}" * 300))
    packed = bytearray(archive.read_bytes())
    packed[place % len(packed)] ^= 0xFF
    archive.write_bytes(packed)
    try:
        unpack_report(archive, tmp_path / "out")
    except FairgateError:
        return
    assert (tmp_path / "out" / "results.json").read_bytes() == b"{}" * 300


def test_an_encrypted_entry_is_refused(tmp_path: Path) -> None:
    archive = _zip(tmp_path / "a.zip", RECORD)
    packed = bytearray(archive.read_bytes())
    packed[packed.rindex(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(packed)
    with pytest.raises(FairgateError, match="encrypted"):
        unpack_report(archive, tmp_path / "out")


def test_nothing_is_unpacked_over_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine", encoding="utf-8")
    with pytest.raises(FairgateError, match="not empty"):
        unpack_report(_zip(tmp_path / "a.zip", RECORD), tmp_path / "out")


def test_an_archive_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FairgateError, match="cannot be unpacked"):
        unpack_report(tmp_path / "a.zip", tmp_path / "out")
