"""One content, whoever makes it: both engines, any number of workers, workers that are lost, interrupted runs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from cluster import Cluster
from forge import Forge
from nightly import some

pytestmark = pytest.mark.xdist_group("ray")

RAY = ["build", "toys", "--engine", "ray", "--workers"]


@pytest.mark.parametrize("workers", some(["2", "1", "4"], few=1))
def test_ray_with_any_number_of_workers_builds_what_the_local_engine_builds(
    workers: str, forge: Forge, cluster: Cluster, folder: Path, undisturbed: str
) -> None:
    ended = forge.run([*RAY, workers], folder, environment=cluster.environment)
    assert ended.code == 0, ended.output
    assert ended.fingerprint == undisturbed


def test_threads_of_the_local_engine_build_the_same(forge: Forge, folder: Path, undisturbed: str) -> None:
    ended = forge.run(["build", "toys", "--workers", "3"], folder)
    assert ended.fingerprint == undisturbed


def test_one_engine_goes_on_where_another_was_ended(
    forge: Forge, cluster: Cluster, folder: Path, undisturbed: str
) -> None:
    assert forge.run(["build", "toys", "--subject", "baker"], folder).code == 0
    ended = forge.run([*RAY, "1"], folder, environment=cluster.environment)
    assert ended.fingerprint == undisturbed
    assert "baker pool: 10 shards (10 found)" in ended.output


def with_fault(folder: Path, fault: str) -> Path:
    """The toy with something wrong in its steps; the folder where killed workers leave marks."""
    marks = folder / "marks"
    marks.mkdir()
    text = f"builds:\n  toys: {{recipe: toy, fault: {fault}, marks: {marks}}}\n"
    (folder / "params.yaml").write_text(text)
    return marks


@pytest.mark.nightly
def test_workers_that_are_killed_are_replaced_and_their_work_is_done_again(
    forge: Forge, cluster: Cluster, folder: Path, undisturbed: str
) -> None:
    marks = with_fault(folder, "killed once")
    ended = forge.run([*RAY, "2"], folder, environment=cluster.environment)
    assert ended.code == 0, ended.output
    assert len(list(marks.iterdir())) == 4
    assert ended.fingerprint == undisturbed


@pytest.mark.nightly
def test_work_that_kills_every_worker_is_given_up_with_a_remedy_and_can_be_gone_on_with(
    forge: Forge, cluster: Cluster, folder: Path, undisturbed: str
) -> None:
    assert forge.run(["build", "toys", "--subject", "baker"], folder).code == 0
    marks = with_fault(folder, "killed always")
    ended = forge.run([*RAY, "1"], folder, environment=cluster.environment)
    assert ended.code == 4
    assert "3 workers were lost at the same piece of work (shard 0 of car mechanic, part 'pool')" in ended.output
    assert "remedy: see Ray's logs" in ended.output
    assert len(list(marks.iterdir())) == 3
    (folder / "params.yaml").write_text("builds:\n  toys: {recipe: toy}\n")
    again = forge.run(["build", "toys"], folder)
    assert "baker pool: 10 shards (10 found)" in again.output
    assert again.fingerprint == undisturbed


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_an_error_of_the_work_reaches_the_one_who_builds_with_its_remedy(
    engine: str, forge: Forge, cluster: Cluster, folder: Path
) -> None:
    with_fault(folder, "refused")
    ended = forge.run(["build", "toys", "--engine", engine], folder, environment=cluster.environment)
    assert ended.code == 4
    assert "the toy's model is not there.\n  where:  toy:model\n  remedy: make one" in ended.output
    assert "Traceback" not in ended.output


def test_a_defect_in_the_work_keeps_its_traceback(forge: Forge, cluster: Cluster, folder: Path) -> None:
    with_fault(folder, "broken")
    ended = forge.run([*RAY, "1"], folder, environment=cluster.environment)
    assert ended.code == 1
    assert "ZeroDivisionError: a defect of the toy" in ended.output
    assert "_fail" in ended.output  # the line in the worker


@pytest.mark.parametrize(
    "engine", some([["local"], ["local", "--workers", "3"], ["ray", "--workers", "2"]], few=1), ids=" ".join
)
def test_a_build_that_is_interrupted_says_so_and_goes_on_where_it_was(
    engine: list[str], forge: Forge, cluster: Cluster, folder: Path, undisturbed: str
) -> None:
    running = forge.start(["build", "slow", "--engine", *engine], folder, environment=cluster.environment)
    first = folder / "build" / "slow" / "baker" / "pool" / "shard-00001.json"
    while not first.exists():
        time.sleep(0.01)
    running.send(signal.SIGINT)
    ended = running.wait()
    assert ended.code == 130, ended.output
    assert "interrupted: nothing was concluded" in ended.output
    again = forge.run(["build", "slow"], folder)
    assert "found)" in again.output
    assert again.fingerprint == undisturbed


@pytest.mark.nightly
def test_without_an_address_ray_is_started_and_ended_on_this_machine(
    forge: Forge, folder: Path, undisturbed: str
) -> None:
    here = Path(__file__).parent  # its workers are processes of their own, which import the toy's recipe
    ended = forge.run([*RAY, "2"], folder, environment={"PYTHONPATH": f"{here}{os.pathsep}{here.parent}"})
    assert ended.code == 0, ended.output
    assert ended.fingerprint == undisturbed


def test_a_cluster_that_is_not_there_is_said_with_what_to_do(forge: Forge, folder: Path) -> None:
    ended = forge.run([*RAY, "1"], folder, environment={"RAY_ADDRESS": "127.0.0.1:1"})
    assert ended.code == 4
    assert "Ray cannot be reached" in ended.output
    assert "where:  RAY_ADDRESS=127.0.0.1:1" in ended.output
