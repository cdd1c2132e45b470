"""A build's shards depend on the files of its models, however the models are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairgate.errors import ModelError
from fairgate.factory.plan import model_fingerprint
from fairgate.models.making import ALIASES


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two folders with something in them, named `first` and `second` for short, and a bystander beside them."""
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        Path(name).mkdir()
        Path(name, "model.safetensors").write_text(name)
        monkeypatch.setitem(ALIASES, name, f"hf:{tmp_path / name}")
    Path("bystander").write_text("not a model")


@pytest.mark.parametrize(
    "uri", [f"{each}?refiner=second{more}" for each in ("first", "hf:first") for more in ("", "&variant=fp16")]
)
def test_short_names_and_their_options_stand_for_the_models_files_alone(uri: str) -> None:
    found = model_fingerprint("inpainter", uri)
    Path("bystander").write_text("changed")
    assert model_fingerprint("inpainter", uri) == found
    Path("second/model.safetensors").write_text("another refiner")
    assert model_fingerprint("inpainter", uri) != found


def test_a_model_is_another_one_with_a_refiner() -> None:
    assert model_fingerprint("inpainter", "first") == model_fingerprint("painter", "hf:first")
    assert model_fingerprint("inpainter", "first") != model_fingerprint("inpainter", "first?refiner=second")


@pytest.mark.parametrize("uri", ["first?refiner=nowhere", "hf:", "third", "open_clip:", "portraits:"])
def test_a_model_that_is_not_there_is_an_error_that_names_it(uri: str) -> None:
    with pytest.raises(ModelError, match=r"nowhere|name a model|does not exist|no model"):
        model_fingerprint("painter", uri)
