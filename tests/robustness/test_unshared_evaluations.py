"""Workers of xdist are told of the one evaluation without a file: no disk stands in the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from full_disks import full, may_mount
from toy_repository import Toy
from warm_process import WarmProcess

pytestmark = pytest.mark.xdist_group("warm_process")

RUN = ("pytest", "--fairness-suite", "jobs", "--fairness-mlflow", "off", "-n", "1", "-p", "no:cacheprovider")


@pytest.mark.skipif(not may_mount(), reason="this user may not mount")
def test_a_full_folder_for_temporary_files_turns_no_verdict_of_a_spread_run(
    warm: WarmProcess, toy: Toy, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    environment = f"import os; os.environ['TMPDIR'] = {str(scratch)!r}\n"
    ended = warm.run(RUN, toy.root, prelude=environment + full(scratch, free=4096))
    assert ended.code == 0, ended.output
    assert "fairness suite jobs: pass" in ended.output
