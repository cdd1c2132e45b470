"""Workers of xdist that cannot share one evaluation make their own; the verdict and the table stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from full_disks import full, may_mount
from toy_repository import Toy
from warm_process import WarmProcess

from fairgate.interfaces.pytest_plugin.session import GateSession

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
    assert "the workers could not share one evaluation" in ended.output
    assert "No space left on device" in ended.output
    assert f"where:  {scratch}" in ended.output


def test_an_evaluation_that_breaks_is_tried_once_and_is_no_trouble_of_sharing(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def broken(_: GateSession, suite: str) -> None:
        tried.append(suite)
        raise OSError("the dataset's disk is gone")

    monkeypatch.setattr(GateSession, "_evaluate", broken)
    session = GateSession(request.config)
    session.shared = tmp_path
    with pytest.raises(OSError, match="disk is gone"):
        session.result("jobs", "fairness")
    assert tried == ["jobs"]
    assert session.unshared == {}


@pytest.mark.nightly
def test_a_folder_that_is_gone_turns_no_verdict_of_a_spread_run(warm: WarmProcess, toy: Toy, tmp_path: Path) -> None:
    (toy.root / "conftest.py").write_text(
        "import shutil\n"
        "def pytest_configure(config):\n"
        "    if hasattr(config, 'workerinput'):\n"
        "        shutil.rmtree(config.workerinput['fairgate_shared'])\n"
        "        open(config.workerinput['fairgate_shared'], 'w').close()\n"
    )
    ended = warm.run(RUN, toy.root)
    assert ended.code == 0, ended.output
    assert "fairness suite jobs: pass" in ended.output
    assert ended.output.count("the workers could not share one evaluation") == 1
