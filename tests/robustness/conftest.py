"""Fixtures: a warm process that forks gate runs, and a repository for them to judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gated_world import a_gated_world, copy_of
from warm_process import WarmProcess

from fairgate.tracking.store_session import session


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmProcess]:
    process = WarmProcess(tmp_path_factory.mktemp("warm"))
    yield process
    process.close()


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository where nothing ran yet, and that nobody may change: tests take copies."""
    return a_gated_world(tmp_path_factory.mktemp("worlds") / "bare")


@pytest.fixture(scope="session")
def world(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with an MLflow store in which no run is: its tables take longer to make than a run takes."""
    folder = copy_of(bare, tmp_path_factory.mktemp("worlds") / "world")
    with session(f"sqlite:///{folder}/fairgate.db") as client:
        assert not client.search_runs(["0"])
    return folder
