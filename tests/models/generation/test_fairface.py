"""FairFace's outputs are read in the layout of each of the authors' checkpoints, and only its tensors are loaded."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from perceiver_world import PHOTOS, portrait
from PIL import Image
from safetensors.torch import save_file

from fairgate.ground.errors import ModelError
from fairgate.models.generation import open_model

SEVEN = ["White", "Black", "Latino_Hispanic", "East Asian", "Southeast Asian", "Indian", "Middle Eastern"]
RACE = [0.05, 0.1, 0.4, 0.15, 0.2, 0.06, 0.04]
GENDER = [0.3, 0.7]
AGE = [0.02, 0.03, 0.1, 0.5, 0.15, 0.1, 0.05, 0.04, 0.01]
PUBLISHED = {
    "res34_fair_align_multi_7_20190809.pt": 7,
    "res34_fair_align_multi_4_20190809.pt": 4,
    "fairface_alldata_20191111.pt": 7,
    "fairface_alldata_4race_20191111.pt": 4,
}


def resnet(outputs: int = 18) -> dict[str, torch.Tensor]:
    from torchvision.models import resnet34

    with torch.random.fork_rng():
        torch.manual_seed(3)
        return dict(resnet34(num_classes=outputs).state_dict())


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`random.safetensors`, and `set.pt`, whose answers to any face are RACE, GENDER and AGE."""
    folder = tmp_path_factory.mktemp("fairface")
    state = resnet()
    state["fc.weight"] *= 0.02  # an untrained network's outputs are far apart: one group would get all
    save_file(state, folder / "random.safetensors")
    chosen = torch.log(torch.tensor([*RACE, *GENDER, *AGE]))
    halves = {name: value.half() if value.is_floating_point() else value for name, value in state.items()}
    set_by_hand = {**halves, "fc.weight": torch.zeros(18, 512), "fc.bias": chosen}
    torch.save(set_by_hand, folder / "set.pt")
    return folder


@pytest.mark.parametrize("name", PUBLISHED)
def test_both_layouts_give_the_groups_that_were_put_into_the_last_layer(name: str, home: Path, tmp_path: Path) -> None:
    os.link(home / "set.pt", tmp_path / name)
    reader = open_model("face_reader", f"fairface:{name}?faces=whole", base=tmp_path)
    ((face,),) = reader.read([portrait(1)])
    races = dict(zip(SEVEN, RACE, strict=True))
    if PUBLISHED[name] == 4:  # the first four outputs, by themselves: they sum to 0.7
        races = {"White": 0.05 / 0.7, "Black": 0.1 / 0.7, "Asian": 0.4 / 0.7, "Indian": 0.15 / 0.7}
    assert face.probabilities["race"] == pytest.approx(races, abs=1e-6)
    assert list(face.probabilities["race"]) == list(races)
    assert face.probabilities["gender"] == pytest.approx({"Male": 0.3, "Female": 0.7}, abs=1e-6)
    assert list(face.probabilities["age"].values()) == pytest.approx(AGE, abs=1e-6)
    perceived = [face.perceived(attribute) for attribute in ("race", "gender", "age")]
    assert perceived == ["Asian" if PUBLISHED[name] == 4 else "Latino_Hispanic", "Female", "20-29"]
    assert list(face.probabilities["age"])[-1] == "more than 70"
    assert reader.uri == f"fairface:{name}?races={PUBLISHED[name]}&faces=whole"


def test_the_option_wins_over_the_name_and_both_are_in_the_fingerprint(home: Path) -> None:
    four, seven = (
        open_model("face_reader", f"fairface:set.pt?faces=whole&races={races}", base=home) for races in (4, 7)
    )
    assert len(four.read([portrait(1)])[0][0].probabilities["race"]) == 4
    assert len(seven.read([portrait(1)])[0][0].probabilities["race"]) == 7
    assert four.fingerprint != seven.fingerprint
    with pytest.raises(ModelError, match="four or seven races") as caught:
        open_model("face_reader", "fairface:set.pt?faces=whole", base=home)
    assert "?races=4 or ?races=7" in str(caught.value.remedy)


