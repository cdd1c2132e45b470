"""Fixtures that many tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_repository import Toy, toy_repository

pytest_plugins = ["pytester"]


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    """A repository with a passing suite `jobs`."""
    return toy_repository(tmp_path)
