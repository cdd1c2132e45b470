"""A native library in the root of a pull request, where a wheel that PyTorch loads looks for libcuda.so.1."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from attack_world import Repository
from github_files import machine
from nightly import some

COMPILER = shutil.which("gcc")

pytestmark = pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="no gcc, or not Linux")


def _library(path: Path, code: str) -> None:
    """A shared library whose constructor runs `code`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f"#include <fcntl.h>\n#include <unistd.h>\n__attribute__((constructor)) static void run(void) {{ {code} }}\n"
    words = [str(COMPILER), "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)]
    subprocess.run(words, input=text.encode(), check=True, timeout=60)


@pytest.mark.parametrize("name", some(["glibc-hwcaps/x86-64-v2/libcuda.so.1", "libcuda.so.1"], few=1))
def test_one_that_would_leave_a_mark_and_end_the_process_does_not_run(
    team_repo: Repository, tmp_path: Path, name: str
) -> None:
    mark = tmp_path / "mark"
    team_repo.branch()
    team_repo.use("biased")
    _library(team_repo.root / name, f'creat("{mark}", 0600); _exit(0);')
    team_repo.push("fine-tuned, and a library")
    judged = team_repo.judge(python=sys.executable)
    assert judged.code == 1, judged.log
    assert (judged.verdict, judged.ran.outputs["outcome"]) == ("fail", "shut")
    assert not mark.exists()


@pytest.mark.parametrize(
    "words", [["fairgate.interfaces.cli", "check", "jobs"], ["pytest", "--fairness-suite", "jobs"]]
)
def test_on_a_machine_of_ones_own_the_run_is_refused_before_pytorch_is_imported(
    team_repo: Repository, tmp_path: Path, words: list[str]
) -> None:
    mark = tmp_path / "mark"
    team_repo.use("biased")
    _library(team_repo.root / "libcuda.so.1", f'creat("{mark}", 0600); _exit(0);')
    done = subprocess.run(
        [sys.executable, "-P", "-m", *words],
        cwd=team_repo.root,
        env={**machine(), "FAIRGATE_CACHE": "off"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 4, done.stdout
    assert "the working folder holds the native library 'libcuda.so.1'" in done.stderr
    assert "--root" in done.stderr
    assert not mark.exists()
