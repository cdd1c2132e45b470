"""Pictures as the tiny nets take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


def scaled(pictures: NDArray[np.uint8]) -> torch.Tensor:
    """Pictures (n, height, width, 3) as (n, 3, height, width) in -1..1."""
    import torch

    return torch.from_numpy(pictures.astype(np.float32)).permute(0, 3, 1, 2) / 127.5 - 1
