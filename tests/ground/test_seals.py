"""A key is this person's own: what a repository, another user or a neighbour could have put there does not count."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairgate.ground.seals import KeyTrouble, SealedNotes, is_sealed, seal, stored_key


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "config" / "fairgate" / "cache-key"
    assert stored_key(path, make=False) is None
    key = stored_key(path)
    assert key == stored_key(path) == path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["cache-key"]


def test_processes_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from fairgate.ground.seals import stored_key\n"
    program += "sys.stdin.readline(); print(stored_key(Path(sys.argv[1])).hex())"
    words = [sys.executable, "-c", program, str(tmp_path / "key")]
    started = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert len({process.communicate(timeout=60)[0] for process in started}) == 1


def test_a_key_that_somebody_else_could_know_or_choose_does_not_count(tmp_path: Path) -> None:
    path, own = tmp_path / "key", tmp_path / "own"
    key = stored_key(own)
    assert key is not None
    path.symlink_to(own)
    with pytest.raises(KeyTrouble):
        stored_key(path)
    path.unlink()
    for mode in (0o640, 0o604, 0o620):
        path.write_bytes(key)
        path.chmod(mode)
        with pytest.raises(KeyTrouble, match="by others"):
            stored_key(path)
        path.unlink()
    for content in (b"", key[:-1], key + b"\n"):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(KeyTrouble, match="does not contain a key"):
            stored_key(path)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(KeyTrouble, match="not a regular file"):
        stored_key(path)


def test_a_key_of_another_user_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored_key(tmp_path / "key")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(KeyTrouble, match="another user"):
        stored_key(tmp_path / "key")


def test_a_key_inside_of_the_repository_does_not_count_also_through_a_link(tmp_path: Path) -> None:
    repository, home = tmp_path / "repository", tmp_path / "home"
    (repository / "config").mkdir(parents=True)
    home.symlink_to(repository / "config")
    for path in (repository / "config" / "key", home / "key", tmp_path / "x" / ".." / "repository" / "key"):
        with pytest.raises(KeyTrouble, match="inside of the repository"):
            stored_key(path, [repository])
    assert not any(path.name == "key" for path in repository.rglob("*"))


def test_a_note_without_the_seal_is_not_there(tmp_path: Path) -> None:
    own, other = SealedNotes(tmp_path, b"own"), SealedNotes(tmp_path, b"other")
    other.add("release", "intact")
    assert other.has("release", "intact")
    assert not own.has("release", "intact")
    own.add("release", "intact")
    assert own.has("release", "intact")
    assert not own.has("release", "another text")
    (tmp_path / "copy").write_bytes((tmp_path / "release").read_bytes())
    assert not own.has("copy", "intact")
    os.mkfifo(tmp_path / "pipe")
    assert not own.has("pipe", "intact")


def test_a_seal_is_of_content_and_not_of_its_order() -> None:
    sealed = seal(b"key", {"a": 1, "b": [2]})
    assert is_sealed(b"key", {"b": [2], "a": 1}, sealed)
    assert not is_sealed(b"key", {"b": [3], "a": 1}, sealed)
    assert not is_sealed(b"other", {"a": 1, "b": [2]}, sealed)
    assert not any(is_sealed(b"key", {"a": 1}, claimed) for claimed in (None, "", 7, "\N{SNOWMAN}"))
