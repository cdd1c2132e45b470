"""Published datasets in small: drawn pictures in the layouts of the originals, and servers on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_originals import Server

from fairgate.data import Dataset, open_dataset
from fairgate.data.published import Obtained, get_published


@pytest.fixture
def server() -> Iterator[Server]:
    """A web server on this machine."""
    one = Server()
    yield one
    one.close()


@pytest.fixture
def hub(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server as the hub that huggingface_hub asks (HF_ENDPOINT, which it reads when it is imported)."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.address + "/{repo_id}/resolve/{revision}/{filename}"
    )
    return server


@pytest.fixture
def take(tmp_path: Path) -> Callable[..., Obtained]:
    """`get_published` into a root of this test."""

    def take(name: str, folder: Path | None = None, **options: Any) -> Obtained:
        return get_published(name, tmp_path / "cache", folder=folder, root=tmp_path / "datasets", **options)

    return take


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[str], Dataset]:
    """A release of this test's root."""
    return lambda name: open_dataset(name, tmp_path / "datasets")
