"""Fixtures: pictures, a tiny model, an architecture that open_clip is told of."""

from __future__ import annotations

import functools
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


@pytest.fixture(scope="session")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tiny pipeline of every class of diffusers that fairgate runs, saved in its on-disk format. Read only."""
    from diffusion_world import KINDS, build

    folder = tmp_path_factory.mktemp("diffusion")
    for kind in KINDS:
        build(kind).save_pretrained(folder / kind)
    return {kind: folder / kind for kind in KINDS}


@pytest.fixture(scope="session")
def stock(pipelines: dict[str, Path]) -> Any:
    """diffusers' own pipelines: `stock(kind, class name)`."""
    from diffusion_world import Stock

    return Stock(pipelines)


@pytest.fixture(scope="session")
def tiny(pipelines: dict[str, Path]) -> Any:
    """The adapter on a tiny pipeline, opened once: `tiny(role, kind)`, with options as in a URI."""
    from fairgate.models.making import open_model

    folder = pipelines["sd1"].parent
    return functools.cache(lambda role, kind: open_model(role, f"hf:{folder}/{kind.replace('=', f'={folder}/')}"))


@pytest.fixture(scope="session")
def perceivers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tiny models that judge pictures, by kind."""
    from perceiver_world import KINDS, save_perceiver

    home = tmp_path_factory.mktemp("perceivers")
    return {kind: save_perceiver(kind, home / kind) for kind in KINDS}