def stock(home: Path, images: list[Image.Image]) -> torch.Tensor:
    """What the authors' own script computes of face chips: the softmax over the first seven outputs."""
    from safetensors.torch import load_file
    from torchvision import transforms
    from torchvision.models import resnet34

    model = resnet34()
    model.fc = torch.nn.Linear(512, 18)
    model.load_state_dict(load_file(home / "random.safetensors"))
    normalised = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    prepare = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor(), normalised])
    with torch.no_grad():
        return torch.softmax(model.eval()(torch.stack([prepare(image) for image in images]))[:, :7], dim=1)


def test_whole_pictures_are_prepared_and_read_as_the_authors_do(home: Path) -> None:
    images = [portrait(1), portrait(2, (300, 300))]
    if PHOTOS.is_dir():
        images.append(Image.open(PHOTOS / "1005.jpg").convert("RGB"))
    reader = open_model("face_reader", "fairface:random.safetensors?faces=whole&races=7", base=home)
    found = reader.read(images)
    races = [list(faces[0].probabilities["race"].values()) for faces in found]
    np.testing.assert_allclose(races, stock(home, images), atol=1e-5)
    assert np.ptp(races, axis=0).max() > 1e-3  # pictures matter
    boxes = [faces[0].box for faces in found]
    assert [(box.left, box.top, box.right, box.bottom) for box in boxes] == [(0, 0, *image.size) for image in images]
    assert dict(reader.spent) == {"face_finder": len(images), "fairface": len(images)}
    assert reader.read([]) == []


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("exploded"),))


def test_checkpoints_that_run_code_or_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"fc.bias": Bomb()}, "bomb.pt")
    torch.save({"fc.weight": torch.zeros(7, 512)}, "seven.pt")
    torch.save({"fc.weight": torch.zeros(18, 512)}, "little.pt")
    Path("empty.pt").touch()
    cases = {
        "bomb.pt": "would have to run pickled code",
        "seven.pt": r"ResNet-34 with 18 outputs \(FairFace\): 1 tensors have other shapes: fc.weight",
        "little.pt": "tensors are missing: conv1.weight",
        "empty.pt": "the file is empty",
        "absent.pt": "the checkpoint of FairFace is not there",
    }
    for name, problem in cases.items():
        with pytest.raises(ModelError, match=problem) as caught:
            open_model("face_reader", f"fairface:{name}?races=7&faces=whole", base=tmp_path)
        assert caught.value.remedy
    assert not Path("exploded").exists()


@pytest.mark.parametrize(
    ("options", "problem", "remedy"),
    [
        ("race=4", "an option that is unknown or empty: 'race'", "did you mean 'races'"),
        ("races=5", "four or seven races", "races=4"),
        ("races=7&faces=haar", "names no face finder: 'haar'", "faces=dlib or faces=whole"),
        ("races=7&side=9", "side is '9', not a whole number from 32 to 4096", "after side="),
        ("races=7&upsample=x", "upsample is 'x', not a whole number from 0 to 3", "leave it out"),
        ("", "an option that is unknown or empty: ''", "options: races"),
    ],
)
def test_options_that_are_none_are_errors(options: str, problem: str, remedy: str, home: Path) -> None:
    with pytest.raises(ModelError, match=problem) as caught:
        open_model("face_reader", f"fairface:set.pt?{options}", base=home)
    assert remedy in str(caught.value.remedy)


def test_without_dlib_the_error_says_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dlib", None)
    with pytest.raises(ModelError, match="is not installed") as caught:
        open_model("face_reader", "fairface:set.pt?races=7", base=home)
    assert "pip install 'fairgate[faces]'" in str(caught.value.remedy)
    assert "?faces=whole" in str(caught.value.remedy)
