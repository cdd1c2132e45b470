"""Fixtures: servers on this machine, and a team that keeps its data in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from s3_servers import LOGIN
from travelling import Clone, a_team


@pytest.fixture(autouse=True, scope="package")
def _login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The login of the tests' S3, and nobody's configuration of DVC."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LOGIN.items():
            patch.setenv(name, value)
        patch.setenv("AWS_MAX_ATTEMPTS", "1")  # else DVC asks a server that is gone for two minutes
        patch.setenv("DVC_NO_ANALYTICS", "1")
        patch.setenv("DVC_GLOBAL_CONFIG_DIR", str(tmp_path_factory.getbasetemp() / "nothing"))
        yield


@pytest.fixture(scope="session")
def team(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The team's repository, which nobody changes: tests copy it."""
    return a_team(tmp_path_factory.mktemp("team") / "repository")
