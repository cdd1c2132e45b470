"""One MLflow server for all tests that need one: it takes 10 seconds and more to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mlflow_server import Server, mlflow_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Tests that ask for it belong to the xdist group `mlflow_server`, so that it is started once."""
    with mlflow_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="session")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One SQLite store, whose tables take seconds to make: tests tell their runs apart by the suite's name."""
    return f"sqlite:///{tmp_path_factory.mktemp('sqlite')}/fairgate.db"
