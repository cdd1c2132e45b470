"""`fairgate init` finds a folder of every family by what is in it, or says how its URI is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from family_rows import ROWS

from fairgate.ground.errors import SettingsError
from fairgate.suites import find_checkpoint

pytestmark = pytest.mark.xdist_group("families")
FOUND = ["open_clip", "hf", "classifier", "timm", "detector", "detector-text"]
NAMED = {
    "diffusion": "a pipeline of diffusers: name it diffusion:FOLDER",
    "diffusion-flux": "a pipeline of diffusers: name it diffusion:FOLDER",
    "vlm-question": "a language model that sees: name it vlm:FOLDER?question=TEXT",
    "features": "a model of images alone, without a head: name it features:FOLDER?head=FILE",
}
FILES = {"torchvision", "onnx", "scores", "embeddings", "labels", "answers", "detections", "numbers"}


@pytest.mark.parametrize("key", FOUND)
def test_a_checkpoint_that_a_first_suite_can_be_written_for_is_found(key: str, tmp_path: Path) -> None:
    uri = ROWS[key].save(ROWS[key].kinds[0], tmp_path)
    assert find_checkpoint(tmp_path) == uri


@pytest.mark.parametrize("key", list(NAMED))
def test_a_checkpoint_whose_uri_needs_more_is_described(key: str, tmp_path: Path) -> None:
    uri = ROWS[key].save(ROWS[key].kinds[0], tmp_path)
    folder = re.split("[:?]", uri)[1]
    assert remedy(tmp_path).endswith(f"; {folder}: this is {NAMED[key].replace('FOLDER', folder)}")


def test_of_a_language_model_and_of_an_adapter_all_folders_are_described(tmp_path: Path) -> None:
    ROWS["captions"].save("llama", tmp_path / "words")
    assert "language-llama: this is a language model: name it captions:words/language-llama?question" in remedy(
        tmp_path
    )
    ROWS["peft-hf"].save("clip", tmp_path / "adapted")
    assert find_checkpoint(tmp_path / "adapted") == "hf:hf-clip"  # the adapter needs its base in the URI
    (tmp_path / "adapted" / "hf-clip").rename(tmp_path / "datasets")
    told = "lora-hf-clip: this is an adapter without its base model: name it peft:lora-hf-clip?base=URI"
    assert remedy(tmp_path / "adapted").endswith(told)


def test_every_family_of_folders_is_tried() -> None:
    tried = {key.partition("-")[0] for key in [*FOUND, *NAMED, "captions", "peft"]}
    assert {key.partition("-")[0] for key in ROWS} - tried == {*FILES, "debiased", "openai"}


def remedy(root: Path) -> str:
    with pytest.raises(SettingsError, match="holds no folder of a CLIP") as caught:
        find_checkpoint(root)
    return str(caught.value.remedy)
