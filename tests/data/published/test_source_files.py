"""Archives of strangers: plain files below one folder, of bounded size, or an error and nothing left behind."""

from __future__ import annotations

import gzip
import stat
import tarfile
import tracemalloc
import zipfile
from io import BytesIO

import pytest

from fairgate.data.published import SourceFiles
from fairgate.data.published.importing import ARCHIVES
from fairgate.ground.errors import DatasetError


@pytest.fixture
def opened(tmp_path):
    """The files of a folder, its archives unpacked."""
    (tmp_path / "given").mkdir()

    def opened():
        return SourceFiles(tmp_path / "given", tmp_path / "scratch", ARCHIVES)

    return opened


def zip_of(path, entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)


def tar_of(path, *members):
    with tarfile.open(path, "w:gz") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, BytesIO(data))


def member(name, kind=tarfile.REGTYPE, target=""):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def test_files_of_archives_and_of_the_folder_are_found_by_path(opened, tmp_path):
    given = tmp_path / "given"
    zip_of(given / "a.zip", [("val/1.jpg", b"one"), ("__MACOSX/val/._1.jpg", b"x"), (".DS_Store", b"x"), ("val/", b"")])
    tar_of(given / "b.tar.gz", (member("./train/2.jpg"), b"two"))
    (given / "labels.csv").write_text("x")
    files = opened()
    assert sorted(files.paths) == ["a.zip", "b.tar.gz", "labels.csv", "train/2.jpg", "val/1.jpg"]
    assert files.paths["val/1.jpg"].read_bytes() == b"one"
    assert files.one("*.csv").name == "labels.csv"
    assert opened().paths == files.paths, "unpacked once"


def linked(name):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([("../out.jpg", b"x")], "leads out"),
        ([("/tmp/out.jpg", b"x")], "leads out"),
        ([("a/../../out.jpg", b"x")], "leads out"),
        ([("C:\\out.jpg", b"x")], "leads out"),
        ([(linked("link.jpg"), b"/etc/passwd")], "is a link or a device"),
        ([("big.jpg", b"\0" * (1 << 20))], "unpacks to more than 30 times"),
        ([("a.jpg", b"x"), ("./a.jpg", b"y")], "is in it twice"),
        ([("a", b"x"), ("a/b.jpg", b"y")], "cannot be read"),
    ],
)
def test_a_zip_with_anything_else_than_plain_files_is_refused_whole(opened, tmp_path, monkeypatch, entries, problem):
    monkeypatch.setattr("fairgate.data.published.source_files.SPARE", 1 << 10)
    zip_of(tmp_path / "given" / "a.zip", entries)
    with pytest.raises(DatasetError, match=problem):
        _ = opened().paths
    assert list((tmp_path / "scratch").iterdir()) == []
    assert not (tmp_path / "out.jpg").exists()


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (member("link.jpg", tarfile.SYMTYPE, "/etc/passwd"), "is a link or a device"),
        (member("link.jpg", tarfile.LNKTYPE, "../../x"), "is a link or a device"),
        (member("pipe.jpg", tarfile.FIFOTYPE), "is a link or a device"),
        (member("disk.jpg", tarfile.BLKTYPE), "is a link or a device"),
        (member("../out.jpg"), "leads out"),
        (member("/out.jpg"), "leads out"),
    ],
)
def test_a_tar_with_anything_else_than_plain_files_is_refused_whole(opened, tmp_path, entry, problem):
    tar_of(tmp_path / "given" / "a.tar.gz", (member("good.jpg"), b"good"), (entry, b""))
    with pytest.raises(DatasetError, match=problem):
        _ = opened().paths
    assert list((tmp_path / "scratch").iterdir()) == []


