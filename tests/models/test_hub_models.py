"""A model of the hub is judged by its full commit, from the hub's cache, and nothing is downloaded."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from classifier_world import save_classifier
from hf_world import save_folder
from hub_cache import COMMIT, put_into_cache
from model_world import PROMPTS, Pictures
from peft_world import save_adapter

from fairgate.ground.errors import ModelError
from fairgate.models import local_paths, open_scorer, published_models, uri_options

OTHER = "89abcdef" * 5
ID = f"someone/tiny@{COMMIT}"
URIS = [
    "hf:{id}",
    "classifier:{id}",
    "timm:{id}",
    "detector:{id}",
    "features:{id}?head=head.safetensors",
    "vlm:{id}?question=Who?",
    "captions:{id}?question=Who?&captioner=vlm:{id}?prompt=a photo of",
    "peft:{id}?base=hf:{id}",
    "diffusion:{id}?vae={id}&lora={id}",
    "open_clip:{id}",
]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder("clip", tmp_path_factory.mktemp("hub") / "clip")


def opened(uri: str, pictures: Pictures, base: Path) -> Any:
    return open_scorer(uri, pictures, device="cpu", base=base)


def refused(uri: str, pictures: Pictures, base: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        opened(uri, pictures, base)
    return caught.value


def test_a_commit_in_the_cache_is_the_model_that_its_folder_is(
    hub: Path, clip: Path, pictures: Pictures, tmp_path: Path
) -> None:
    put_into_cache(hub, "someone/tiny", clip)
    one, other = opened(f"hf:{ID}", pictures, tmp_path), opened(f"hf:{clip}", pictures, tmp_path)
    assert one.fingerprint == other.fingerprint
    np.testing.assert_array_equal(one.log_probabilities(PROMPTS), other.log_probabilities(PROMPTS))


def test_a_model_of_open_clip_is_named_with_its_commit(
    hub: Path, local_dir: Path, pictures: Pictures, tmp_path: Path
) -> None:
    put_into_cache(hub, "someone/tiny", local_dir)
    folder = opened(f"open_clip:local-dir:{local_dir}", pictures, tmp_path)
    for uri in (f"open_clip:{ID}", f"open_clip:hf-hub:{ID}"):
        assert opened(uri, pictures, tmp_path).fingerprint == folder.fingerprint
        error = refused(uri.removesuffix(f"@{COMMIT}"), pictures, tmp_path)
        assert f"a model of the hub is named with its commit: {ID}" in str(error.remedy)
    error = refused(f"open_clip:hf-hub:someone/tiny?revision={COMMIT}", pictures, tmp_path)
    assert "an option that is unknown or empty: 'revision'" in error.problem
    assert error.remedy == "options: none, leave it out"


def test_an_adapter_and_its_base_are_each_a_commit(hub: Path, pictures: Pictures, tmp_path: Path) -> None:
    from transformers import AutoModelForImageClassification

    folder = save_classifier("vit", tmp_path / "vit")
    base = AutoModelForImageClassification.from_pretrained(folder)
    save_adapter(base, tmp_path / "adapter", r=2, target_modules=["q_proj", "query"])
    put_into_cache(hub, "someone/tiny", folder)
    put_into_cache(hub, "someone/lora", tmp_path / "adapter", OTHER)
    there = opened(f"peft:someone/lora@{OTHER}?base=classifier:{ID}", pictures, tmp_path)
    assert there.fingerprint == opened(f"peft:adapter?base=classifier:{folder}", pictures, tmp_path).fingerprint
    assert there.fingerprint != opened(f"classifier:{ID}", pictures, tmp_path).fingerprint


@pytest.mark.parametrize("uri", URIS)
def test_every_family_says_how_to_fetch_a_commit_that_is_not_there(
    uri: str, hub: Path, pictures: Pictures, tmp_path: Path
) -> None:
    error = refused(uri.format(id=ID), pictures, tmp_path)
    assert "nothing is downloaded" in error.problem
    assert f"`hf download someone/tiny --revision {COMMIT} " in str(error.remedy)
    assert "dvc" not in str(error.remedy)


@pytest.mark.parametrize("uri", URIS)
def test_a_commit_is_no_file_of_the_repository(uri: str) -> None:
    named = uri.format(id=ID)
    assert [path.as_posix() for path in local_paths(named)] == (["head.safetensors"] if "head.s" in uri else [])
    assert published_models(named)
    assert published_models(named) != published_models(named.replace(COMMIT, OTHER))
    assert uri_options(f"open_clip:{ID}") == ""


@pytest.mark.parametrize("uri", ["hf:someone/tiny@{}", "open_clip:someone/tiny@{}", "diffusion:someone/tiny@{}"])
@pytest.mark.parametrize("revision", ["main", COMMIT[:7], "refs/pr/9", "../../main", "refs//etc"])
def test_what_can_move_is_refused_and_the_commit_named_if_the_cache_knows_it(
    revision: str, uri: str, hub: Path, local_dir: Path, pictures: Pictures, tmp_path: Path
) -> None:
    put_into_cache(hub, "someone/tiny", local_dir)
    error = refused(uri.format(revision), pictures, tmp_path)
    assert "is no full commit" in error.problem
    known = revision == "main"
    assert (COMMIT in str(error.remedy)) == known
    assert ("git ls-remote" in str(error.remedy)) == (not known)


def test_a_name_without_a_commit_is_a_folder_and_its_commit_is_told(
    hub: Path, clip: Path, pictures: Pictures, tmp_path: Path
) -> None:
    remedy = str(refused("hf:someone/tiny", pictures, tmp_path).remedy)
    assert "check the path" in remedy
    assert "someone/tiny@COMMIT" in remedy
    put_into_cache(hub, "someone/tiny", clip)
    assert ID in str(refused("hf:someone/tiny", pictures, tmp_path).remedy)


def test_a_mistyped_folder_is_no_model_of_the_hub(hub: Path, pictures: Pictures, tmp_path: Path) -> None:
    (tmp_path / "models" / "clip").mkdir(parents=True)
    assert str(refused("hf:models/clpi", pictures, tmp_path).remedy) == "did you mean 'clip'?"


def test_a_folder_of_a_commits_name_is_refused(hub: Path, clip: Path, pictures: Pictures, tmp_path: Path) -> None:
    put_into_cache(hub, "someone/tiny", clip)
    shutil.copytree(clip, tmp_path / ID)
    assert "a folder here" in refused(f"hf:{ID}", pictures, tmp_path).problem


def test_a_cache_inside_of_the_repository_is_refused(hub: Path, clip: Path, pictures: Pictures, tmp_path: Path) -> None:
    put_into_cache(hub, "someone/tiny", clip)
    (tmp_path / ".git").mkdir()
    error = refused(f"hf:{ID}", pictures, tmp_path)
    assert "inside of the repository" in error.problem
    assert "HF_HOME" in str(error.remedy)


def test_a_link_out_of_the_cached_model_is_refused(hub: Path, clip: Path, pictures: Pictures, tmp_path: Path) -> None:
    weights = put_into_cache(hub, "someone/tiny", clip) / "model.safetensors"
    weights.unlink()
    weights.symlink_to(clip / "model.safetensors")
    assert "leads outside" in refused(f"hf:{ID}", pictures, tmp_path).problem


def test_a_model_that_was_fetched_in_part_is_to_be_fetched_whole(
    hub: Path, clip: Path, pictures: Pictures, tmp_path: Path
) -> None:
    (put_into_cache(hub, "someone/tiny", clip) / "model.safetensors").unlink()
    error = refused(f"hf:{ID}", pictures, tmp_path)
    assert "without weights" in error.problem
    assert "hf download someone/tiny" in str(error.remedy)


def test_another_blob_under_the_same_commit_is_another_fingerprint(
    hub: Path, clip: Path, pictures: Pictures, tmp_path: Path
) -> None:
    """The name in a URI is a claim: what was read is hashed."""
    from safetensors.torch import load_file, save_file

    snapshot = put_into_cache(hub, "someone/tiny", clip)
    before = opened(f"hf:{ID}", pictures, tmp_path).fingerprint
    blob = (snapshot / "model.safetensors").resolve()
    state = load_file(blob)
    save_file({name: value + 1 for name, value in state.items()}, blob, metadata={"format": "pt"})
    assert opened(f"hf:{ID}", pictures, tmp_path).fingerprint != before
