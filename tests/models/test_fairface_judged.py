"""A FairFace checkpoint, judged: what it sees is what the face reader of builds sees in a picture that is one face."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from model_world import Pictures
from nightly import some
from PIL import Image
from safetensors.torch import save_file

from fairgate.ground.errors import CapabilityError, ModelError
from fairgate.models import open_scorer, require_capability
from fairgate.models.generation import open_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from torchvision.models import resnet34

    home = tmp_path_factory.mktemp("fairface")
    with torch.random.fork_rng():
        torch.manual_seed(3)
        state = resnet34(num_classes=18).state_dict()
    state["fc.weight"] *= 0.02  # an untrained network's outputs are far apart
    save_file(state, home / "net.safetensors")
    return home


@pytest.mark.parametrize("races", some([7, 4], 1))
def test_it_sees_what_the_face_reader_of_builds_sees(races: int, folder: Path, pictures: Pictures) -> None:
    few = Pictures(pictures.blobs[:2])
    judged: Any = open_scorer(f"fairface:net.safetensors?races={races}", few, device="cpu", base=folder)
    reader: Any = open_model("face_reader", f"fairface:net.safetensors?races={races}&faces=whole", base=folder)
    seen = reader.read([Image.open(io.BytesIO(blob)) for blob in few.blobs])
    for attribute in ("race", "gender", "age"):
        found = judged.predict(attribute)
        for (face,), label, confidence in zip(seen, found.labels.tolist(), found.confidence, strict=True):
            groups = face.probabilities[attribute]
            assert label == face.perceived(attribute)
            assert confidence == pytest.approx(groups[label], abs=1e-5)


def test_labels_of_different_attributes_do_not_compete(folder: Path, pictures: Pictures) -> None:
    model: Any = open_scorer("fairface:net.safetensors?races=7", pictures, device="cpu", base=folder)
    with pytest.raises(CapabilityError, match="lacks the capability 'log_probabilities'"):
        require_capability(model, "log_probabilities", "probe 'gender'")
    with pytest.raises(ModelError, match="no labels of 'mood'") as caught:
        model.predict("mood")
    assert "race, gender, age" in str(caught.value.remedy)


def test_the_number_of_races_is_said_by_the_name_or_the_uri(folder: Path, pictures: Pictures) -> None:
    with pytest.raises(ModelError, match="four or seven races"):
        open_scorer("fairface:net.safetensors", pictures, device="cpu", base=folder)
