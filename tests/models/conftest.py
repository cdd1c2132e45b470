"""Fixtures: pictures, a tiny model, an architecture that open_clip is told of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from model_world import TINY, Pictures, encoded, picture, save_local_dir

from fairgate.models import EmbeddingCache


@pytest.fixture
def pictures() -> Pictures:
    return Pictures([encoded(picture(seed)) for seed in range(10)])


@pytest.fixture
def cache(tmp_path: Path) -> EmbeddingCache:
    return EmbeddingCache(tmp_path / "cache")


@pytest.fixture(scope="session")
def tiny_model() -> Any:
    """A tiny open_clip model with seeded random weights."""
    import open_clip
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return open_clip.model.CLIP(**TINY).eval()


@pytest.fixture
def local_dir(tmp_path: Path, tiny_model: Any) -> Path:
    return save_local_dir(tmp_path / "tiny", tiny_model)


@pytest.fixture(scope="session")
def tiny_arch(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of the tiny architecture, added to open_clip."""
    import open_clip

    path = tmp_path_factory.mktemp("configs") / "fairgate-tiny.json"
    path.write_text(json.dumps(TINY))
    open_clip.add_model_config(path)
    return path.stem
