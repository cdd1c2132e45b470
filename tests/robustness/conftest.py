"""Fixtures: a warm process that forks gate runs, and a repository for them to judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gated_world import a_gated_world
from warm_process import WarmProcess


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmProcess]:
    process = WarmProcess(tmp_path_factory.mktemp("warm"))
    yield process
    process.close()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that nobody may change: tests take copies."""
    return a_gated_world(tmp_path_factory.mktemp("worlds") / "world")
