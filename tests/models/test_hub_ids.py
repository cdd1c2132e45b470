"""A hub id names a model in the hub's cache, and nothing is downloaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fairgate.errors import ModelError
from fairgate.models.hub import model_folder

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in a cache as huggingface_hub lays it out: snapshots of links to blobs."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    repository = tmp_path / "hub" / "models--someone--tiny"
    snapshot = repository / "snapshots" / REVISION
    (snapshot / "unet").mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION)
    (repository / "blobs" / "aa").write_text("{}")
    (snapshot / "unet" / "config.json").symlink_to("../../../blobs/aa")
    return snapshot


def test_a_hub_id_is_its_snapshot_in_the_cache(cached: Path, tmp_path: Path) -> None:
    assert model_folder("someone/tiny", tmp_path) == cached
    assert model_folder("someone/tiny@main", tmp_path) == cached
    assert model_folder(f"someone/tiny@{REVISION}", tmp_path) == cached


def test_a_folder_of_the_same_name_wins(cached: Path, tmp_path: Path) -> None:
    (tmp_path / "someone" / "tiny").mkdir(parents=True)
    assert model_folder("someone/tiny", tmp_path) == tmp_path / "someone" / "tiny"


@pytest.mark.parametrize("address", ["someone/else", "someone/tiny@v2"])
def test_what_is_not_in_the_cache_is_an_error_that_says_how_to_fetch_it(
    address: str, cached: Path, tmp_path: Path
) -> None:
    name, _, revision = address.partition("@")
    with pytest.raises(ModelError, match="nor a model in the hub's cache") as caught:
        model_folder(address, tmp_path)
    assert f"hf download {name} {'--revision v2 ' if revision else ''}" in str(caught.value.remedy)


def test_a_link_out_of_the_cached_repository_is_refused(cached: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("{}")
    (cached / "stolen.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(ModelError, match="leads outside"):
        model_folder("someone/tiny", tmp_path)


def test_a_copied_snapshot_is_a_folder_like_any(cached: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(cached, tmp_path / "copy")
    assert model_folder("copy", tmp_path) == copy