def huge_name(out):
    entry = member("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    entry.size = 40 << 20
    out.write(entry.tobuf(tarfile.GNU_FORMAT))
    for _ in range(40):
        out.write(b"a" * (1 << 20))
    out.write(member("x.jpg").tobuf())


def huge_notes(out):
    for kind in (tarfile.XGLTYPE, tarfile.XHDTYPE):
        entry = member("notes", kind)
        entry.size = 2 << 20
        out.write(entry.tobuf() + b"a" * entry.size)


def many_names(out):
    """Each within its limit, before one file."""
    entry = member("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    entry.size = 1 << 16
    for _ in range(20):
        out.write(entry.tobuf(tarfile.GNU_FORMAT) + b"a" * entry.size)
    out.write(member("x.jpg").tobuf())


def many_holes(out):
    """A sparse file by the notes of pax: tarfile collects its map before it says what the file is."""
    text = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
    entry = member("notes", tarfile.XHDTYPE)
    entry.size = len(text)
    out.write(entry.tobuf() + text.ljust(512, b"\0") + member("x.jpg").tobuf() + b"9999999\n" + b"1\n" * (1 << 18))


def holes(out):
    out.write(member("x.jpg", tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))


def zeros(out):
    entry = member("x.jpg")
    entry.size = 4 << 20
    out.write(entry.tobuf() + bytes(entry.size))


def folders(out):
    out.write(member("d/", tarfile.DIRTYPE).tobuf() * 101)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (huge_name, "a header says that it has 41,943,040 bytes"),
        (huge_notes, "a header says that it has 2,097,152 bytes"),
        (many_names, "a header in it has more than 65,536 bytes"),
        (many_holes, "a header in it has more than 65,536 bytes"),
        (holes, "is a link or a device, or sparse"),
        (zeros, "unpacks to more than 30 times"),
        (folders, "more than 100 files and folders"),
    ],
)
def test_a_tar_takes_little_memory_whatever_its_headers_say(opened, tmp_path, monkeypatch, written, problem):
    monkeypatch.setattr("fairgate.data.published.source_files.SPARE", 3 << 20 if written is zeros else 1 << 30)
    monkeypatch.setattr("fairgate.data.published.source_files.MOST_FILES", 100)
    monkeypatch.setattr("fairgate.data.published.source_files._LARGEST_HEADER", 1 << 16)
    with gzip.open(tmp_path / "given" / "a.tar.gz", "wb", compresslevel=1) as out:
        written(out)
        out.write(bytes(1024))
    tracemalloc.start()
    try:
        with pytest.raises(DatasetError, match=problem):
            _ = opened().paths
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("content", [b"PK\x03\x04 and nothing else", b"\x1f\x8b\x08"])
@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tgz", "a.tar"])
def test_what_is_no_archive_is_an_error_that_names_it(opened, tmp_path, name, content):
    (tmp_path / "given" / name).write_bytes(content)
    with pytest.raises(DatasetError, match="the archive cannot be read") as caught:
        _ = opened().paths
    assert name in str(caught.value.where)


def test_links_below_the_folder_that_lead_out_of_it_are_passed_over(opened, tmp_path):
    given = tmp_path / "given"
    (tmp_path / "secret.csv").write_text("x")
    (given / "a.csv").symlink_to(tmp_path / "secret.csv")
    (given / "gone.csv").symlink_to(tmp_path / "nowhere")
    (given / "real.csv").write_text("x")
    (given / "b.csv").symlink_to(given / "real.csv")
    assert sorted(opened().paths) == ["b.csv", "real.csv"]


def test_a_table_that_is_absent_or_there_twice_is_named(opened, tmp_path):
    with pytest.raises(DatasetError, match=r"no file is called \*\.csv") as caught:
        SourceFiles(tmp_path / "given", tmp_path / "scratch", name="fairface").one("*.csv")
    assert "`fairgate dataset get fairface`" in (caught.value.remedy or "")
    for folder in ("x", "y"):
        (tmp_path / "given" / folder).mkdir()
        (tmp_path / "given" / folder / "l.csv").write_text("x")
    with pytest.raises(DatasetError, match=r"2 files are called l\.csv"):
        opened().one("l.csv")
