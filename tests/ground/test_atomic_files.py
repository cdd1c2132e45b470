"""Files appear whole or not at all."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fairgate.ground.atomic import atomic, atomic_write, draft_of, remove, sweep


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    atomic_write(path, "old\r\n")
    with atomic(path) as draft:
        draft.write_text("new")
        assert path.read_bytes() == b"old\r\n"
    assert path.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_a_block_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    atomic_write(path, b"old")

    def stop_halfway() -> None:
        with atomic(path) as draft:
            draft.write_text("ne")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        stop_halfway()
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_a_folder_that_is_none_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        atomic_write(tmp_path / "file" / "a.txt", "text")
    sweep(tmp_path / "file")
    remove(tmp_path / "file" / "a.txt")


def test_drafts_of_killed_runs_are_swept_after_a_day(tmp_path: Path) -> None:
    fresh, forgotten = draft_of(tmp_path / "a.txt"), draft_of(tmp_path / "a.txt")
    assert fresh != forgotten
    foreign = tmp_path / ".mine.draft"
    for path in (fresh, forgotten, foreign):
        path.write_text("")
    yesterday = time.time() - 25 * 3600
    for path in (forgotten, foreign):
        os.utime(path, (yesterday, yesterday))
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {fresh.name, foreign.name}
