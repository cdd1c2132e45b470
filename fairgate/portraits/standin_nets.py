"""The nets of the stand-ins: one that looks at a whole picture, one that finds people, faces and outlines.

They are a test instrument: they know drawn portraits and what the tiny generator makes of them, and nothing else.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairgate.portraits.standin_sizes import KINDS


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
