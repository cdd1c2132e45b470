"""The fuzzers do not rot: they start, they count, and what escapes from a target ends in a kept file and a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).resolve().parents[1] / "fuzz"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, str(FUZZ / "run.py"), *words)
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=400)


@pytest.mark.nightly
def test_a_target_is_tried_and_counted(tmp_path: Path) -> None:
    done = run(tmp_path, "--seconds", "1", "--target", "labels", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "labels" in done.stdout
    assert " tried " in done.stdout
    assert not (tmp_path / "fuzz-failures").exists()


def test_one_input_can_be_tried_again(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"file,gender\n../x.png,man\n")
    done = run(tmp_path, "--target", "labels", "--replay", "input")
    assert done.returncode == 0
    assert "leads out of the images folder" in done.stdout


def test_an_exception_that_escapes_is_kept_and_told(tmp_path: Path) -> None:
    (tmp_path / "fuzz").mkdir()
    for path in FUZZ.glob("*.py"):
        text = path.read_text(encoding="utf-8").replace("parents[1]", f"parents[1] / {str(FUZZ.parent)!r}")
        (tmp_path / "fuzz" / path.name).write_text(text, encoding="utf-8")
    broken = tmp_path / "fuzz" / "uses.py"
    text = broken.read_text(encoding="utf-8").replace(
        "def labels(world: World, data: bytes) -> None:\n",
        "def labels(world: World, data: bytes) -> None:\n    assert b'Male' in data\n",
    )
    broken.write_text(text, encoding="utf-8")
    words = (
        sys.executable,
        str(tmp_path / "fuzz" / "run.py"),
        "--seconds",
        "4",
        "--target",
        "labels",
        "--keep",
        "kept",
    )
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    (kept, *_) = (tmp_path / "kept").iterdir()
    assert b"Male" not in kept.read_bytes()
