"""Fixtures: a forge of builds, one Ray for a file's tests, and a folder where the toy is to be built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from forge import Forge

PARAMS = """
builds:
  toys: {recipe: toy}
  slow: {recipe: toy, seconds: 0.01}
"""


@pytest.fixture(scope="session")
def forge() -> Iterator[Forge]:
    forge = Forge()
    yield forge
    forge.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Ended after the file's last test: Ray's own processes take 4% of a core while they wait."""
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def toy_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy among the recipes of this process."""
    from toy_recipe import Toy

    from fairgate.builds.recipes.registry import RECIPES

    monkeypatch.setitem(RECIPES._found, "toy", Toy)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a params.yaml."""
    (tmp_path / "params.yaml").write_text(PARAMS)
    return tmp_path


@pytest.fixture(scope="session")
def undisturbed(forge: Forge, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The fingerprint of a build that nobody disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "params.yaml").write_text(PARAMS)
    ended = forge.run(["build", "toys"], folder)
    assert ended.code == 0, ended.output
    return ended.fingerprint
