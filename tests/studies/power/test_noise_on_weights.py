from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from fairgate.models import local_paths
from fairgate.studies.power.harmless import with_noise


@pytest.mark.parametrize(
    "uri", ["classifier:classifier", "classifier:./classifier", "classifier:classifier/", "peft:classifier?base=hf:hf"]
)
def test_noise_is_on_copies_that_the_uri_names_also_if_a_folder_is_called_as_its_scheme(
    uri: str, tmp_path: Path
) -> None:
    folders = [path.as_posix() for path in local_paths(uri)]
    for name in folders:
        (tmp_path / name).mkdir()
        save_file({"weight": torch.ones(4, 4)}, tmp_path / name / "model.safetensors")
    copies = tmp_path / "copies"
    copies.mkdir()
    noisy = with_noise(uri, tmp_path, copies, 0.1, 0)
    assert noisy is not None
    places = [path.as_posix() for path in local_paths(noisy)]
    assert places == [(copies / f"{at}-{name}").as_posix() for at, name in enumerate(folders)]
    for place in places:
        assert load_file(Path(place, "model.safetensors"))["weight"].shape == (4, 4)
