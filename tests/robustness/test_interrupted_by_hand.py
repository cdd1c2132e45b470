"""Ctrl-C during a gate run ends it clearly, and the next run goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from gated_world import copy_of
from moments import watch
from nightly import some
from remains import require_whole
from warm_process import WarmProcess

pytestmark = pytest.mark.xdist_group("warm_process")

FAILED, INTERRUPTED, PYTEST_INTERRUPTED = 1, 130, 2
CHECK = ("fairgate", "check", "jobs", "--report", "report", "--cache", "cache", "--device", "cpu")
PYTEST = ("pytest", "--fairness-suite", "jobs", "--fairness-report", "report", "--fairness-cache", "cache")
AT_AN_IMAGE = """
import os, signal, time
import fairgate.models.embeddings as embedding

original = embedding.RowParts.add


def add(self, rows, embeddings):
    original(self, rows, embeddings)
    os.kill(os.getpid(), signal.SIGINT)


embedding.RowParts.add = add
"""
WHILE_TELLING_MLFLOW = """
import os, signal
import fairgate.tracking.runs as runs

runs._fill = lambda *ignored: os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize(
    ("prelude", "code"),
    some(
        [
            pytest.param(AT_AN_IMAGE, INTERRUPTED, id="embedding"),
            pytest.param(WHILE_TELLING_MLFLOW, FAILED, id="telling MLflow"),
        ],
        few=1,
    ),
)
def test_a_check_that_is_interrupted_says_so_in_a_line_and_a_verdict_stands(
    prelude: str, code: int, warm: WarmProcess, world: Path, tmp_path: Path
) -> None:
    folder = copy_of(world, tmp_path / "repository")
    ended = warm.run(CHECK, folder, prelude=prelude)
    assert ended.code == code, ended.output
    assert "interrupted" in ended.output
    assert "Traceback" not in ended.output
    require_whole(folder)
    assert prelude is WHILE_TELLING_MLFLOW or list((folder / "cache" / "parts").rglob("*.safetensors"))
    assert warm.run(CHECK, folder).code == FAILED
    require_whole(folder)


def test_pytest_that_is_interrupted_ends_as_pytest_does(warm: WarmProcess, world: Path, tmp_path: Path) -> None:
    folder = copy_of(world, tmp_path / "repository")
    ended = warm.run(PYTEST, folder, prelude=AT_AN_IMAGE)
    assert ended.code == PYTEST_INTERRUPTED, ended.output
    assert "KeyboardInterrupt" in ended.output
    require_whole(folder)


@pytest.mark.parametrize("touch", some([0, 5, 15, 25, 31], few=2))
def test_an_interrupt_at_any_file_leaves_nothing_by_halves(
    touch: int, warm: WarmProcess, world: Path, tmp_path: Path
) -> None:
    folder = copy_of(world, tmp_path / "repository")
    ended = warm.run([*CHECK, "--mlflow", "off"], folder, prelude=watch(tmp_path / "log", touch, signal.SIGINT))
    assert ended.code == (FAILED if "the verdict stands" in ended.output else INTERRUPTED), ended.output
    assert "interrupted" in ended.output
    assert "Traceback" not in ended.output
    require_whole(folder)
    assert warm.run([*CHECK, "--mlflow", "off"], folder).code == FAILED
