"""Networks of the substitute models: one that classifies a whole picture, one that finds people, faces and outlines;
their preprocessing, their outputs, and the folder they are saved in, hashed before anything loads it.

They are a test instrument, trained on drawn portraits and on the tiny generator's pictures, and valid for nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import sha256_file
from fairgate.models.checkpoints import (
    HashedFiles,
    read_config,
    read_state_dict,
    require_file,
    require_finite,
    require_fit,
    require_folder,
    require_weights,
    resolve,
)
from fairgate.portraits.world import ATTRIBUTES, LABELS

LOOK = 48
"""Side in pixels of what the asker sees."""
CHIP = 32
"""Side in pixels of a face chip."""
FIND = 64
"""Side in pixels of what the finder sees."""
GRID = 16
"""Cells of the finder's grid, across and down."""
KINDS = ("person", "face")
"""What the finder finds."""
AGES = ["20-29", "60-69"]
"""Two of FairFace's groups: lines of age in a drawing are taken for the second one."""

NOTHING = len(LABELS)
"""The asker's class for a picture without a person, after every label."""

READ: dict[str, list[str]] = {**ATTRIBUTES, "age": AGES}
"""What the face reader perceives, and its groups."""
NETS = ("asker", "finder", "reader")
_MADE_FOR = {"kind": "fairgate-portraits-standins", "labels": LABELS, "perceives": READ}
FACE_MARGIN = 0.35
"""Of the face box's longer side, added on every side of a chip: hair is informative, too."""


def _block(before: int, after: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
    )


