"""Fixtures: tiny pipelines of diffusers, stock and ours, and tiny models that judge pictures."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from model_world import local_dir, pictures, tiny_model  # noqa: F401 - fixtures


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
    from fairgate.models.generation import open_model

    folder = pipelines["sd1"].parent
    return functools.cache(lambda role, kind: open_model(role, f"hf:{folder}/{kind.replace('=', f'={folder}/')}"))


@pytest.fixture(scope="session")
def perceivers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tiny models that judge pictures, by kind."""
    from perceiver_world import KINDS, save_perceiver

    home = tmp_path_factory.mktemp("perceivers")
    return {kind: save_perceiver(kind, home / kind) for kind in KINDS}
