"""How large a checkpoint is, by its own files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairgate.models import local_paths
from fairgate.models.checkpoints import resolve
from fairgate.records import Estimate


def parameters_of(uri: str, root: Path) -> Estimate:
    """Numbers in a checkpoint's safetensors files: weights, of floating point."""
    from safetensors import safe_open

    paths = [resolve(path.as_posix(), root) for path in local_paths(uri)]
    listed = [each for path in paths for each in (sorted(path.glob("*.safetensors")) if path.is_dir() else [path])]
    if not listed or any(path.suffix != ".safetensors" or not path.is_file() for path in listed):
        return Estimate(value=None, why="the address names no safetensors files of this machine")
    total = 0
    for path in listed:
        with safe_open(path, framework="np") as handle:
            for name in handle.keys():  # noqa: SIM118 - a file of tensors, and no mapping
                part = handle.get_slice(name)
                if part.get_dtype().startswith(("F", "BF")):
                    total += int(np.prod(part.get_shape()))
    return Estimate(value=total / 1e6)