class Looker(nn.Module):
    """Logits (n, outputs) of whole pictures (n, 3, side, side) in -1..1; `side` is a multiple of 8."""

    def __init__(self, side: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            _block(3, 24, 2), _block(24, 32), _block(32, 48, 2), _block(48, 48), _block(48, 64, 2), _block(64, 24)
        )
        self.answer = nn.Linear(24 * (side // 8) ** 2, outputs)

    def forward(self, pictures: Tensor) -> Tensor:
        answer: Tensor = self.answer(self.layers(pictures).flatten(1))
        return answer


class Finder(nn.Module):
    """Where people and faces are, and the outline of people, in pictures (n, 3, FIND, FIND) in -1..1.

    Gives centres (n, kinds, GRID, GRID) as logits, edges (n, kinds, 4, GRID, GRID) as distances of the box's left, top,
    right and bottom from the cell's middle in cells, and the mask (n, FIND / 2, FIND / 2) as logits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.halves = nn.Sequential(_block(3, 16, 2), _block(16, 16))
        self.quarter = nn.Sequential(_block(16, 32, 2), _block(32, 32))
        self.eighth = nn.Sequential(_block(32, 48, 2), _block(48, 48))
        self.whole = nn.Sequential(_block(48, 64, 2), _block(64, 64), _block(64, 48))
        self.up_eighth = _block(96, 48)
        self.up_quarter = _block(80, 48)
        self.up_half = _block(64, 24)
        self.centres = nn.Sequential(_block(48, 32), nn.Conv2d(32, len(KINDS), 1))
        self.edges = nn.Sequential(_block(48, 48), nn.Conv2d(48, 4 * len(KINDS), 1))
        self.mask = nn.Conv2d(24, 1, 3, 1, 1)
        nn.init.constant_(self.centres[-1].bias, -3.0)  # type: ignore[arg-type]

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        half = self.halves(pictures)
        quarter = self.quarter(half)
        eighth = self.eighth(quarter)
        out = self.up_eighth(torch.cat([eighth, _doubled(self.whole(eighth))], dim=1))
        out = self.up_quarter(torch.cat([quarter, _doubled(out)], dim=1))
        edges = nn.functional.softplus(self.edges(out)).reshape(len(out), len(KINDS), 4, *out.shape[2:])
        mask = self.mask(self.up_half(torch.cat([half, _doubled(out)], dim=1)))[:, 0]
        return self.centres(out), edges, mask


def _doubled(features: Tensor) -> Tensor:
    return nn.functional.interpolate(features, scale_factor=2.0, mode="nearest")


def pixels(picture: Image.Image, side: int) -> NDArray[np.uint8]:
    """The picture as (side, side, 3), stretched where it is not square."""
    return np.asarray(picture.convert("RGB").resize((side, side), Image.Resampling.BILINEAR))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A picture in the upper left of a black square of FIND px, and how many of its pixels make one of the square's."""

    square: NDArray[np.uint8]
    scale: float


def letterbox(picture: Image.Image) -> Fitted:
    """The picture fitted into a square of FIND px, its sides in proportion."""
    scale = max(picture.size) / FIND
    size = (max(1, round(picture.width / scale)), max(1, round(picture.height / scale)))
    square = Image.new("RGB", (FIND, FIND))
    square.paste(picture.convert("RGB").resize(size, Image.Resampling.BILINEAR))
    return Fitted(np.asarray(square), scale)


def face_chip(picture: Image.Image, box: Sequence[float]) -> NDArray[np.uint8]:
    """The square around a face box (left, top, right, bottom) as (CHIP, CHIP, 3); black beyond the picture."""
    left, top, right, bottom = box
    half = (0.5 + FACE_MARGIN) * max(right - left, bottom - top)
    x, y = (left + right) / 2, (top + bottom) / 2
    around = (x - half, y - half, x + half, y + half)
    return np.asarray(
        picture.convert("RGB").transform((CHIP, CHIP), Image.Transform.EXTENT, around, Image.Resampling.BILINEAR)
    )


def new_net(name: str) -> Any:
    """A net of the folder with untrained weights."""
    if name == "finder":
        return Finder()
    if name == "asker":
        return Looker(LOOK, len(LABELS) + 3)
    return Looker(CHIP, sum(map(len, READ.values())))


def save(nets: dict[str, Any], folder: Path) -> None:
    """Write the nets in half precision, and a config with their digests."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, net in nets.items():
        weights = {
            key: value.detach().to(torch.float16 if value.is_floating_point() else value.dtype).contiguous()
            for key, value in net.state_dict().items()
            if not key.endswith("num_batches_tracked")
        }
        save_file(weights, folder / f"{name}.safetensors")
    config = {**_MADE_FOR, "sha256": {name: sha256_file(folder / f"{name}.safetensors") for name in NETS}}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def load(address: str, name: str, base: Path) -> tuple[Any, str]:
    """A net in evaluation mode, and the fingerprint of its files.

    Raises ModelError where they are missing, of another kind, not the saved ones, or do not fit.
    """
    folder = resolve(address, base)
    require_folder(folder)
    config_path, weights = folder / "config.json", folder / f"{name}.safetensors"
    for path in (config_path, weights):
        require_file(path)
    require_weights(weights)
    config = read_config(config_path)
    if any(config.get(key) != value for key, value in _MADE_FOR.items()):
        raise ModelError(
            "the folder does not hold the stand-ins of this version's demonstration data.",
            where=str(config_path),
            remedy="run `dvc pull`, or train them with `dvc repro train-standins`",
        )
    files = HashedFiles.of({"config": config_path, name: weights})
    if config.get("sha256", {}).get(name) != files.hashes[name]:
        raise ModelError(
            f"the weights of the {name} are damaged or replaced: the config was saved with others.",
            where=str(weights),
            remedy="run `dvc pull --force`, or train them with `dvc repro train-standins`",
        )
    files.require_unchanged()
    net = new_net(name)
    state = {key: value.float() for key, value in read_state_dict(weights).items()}
    state |= {key: value for key, value in net.state_dict().items() if key.endswith("num_batches_tracked")}
    require_finite(state, str(weights))
    require_fit(state, net, str(weights), f"the stand-ins' {name}")
    net.load_state_dict(state)
    return net.eval(), files.fingerprint()
