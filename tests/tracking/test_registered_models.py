"""Which checkpoint a registered version holds; everything that is not exactly one is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from fairgate.ground.errors import ModelError, TrackingError
from fairgate.tracking import fetch_model, tag_model_version
from fairgate.tracking.registry import checkpoint_uri
from fairgate.tracking.store_session import session

KEY = b"a key of this machine"


def make(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".safetensors":
            save_file({"w": np.zeros(2, dtype=np.float32)}, path)
        else:
            path.write_text(json.dumps({}))
    return folder


@pytest.mark.parametrize(
    ("names", "uri"),
    [
        (["open_clip_config.json", "open_clip_model.safetensors"], "open_clip:local-dir:{}"),
        (["config.json", "model.safetensors", "tokenizer.json"], "hf:{}"),
        (["MLmodel", "python_model.pkl", "files/open_clip_config.json"], "open_clip:local-dir:{}/files"),
        (["MLmodel", "model/config.json", "model/model.safetensors", "components/x/config.json"], "hf:{}/model"),
        (["open_clip_config.json", "config.json", "model.safetensors"], "open_clip:local-dir:{}"),
    ],
)
def test_the_one_checkpoint_of_a_folder_is_found(names: list[str], uri: str, tmp_path: Path) -> None:
    assert checkpoint_uri(make(tmp_path, *names)) == uri.format(tmp_path)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["MLmodel", "data/model.pth"], r"no checkpoint.*MLmodel, data/model\.pth\. Pickled files can run code"),
        (["a/open_clip_config.json", "b/open_clip_config.json"], r"2 checkpoints.*a/open_clip_config\.json, b/open"),
        (["one.safetensors", "two.safetensors"], "2 checkpoints"),
        (["config.json", "model.safetensors", "ema/late.safetensors"], "2 checkpoints"),
        (["open_clip_config.json", "open_clip_pytorch_model.bin"], r"pickled weights: open_clip_pytorch_model\.bin"),
        (["config.json", "model.safetensors", "pytorch_model.bin"], "pickled weights"),
        ([f"{number:02d}.txt" for number in range(20)], r"00\.txt.*11\.txt and 8 more"),
    ],
)
def test_a_folder_that_is_not_one_checkpoint_is_refused_with_what_is_in_it(
    names: list[str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=said) as raised:
        checkpoint_uri(make(tmp_path, *names))
    assert "safetensors" in (raised.value.remedy or "")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="it is empty"):
        checkpoint_uri(tmp_path)


def test_bare_weights_need_an_architecture(tmp_path: Path) -> None:
    make(tmp_path, "weights.safetensors")
    assert checkpoint_uri(tmp_path, "ViT-B-32") == f"open_clip:ViT-B-32@{tmp_path}/weights.safetensors"
    for missing in (None, "", "ViT-B-32@openai"):
        with pytest.raises(ModelError, match="bare weights") as raised:
            checkpoint_uri(tmp_path, missing)
        assert "fairgate.architecture" in (raised.value.remedy or "")


def test_links_are_refused(tmp_path: Path) -> None:
    folder = make(tmp_path / "model", "config.json", "model.safetensors")
    (folder / "tokenizer.json").symlink_to(folder / "config.json")
    with pytest.raises(ModelError, match="holds a link"):
        checkpoint_uri(folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to("/etc/hostname")
    with pytest.raises(ModelError, match="leads outside"):
        checkpoint_uri(folder)


def register(uri: str, name: str, source: Path | str, **tags: str) -> None:
    with session(uri) as client:
        client.create_registered_model(name)
        client.create_model_version(name, str(source), tags=tags)


def test_one_file_can_be_a_version_and_its_tag_names_the_architecture(uri: str, tmp_path: Path) -> None:
    source = make(tmp_path, "w.safetensors") / "w.safetensors"
    register(uri, "file", source, **{"fairgate.architecture": "ViT-B-32"})
    found = fetch_model("file/1", uri, tmp_path / "models", KEY)
    assert found.local_uri.startswith("open_clip:ViT-B-32@")
    assert Path(found.local_uri.partition("@")[2]).read_bytes() == source.read_bytes()


def test_what_transformers_logs_apart_is_laid_together(uri: str, tmp_path: Path) -> None:
    names = ["tokenizer/tokenizer.json", "image_processor/preprocessor_config.json", "image_processor/code.py"]
    source = make(
        tmp_path / "source",
        "MLmodel",
        "model/config.json",
        "model/model.safetensors",
        *(f"components/{n}" for n in names),
    )
    register(uri, "apart", source)
    home = Path(fetch_model("apart/1", uri, tmp_path / "models", KEY).local_uri.removeprefix("hf:"))
    found = sorted(path.name for path in home.iterdir())
    assert found == ["config.json", "model.safetensors", "preprocessor_config.json", "tokenizer.json"]


def test_the_tag_of_the_model_serves_all_its_versions(uri: str, tmp_path: Path) -> None:
    register(uri, "all", make(tmp_path, "w.safetensors"))
    with session(uri) as client:
        client.set_registered_model_tag("all", "fairgate.architecture", "RN50")
    assert fetch_model("all/1", uri, tmp_path / "models", KEY).local_uri.startswith("open_clip:RN50@")


def test_a_version_whose_link_leads_out_is_not_copied(uri: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "source", "config.json", "model.safetensors")
    (folder / "tokenizer.json").symlink_to("/etc/hostname")
    register(uri, "link", folder)
    with pytest.raises(ModelError, match="leads outside"):
        fetch_model("link/1", uri, tmp_path / "models", KEY)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_version_can_point_to_another_and_to_a_model_that_a_run_logged(uri: str, tmp_path: Path) -> None:
    source = make(tmp_path / "source", "open_clip_config.json", "open_clip_model.safetensors")
    with session(uri) as client:
        experiment = client.create_experiment("trained")
        run_id = client.create_run(experiment).info.run_id
        logged = client.create_logged_model(experiment, name="net", source_run_id=run_id)
        client.log_model_artifacts(logged.model_id, str(source))
        client.finalize_logged_model(logged.model_id, "READY")
    register(uri, "by_run", f"runs:/{run_id}/net")
    register(uri, "by_version", "models:/by_run/1")
    for name in ("by_run", "by_version"):
        found = Path(
            fetch_model(f"{name}/1", uri, tmp_path / "models", KEY).local_uri.removeprefix("open_clip:local-dir:")
        )
        assert sorted(path.name for path in found.iterdir()) == ["open_clip_config.json", "open_clip_model.safetensors"]


def test_of_two_jobs_that_fetch_a_version_at_once_both_get_it(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(uri, "crowd", make(tmp_path / "source", "config.json", "model.safetensors"))
    found = fetch_model("crowd/1", uri, tmp_path / "models", KEY)
    real = Path.is_dir
    kept = Path(found.local_uri.removeprefix("hf:"))
    answers = iter([False])
    monkeypatch.setattr(Path, "is_dir", lambda self: next(answers, True) if self == kept else real(self))
    assert fetch_model("crowd/1", uri, tmp_path / "models", KEY) == found
    assert next(answers, None) is None


def test_files_that_were_changed_or_put_there_by_a_job_without_the_key_are_downloaded_again(
    uri: str, tmp_path: Path
) -> None:
    register(uri, "changed", make(tmp_path / "source", "config.json", "model.safetensors"))
    found = fetch_model("changed/1", uri, tmp_path / "models", KEY)
    weights = Path(found.local_uri.removeprefix("hf:")) / "model.safetensors"
    honest = weights.read_bytes()
    for planted in (b"another checkpoint", honest + b" "):
        weights.write_bytes(planted)
        assert fetch_model("changed/1", uri, tmp_path / "models", KEY) == found
        assert weights.read_bytes() == honest
    other = fetch_model("changed/1", uri, tmp_path / "models", b"the key of another job")
    assert other.local_uri != found.local_uri


@pytest.mark.parametrize("source", ["{}/gone", "runs:/0123456789abcdef/checkpoint"])
def test_a_version_whose_files_are_gone_is_said(source: str, uri: str, tmp_path: Path) -> None:
    name = f"gone-{len(source)}"
    register(uri, name, source.format(tmp_path))
    with pytest.raises(ModelError, match="files of the registered model could not be downloaded") as raised:
        fetch_model(f"{name}/1", uri, tmp_path / "models", KEY)
    assert raised.value.where == source.format(tmp_path)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_refused_version_is_refused_again_without_a_second_download(uri: str, tmp_path: Path) -> None:
    register(uri, "pickled", make(tmp_path / "source", "MLmodel", "model.pkl"))
    for _ in range(2):
        with pytest.raises(ModelError, match=r"no checkpoint.*model\.pkl"):
            fetch_model("pickled/1", uri, tmp_path / "models", KEY)
    assert len(list((tmp_path / "models").glob("pickled-*"))) == 1


@pytest.mark.parametrize(
    "asked", ["clip", "clip/", "/1", "clip/latest", "clip@", "@best", "a/b/1", "clip/1@best", "x:y/1"]
)
def test_what_names_no_version_is_refused(asked: str, uri: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a version of a registered model") as raised:
        fetch_model(asked, uri, tmp_path, KEY)
    assert "NAME@ALIAS" in (raised.value.remedy or "")


@pytest.mark.parametrize(("asked", "said"), [("nobody/1", "no version 1"), ("nobody@best", "no alias 'best'")])
def test_a_version_that_is_not_there_is_refused(asked: str, said: str, uri: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"{said} of a registered model 'nobody'"):
        fetch_model(asked, uri, tmp_path, KEY)


def test_a_registry_that_is_out_is_told_from_a_model_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="'clip/1' could not be fetched from MLflow"):
        fetch_model("clip/1", "http://127.0.0.1:9", tmp_path, KEY)


def test_the_process_keeps_its_own_addresses(uri: str, tmp_path: Path) -> None:
    import mlflow

    register(uri, "quiet", make(tmp_path, "open_clip_config.json", "open_clip_model.safetensors"))
    before = mlflow.get_tracking_uri(), mlflow.get_registry_uri(), dict(os.environ)
    fetch_model("quiet/1", uri, tmp_path / "models", KEY)
    assert (mlflow.get_tracking_uri(), mlflow.get_registry_uri(), dict(os.environ)) == before


def test_a_registry_that_takes_no_tags_is_said(uri: str) -> None:
    from tracking_records import a_record

    with pytest.raises(TrackingError, match="the verdict was not written to version 7 of model 'nobody'"):
        tag_model_version("nobody", "7", a_record(), "a" * 32, uri)
