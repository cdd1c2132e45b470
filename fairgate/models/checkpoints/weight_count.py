"""How large a network is, from the headers of its files: no tensor is read, and torch is not imported."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from safetensors import SafetensorError, safe_open


def weights_in(paths: Iterable[Path]) -> int | None:
    """Numbers in the safetensors files that are named, or are directly in the folders named; adapters are not counted.
    None where there is no such file, and for a damaged one."""
    counted = 0
    for path in paths:
        files = path.glob("*.safetensors") if path.is_dir() else [path]
        for file in files:
            if file.suffix != ".safetensors" or file.name.startswith("adapter_") or not file.is_file():
                continue
            try:
                with safe_open(file, framework="np") as tensors:
                    shapes = [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118
            except SafetensorError:
                return None
            counted += sum(map(math.prod, shapes))
    return counted or None
