"""Fixtures: pictures, a tiny model, an architecture that open_clip is told of, and its tokenizer, read once."""

from __future__ import annotations

import pytest
from model_world import cache, local_dir, pictures, sessions_here, tiny_arch, tiny_model  # noqa: F401 - fixtures
from served_world import server  # noqa: F401 - a fixture
from warm_python import read_tokenizer_once


@pytest.fixture(autouse=True, scope="session")
def _tokenizer_read_once() -> None:
    read_tokenizer_once()
