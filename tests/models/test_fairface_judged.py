"""A FairFace checkpoint is judged as torchvision's ResNet-34, attribute by attribute."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_world import Pictures
from PIL import Image
from safetensors.torch import save_file

from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer
from fairgate.models.generation import open_model
from fairgate.models.generation.fairface import AGES, GENDERS, RACES


def test_as_a_model_of_torchvision_it_sees_what_the_face_reader_of_builds_sees(tmp_path: Path) -> None:
    from torchvision.models import resnet34

    with torch.random.fork_rng():
        torch.manual_seed(3)
        state = resnet34(num_classes=18).state_dict()
    state["fc.weight"] *= 0.02  # an untrained network's outputs are far apart
    save_file(state, tmp_path / "net.safetensors")
    (tmp_path / "labels.txt").write_text("\n".join([*RACES[7], *GENDERS, *AGES]), encoding="utf-8")
    noise, file = np.random.default_rng(0).integers(0, 256, (80, 80, 3), dtype=np.uint8), io.BytesIO()
    Image.fromarray(noise).save(file, "PNG")
    uri = "torchvision:resnet34@net.safetensors?labels=labels.txt&resize=224&crop=224"
    judged: Any = open_scorer(uri, Pictures([file.getvalue()]), device="cpu", base=tmp_path)
    reader: Any = open_model("face_reader", "fairface:net.safetensors?races=7&faces=whole", base=tmp_path)
    ((face,),) = reader.read([Image.open(file)])
    for groups in face.probabilities.values():
        found = np.exp(judged.log_probabilities(list(groups)))[0]
        np.testing.assert_allclose(found, list(groups.values()), atol=1e-5)


def test_the_scheme_of_builds_is_refused_with_what_to_write_instead() -> None:
    with pytest.raises(ModelError, match="not a model URI") as caught:
        open_scorer("fairface:net.pt?races=7", Pictures([]), device="cpu")
    assert "torchvision:resnet34@FILE?labels=FILE&resize=224&crop=224" in str(caught.value.remedy)
