"""A build that is killed (SIGKILL) at any moment is gone on with, and the dataset is the one nobody disturbed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from cluster import Cluster
from forge import Forge, deadly_touch
from forking_python import Ended
from nightly import some

from fairgate.data import read_dataset

SEED = 5
ATTEMPTS = 8  # a moment that was drawn late may come after the end, on a machine that was just faster


@dataclass(frozen=True)
class Undisturbed:
    """A build's length, how often it touches a file, and what it makes."""

    seconds: float
    touched: int
    fingerprint: str


@pytest.fixture(scope="session")
def whole_run(forge: Forge, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = a_folder(tmp_path_factory.mktemp("whole") / "run")
    log = folder / "touches"
    ended = forge.run(["build", "slow"], folder, prelude=deadly_touch(log))
    assert ended.code == 0, ended.output
    return Undisturbed(ended.seconds, int(log.read_text()), ended.fingerprint)


def a_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "params.yaml").write_text("builds:\n  slow: {recipe: toy, seconds: 0.002}\n")
    return folder


def require_finished(ended: Ended, folder: Path, fingerprint: str) -> None:
    """The dataset is the expected one, whole, and nothing of the killed runs lies about."""
    assert ended.code == 0, ended.output
    assert ended.fingerprint == fingerprint
    build = folder / "build" / "slow"
    assert read_dataset(build / "dataset").verify() == []
    left = [path.name for path in build.rglob("*") if "draft" in path.name or "partial" in path.name]
    assert left == []
    assert {path.name for path in build.iterdir() if path.name.startswith(".")} == {".locks"}


@pytest.mark.xdist_group("killed-builds")
@pytest.mark.faults
@pytest.mark.parametrize("number", some(range(22)))
def test_a_killed_local_build_goes_on_and_makes_the_same(
    number: int, whole_run: Undisturbed, forge: Forge, tmp_path: Path
) -> None:
    draw = random.Random(f"{SEED}/local/{number}")
    for attempt in range(ATTEMPTS):
        folder = a_folder(tmp_path / f"{attempt}")
        if number % 2:
            deadly = draw.randrange(whole_run.touched)
            print(f"seed {SEED}: killed at file {deadly} of {whole_run.touched}")
            ended = forge.run(["build", "slow"], folder, prelude=deadly_touch(folder / "log", deadly))
        else:
            seconds = draw.uniform(0, whole_run.seconds) * (1 - attempt / ATTEMPTS)
            print(f"seed {SEED}: killed after {seconds:.3f} of {whole_run.seconds:.3f} s")
            running = forge.start(["build", "slow"], folder)
            running.send_after(seconds)
            ended = running.wait()
        if ended.killed:
            break
    else:
        pytest.fail(f"{ATTEMPTS} builds in a row ended before they could be killed")
    require_finished(forge.run(["build", "slow"], folder), folder, whole_run.fingerprint)


@pytest.mark.xdist_group("ray")
@pytest.mark.faults
@pytest.mark.parametrize("chain", some(range(4), few=1))
@pytest.mark.nightly
def test_a_ray_build_that_is_killed_twice_goes_on_and_makes_the_same(
    chain: int, whole_run: Undisturbed, forge: Forge, cluster: Cluster, tmp_path: Path
) -> None:
    draw = random.Random(f"{SEED}/ray/{chain}")
    folder = a_folder(tmp_path / "build-it")
    words = ["build", "slow", "--engine", "ray", "--workers", "2"]
    for deadly in sorted(draw.sample(range(whole_run.touched * 3 // 4), 2)):
        # the second run touches fewer files before it is where the first was killed
        print(f"seed {SEED}: killed at file {deadly} of {whole_run.touched}")
        log = folder / "log"
        ended = forge.run(words, folder, prelude=deadly_touch(log, deadly), environment=cluster.environment)
        assert ended.killed, ended.output
    ended = forge.run(words, folder, environment=cluster.environment)
    require_finished(ended, folder, whole_run.fingerprint)
