"""A model URI opens what it names: no file of a branch passes for a published model, and none leaves the repository."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from toy_repository import SUITE, Toy
from trust_world import check, refused

from fairgate.ground.errors import ModelError
from fairgate.models import local_paths, open_scorer
from fairgate.models.checkpoints import hub_folder, judged_folder, judging, model_folder, named_files
from fairgate.models.generation.diffusion.files import PipelineAddress, find_pipeline
from fairgate.suites import leaves

COMMIT = "0123456789" * 4
ROOT = "FAIRGATE_ROOT_MODELS"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "work" / "repository"
    (root / ".git").mkdir(parents=True)
    return root


def put_into(cache: Path, name: str = "org/name") -> Path:
    """A published model in a cache, as far as it is looked at before its weights are read."""
    folder = cache / f"models--{name.replace('/', '--')}"
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    (folder / "snapshots" / COMMIT / "model.safetensors").write_bytes(b"x")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def refusal(address: str, base: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        judged_folder(address, base)
    return caught.value


@pytest.mark.parametrize("kind", ["file", "folder", "link to nothing"])
def test_a_file_that_is_called_as_a_tag_is_not_taken_for_the_published_checkpoint(repository: Path, kind: str) -> None:
    uri, there = "open_clip:ViT-B-32@openai", repository / "openai"
    if kind == "file":
        with zipfile.ZipFile(there, "w") as file:
            file.writestr("openai/data.pkl", b"")
    elif kind == "folder":
        there.mkdir()
    else:
        there.symlink_to(repository / "nowhere")
    with pytest.raises(ModelError, match="a published tag's name") as caught:
        open_scorer(uri, None, device="cpu", base=repository)  # type: ignore[arg-type] # it is refused before
    assert "@./openai" in str(caught.value.remedy)
    assert local_paths(uri) == ()
    assert local_paths("open_clip:ViT-B-32@./openai") == (Path("openai"),)


OPTIONS = {
    "classifier:m?labels={}": "file",
    "features:m?head={}": "file",
    "torchvision:resnet18@m.pt?labels={}": "file",
    "timm:m?labels={}": "file",
    "onnx:m.onnx?labels={}": "file",
    "onnx:m.onnx?data={}": "file",
    "onnx:m.onnx?text={}": "file",
    "onnx:m.onnx?text=t.onnx&text_data={}": "file",
    "onnx:m.onnx?processor={}": "folder",
    "hf:m?processor={}": "folder",
    "vlm:m?processor={}&question=Who?": "folder",
    "diffusion:m?vae={}": "folder",
    "diffusion:m?lora={}": "folder",
}


@pytest.mark.parametrize("uri", OPTIONS)
def test_an_option_names_the_file_that_is_opened(repository: Path, uri: str) -> None:
    (repository / "ok?").mkdir()
    (repository / "org").mkdir()
    (repository.parent / "secret").write_text("a\nb\n")
    linked = f"org/name@{COMMIT}"
    (repository / linked).symlink_to(repository.parent / "secret")

    def outside(said: str) -> bool:
        return any(leaves(path, repository) for path in local_paths(uri.format(said)))

    assert outside("ok%3F/../../secret")
    assert outside("../secret")
    assert not outside("ok%3F/labels.txt")
    assert outside(linked) == (OPTIONS[uri] == "file")  # of folders, the hub's: `judged_folder` refuses the link
    if OPTIONS[uri] == "folder":
        assert "and of a folder here" in refusal(linked, repository).problem


@pytest.mark.parametrize("option", ["ok%3F/../../secret", f"org/name@{COMMIT}"])
def test_a_suite_reads_no_labels_outside_of_the_repository(toy: Toy, option: str) -> None:
    (toy.root / "ok?").mkdir()
    (toy.root / "org").mkdir()
    (toy.root.parent / "secret").write_text("aws_key = AKIAEXAMPLE\nb\n")
    (toy.root / f"org/name@{COMMIT}").symlink_to(toy.root.parent / "secret")
    toy.write_suite(SUITE.replace("model: scores:tuned.csv?values=logit", f"model: classifier:m?labels={option}"))
    result = check(toy)
    assert "names a file outside of the repository" in refused(result)
    assert "AKIAEXAMPLE" not in result.output


def test_a_revision_is_read_in_the_cache_alone(repository: Path, cache: Path, tmp_path: Path) -> None:
    folder, token = put_into(cache), tmp_path / "token"
    token.write_text("deadbeef" * 5)
    os.mkfifo(tmp_path / "pipe")  # whoever reads it waits without end
    os.mkfifo(folder / "refs" / "pipe")
    (folder / "refs" / "linked").symlink_to(token)
    (folder / "refs" / "long").write_text("0" * 1000)
    for revision in (str(token), str(tmp_path / "pipe"), "/dev/zero", "pipe", "linked", "long", "../../../token"):
        with pytest.raises(ModelError, match="is no full commit") as caught:
            hub_folder("org/name", revision, repository)
        assert "deadbeef" not in f"{caught.value}{caught.value.remedy}", revision
        error = refusal(f"org/name@{revision}", repository)
        assert "deadbeef" not in f"{error}{error.remedy}", revision
    for revision in (str(tmp_path / "pipe"), "../../../../pipe"):
        with pytest.raises(ModelError):
            model_folder(f"org/name@{revision}", repository)
    with pytest.raises(ModelError, match="is no full commit") as caught:
        hub_folder("org/name", "main", repository)
    assert COMMIT in str(caught.value.remedy)


def test_a_cache_or_root_in_the_repository_is_refused_from_a_folder_of_it_and_for_a_copy(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    part, copy, inside = repository / "vision", tmp_path / "copy", repository / "models"
    for folder in (part, copy, inside / "clip"):
        folder.mkdir(parents=True)
    put_into(repository / "hub")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(repository / "hub"))
    monkeypatch.setenv(ROOT, str(inside))
    assert judged_folder(f"org/name@{COMMIT}", copy)  # a folder that has to do with no repository
    with judging(repository):
        for base in (repository, part, copy):
            assert "inside of the repository" in refusal(f"org/name@{COMMIT}", base).problem
            assert "lies in the repository" in refusal("@models/clip", base).problem
            with pytest.raises(ModelError, match="inside of the repository"):
                named_files("org/name", ["model.safetensors"], base, download=False)
            with pytest.raises(ModelError, match="inside of the repository"):  # before anything is downloaded
                open_scorer("open_clip:ViT-B-32@openai", None, device="cpu", base=base)  # type: ignore[arg-type]


def test_a_cache_next_to_the_repository_is_read(repository: Path, cache: Path) -> None:
    put_into(cache)
    assert judged_folder(f"org/name@{COMMIT}", repository).is_dir()


@pytest.mark.parametrize("address", ["@models/repository/evil", "@models/link", "@models", "@models/."])
def test_a_root_above_the_repository_gives_no_file_of_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    (repository / "evil").mkdir()
    (repository.parent / "shared").mkdir()
    (repository.parent / "link").symlink_to(repository / "evil")
    monkeypatch.setenv(ROOT, str(repository.parent))
    assert "under the root 'models' lies in the repository, or holds it" in refusal(address, repository).problem
    assert judged_folder("@models/shared", repository).name == "shared"


def test_a_link_out_of_the_folder_of_a_lora_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from fairgate.models.generation.diffusion import files

    lora = repository / "lora"
    lora.mkdir()
    save_file({"a": np.zeros(2, np.float32)}, tmp_path / "outside.safetensors")
    (repository / "sd" / "unet").mkdir(parents=True)
    (repository / "sd" / "unet" / "config.json").write_text("{}")
    (repository / "sd" / "model_index.json").write_text("{}")
    monkeypatch.setattr(files, "_known_parts", lambda *_: {})
    address = PipelineAddress("sd", lora="lora")
    weights = lora / "pytorch_lora_weights.safetensors"
    weights.symlink_to(tmp_path / "outside.safetensors")
    with pytest.raises(ModelError, match="leads outside"):
        find_pipeline(address, repository)
    weights.unlink()
    save_file({"a": np.zeros(2, np.float32)}, weights)
    assert find_pipeline(address, repository).files.paths["lora"] == weights
