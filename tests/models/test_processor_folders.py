"""A Trainer's checkpoint without tokenizer and image processor is judged with those of a folder that its URI names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from classifier_world import save_classifier
from detector_world import save_detector
from hf_world import save_folder
from model_world import PROMPTS, Pictures
from nightly import some
from vlm_world import save_vlm

from fairgate.ground.errors import ModelError
from fairgate.models import local_paths, open_scorer
from fairgate.models.checkpoints import IMAGE_CONFIGS, TOKENIZER_FILES

Answers = Callable[[Any], Any]


def said(model: Any) -> Any:
    return model.log_probabilities(PROMPTS[:2])


FAMILIES: dict[str, tuple[Callable[[Path], object], str, Answers]] = {
    "hf": (lambda path: save_folder("clip", path), "hf:{}", said),
    "classifier": (
        lambda path: save_classifier("vit", path),
        "classifier:{}",
        lambda model: model.log_probabilities(["chef", "doctor"]),
    ),
    "detector": (lambda path: save_detector("owlv2", path), "detector:{}", lambda model: model.detect("chef").score),
    "vlm": (lambda path: save_vlm("llava", path), "vlm:{}?question=Who?", said),
}


def parted(save: Callable[[Path], object], folder: Path) -> tuple[Path, Path]:
    """A checkpoint as a Trainer leaves it without `processing_class`, and the folder that training began with."""
    whole, bare = folder / "base", folder / "run" / "checkpoint-100"
    save(whole)
    shutil.copytree(whole, bare)
    for name in (*TOKENIZER_FILES, *IMAGE_CONFIGS):
        (bare / name).unlink(missing_ok=True)
    return whole, bare


def opened(uri: str, pictures: Pictures, base: Path) -> Any:
    return open_scorer(uri, pictures, device="cpu", base=base)


def named(uri: str) -> str:
    return uri + ("&" if "?" in uri else "?") + "processor=base"


@pytest.mark.usefixtures("seeing_here")
@pytest.mark.parametrize("family", some(list(FAMILIES), few=3))
def test_it_is_the_model_with_its_processor_in_one_folder(family: str, tmp_path: Path, pictures: Pictures) -> None:
    save, form, answers = FAMILIES[family]
    parted(save, tmp_path)
    uri = named(form.format("run/checkpoint-100"))
    one, whole = opened(uri, pictures, tmp_path), opened(form.format("base"), pictures, tmp_path)
    assert (one.fingerprint, one.tokenizer, one.preprocessing) == (
        *(whole.fingerprint, whole.tokenizer, whole.preprocessing),
    )
    np.testing.assert_array_equal(answers(one), answers(whole))
    assert [path.as_posix() for path in local_paths(uri)] == ["run/checkpoint-100", "base"]
    with pytest.raises(ModelError) as caught:
        opened(form.format("run/checkpoint-100"), pictures, tmp_path)
    assert f"{family}:FOLDER?processor=FOLDER" in str(caught.value.remedy)


def test_the_folder_that_is_named_is_read_before_the_models_own(tmp_path: Path, pictures: Pictures) -> None:
    """Another tokenizer is seen wherever it comes from: digest and fingerprint are others."""
    for name in ("base", "own"):
        save_folder("clip", tmp_path / name)
    path = tmp_path / "own" / "tokenizer.json"
    path.write_text(path.read_text().replace('"nurse"', '"nurses"'), encoding="utf-8")
    own, other = (opened(uri, pictures, tmp_path) for uri in ("hf:own", "hf:own?processor=base"))
    assert own.tokenizer != other.tokenizer
    assert own.fingerprint != other.fingerprint
    assert np.abs(own.log_probabilities(PROMPTS) - other.log_probabilities(PROMPTS)).max() > 1e-4


def test_a_folder_without_a_processor_is_refused(tmp_path: Path, pictures: Pictures) -> None:
    parted(lambda path: save_folder("clip", path), tmp_path)
    with pytest.raises(ModelError, match="after processor= holds no tokenizer") as caught:
        opened("hf:base?processor=run/checkpoint-100", pictures, tmp_path)
    assert "the model that training began with" in str(caught.value.remedy)
    with pytest.raises(ModelError, match="does not exist"):
        opened("hf:base?processor=nowhere", pictures, tmp_path)


def test_its_files_are_trusted_as_little_as_the_models_own(tmp_path: Path, pictures: Pictures) -> None:
    parted(lambda path: save_folder("clip", path), tmp_path)
    path = tmp_path / "base" / "preprocessor_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "auto_map": {"AutoImageProcessor": "x.Y"}}))
    with pytest.raises(ModelError, match="code of its own"):
        opened("hf:run/checkpoint-100?processor=base", pictures, tmp_path)
    path.unlink()
    path.symlink_to("/etc/hostname")
    with pytest.raises(ModelError, match="leads outside"):
        opened("hf:run/checkpoint-100?processor=base", pictures, tmp_path)
