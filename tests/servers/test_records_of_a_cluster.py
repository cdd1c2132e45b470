"""One record, whoever scores: one process, sixteen jobs that are merged, Ray on two nodes, workers that are lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from forge import OWN_TOKEN
from gated_world import a_gated_world, but_for_times, copy_of
from local_runner import ACT, run_workflow
from scratch_git import scratch_git
from warm_python import warm_python

from fairgate.reports import read_results

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("two-nodes")]

SETS = 64
"""Of each of two subjects, with four members: 16 batches of 32 images."""
CHECK = ("check", "jobs", "--cache", "off", "--mlflow", "off", "--device", "cpu", "--base", "none", "--report")

FAIRGATE = f"{sys.executable} -P -m fairgate.interfaces.cli"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository, judged in `whole` by one process. Its verdict is `fail`."""
    root = a_gated_world(tmp_path_factory.mktemp("world") / "repository", SETS)
    assert judge(root, *CHECK, str(root.parent / "whole")).wait(300) == 1
    return root


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    pytest.importorskip("ray")
    cluster = Cluster(nodes=2)
    yield cluster
    cluster.close()


def judge(root: Path, *words: str, **environment: str) -> subprocess.Popen[bytes]:
    command = [warm_python(), "-P", "-m", "fairgate.interfaces.cli", *words]
    return subprocess.Popen(command, cwd=root, env={**os.environ, **environment})


def on(cluster: Cluster, world: Path, report: Path) -> subprocess.Popen[bytes]:
    return judge(world, *CHECK, str(report), "--engine", "ray", **cluster.environment, **OWN_TOKEN)


def require_equal(world: Path, report: Path) -> None:
    assert but_for_times(report / "results.json") == but_for_times(world.parent / "whole" / "results.json")


def scoring() -> list[int]:
    """Processes of the tests' Ray that score at this moment, as Ray titles them."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue
        if title.startswith(b"ray::_Worker.work") and OWN_TOKEN["RAY_AUTH_TOKEN"].encode() in environment:
            pids.append(int(folder.name))
    return pids


def wait_for(condition: Callable[[], bool], running: subprocess.Popen[bytes]) -> None:
    while not condition():
        assert running.poll() is None, "the run was over before"
        time.sleep(0.005)


def test_sixteen_jobs_that_are_merged_give_the_record_of_one(world: Path, tmp_path: Path) -> None:
    parts = [str(tmp_path / str(number)) for number in range(1, 17)]
    for number, part in enumerate(parts, start=1):
        assert judge(world, *CHECK, part, "--shard", f"{number}/16").wait(120) == 0
    own = [len(list(Path(part).rglob("parts/**/*.safetensors"))) for part in parts]
    assert all(own)
    merge = ("merge", *parts, "--mlflow", "off", "--base", "none", "--report", str(tmp_path / "merged"))
    assert judge(world, *merge).wait(120) == 1
    require_equal(world, tmp_path / "merged")


def test_workers_on_two_nodes_give_the_record_of_one_process(cluster: Cluster, world: Path, tmp_path: Path) -> None:
    assert on(cluster, world, tmp_path / "report").wait(300) == 1
    require_equal(world, tmp_path / "report")


def test_a_worker_that_is_killed_while_it_scores_is_replaced(cluster: Cluster, world: Path, tmp_path: Path) -> None:
    running = on(cluster, world, tmp_path / "report")
    wait_for(lambda: bool(scoring()), running)
    os.kill(scoring()[0], signal.SIGKILL)
    assert running.wait(300) == 1
    require_equal(world, tmp_path / "report")


def test_a_node_that_is_lost_while_it_scores_leaves_its_work_to_the_others(world: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    cluster = Cluster(nodes=2)
    try:
        running = on(cluster, world, tmp_path / "report")
        wait_for(lambda: len(scoring()) == 4, running)  # two on each node
        cluster.lose_a_node()
        assert running.wait(300) == 1
    finally:
        cluster.close()
    require_equal(world, tmp_path / "report")


MATRIX = """\
on: push
jobs:
  shard:
    runs-on: ubuntu-24.04
    strategy:
      matrix: {shard: [1, 2, 3, 4]}
    steps:
      - uses: actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd
      - run: fairgate check jobs --shard ${{ matrix.shard }}/4 OPTIONS --report "$RUNNER_TEMP"/part
      - uses: actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a
        with: {name: "part-${{ matrix.shard }}", path: "${{ runner.temp }}/part"}
  verdict:
    needs: shard
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd
      - uses: actions/download-artifact@37930b1c2abaa49bbe596cd826c3c89aef350131
        with: {path: "${{ runner.temp }}/parts"}
      - run: fairgate merge "$RUNNER_TEMP"/parts/* --mlflow off --base none --report "$RUNNER_TEMP"/report
      - if: always()
        uses: actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a
        with: {name: report, path: "${{ runner.temp }}/report"}
"""


@pytest.mark.skipif(not ACT.exists(), reason="act is not installed here")
def test_the_documented_matrix_of_jobs_and_its_merge_give_the_record_of_one(world: Path, tmp_path: Path) -> None:
    remote = copy_of(world, tmp_path / "remote")
    scratch_git(remote)
    text = MATRIX.replace("OPTIONS", " ".join(CHECK[2:-1]))
    text = text.replace("fairgate check", f"{FAIRGATE} check").replace("fairgate merge", f"{FAIRGATE} merge")
    done = run_workflow(text, "push", {"ref": "refs/heads/main"}, remote=remote, folder=tmp_path / "act")
    assert done.jobs == {"shard": "success", "verdict": "failure"}, done.log  # the checkpoint does not pass
    merged, whole = (
        read_results(folder / "results.json")
        for folder in (tmp_path / "act" / "artifacts" / "report", world.parent / "whole")
    )
    assert (merged.verdict, merged.checks, merged.scores_digest) == (whole.verdict, whole.checks, whole.scores_digest)
