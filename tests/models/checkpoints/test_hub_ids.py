"""A hub id names a model in the hub's cache, and nothing is downloaded."""

from __future__ import annotations

import shlex
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints.addresses import model_folder

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


def asked_for(command: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What huggingface_hub's own command line would download."""
    from huggingface_hub.cli import download, hf

    asked: dict[str, Any] = {}
    monkeypatch.setattr(download, "snapshot_download", lambda **options: asked.update(options) or "")
    with pytest.raises(SystemExit) as caught:
        hf.app(shlex.split(command)[1:])
    assert not caught.value.code
    return asked


def test_the_command_of_the_error_fetches_what_a_model_is_made_of_and_no_checkpoint_beside_it(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelError) as caught:
        model_folder("someone/else@v2", tmp_path)
    asked = asked_for(str(caught.value.remedy).split("`")[1], monkeypatch)
    assert (asked["repo_id"], asked["revision"], asked["ignore_patterns"]) == ("someone/else", "v2", None)

    def fetched(path: str) -> bool:
        return any(fnmatch(path, pattern) for pattern in asked["allow_patterns"])

    assert all(
        map(
            fetched,
            [
                *("model_index.json", "unet/config.json", "tokenizer/merges.txt", "spiece.model"),
                *("unet/diffusion_pytorch_model.safetensors", "unet/diffusion_pytorch_model.fp16.safetensors"),
                *("text_encoder/model.safetensors", "model-00001-of-00002.safetensors", "open_clip_model.safetensors"),
            ],
        )
    )
    left = ["v1-5-pruned.safetensors", "sd_xl_base_1.0.safetensors", "model.ckpt", "unet/diffusion_pytorch_model.bin"]
    assert not any(map(fetched, left))


def test_a_link_out_of_the_cached_repository_is_refused(cached: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("{}")
    (cached / "stolen.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(ModelError, match="leads outside"):
        model_folder("someone/tiny", tmp_path)


def test_a_copied_snapshot_is_a_folder_like_any(cached: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(cached, tmp_path / "copy")
    assert model_folder("copy", tmp_path) == copy
