"""The differential test: fairgate's numbers and the library's own on the same files and pictures.

Either the numbers are equal within the arithmetic, or fairgate refuses the files; everything else is `different`.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from differential_models import LAYOUTS, Layout
from differential_variants import Edit, variants
from model_world import Pictures, encoded, picture
from PIL import Image

from fairgate.errors import FairgateError
from fairgate.models import open_scorer

EPS = 2.0**-23
SIZES = [(37, 53), (64, 41), (33, 33), (91, 35), (45, 67), (39, 120), (57, 49), (73, 71)]
MODES = ["RGB", "L", "RGBA", "P"] * 2


@dataclass(frozen=True)
class Outcome:
    """Of one variant. `largest` is the largest difference, relative to the largest number of the library."""

    kind: Literal["equal", "refused", "different"]
    largest: float = 0.0
    said: str = ""


def drawn() -> list[Image.Image]:
    """Eight pictures of odd sizes, in the modes in which files are stored."""
    images = [picture(seed, size) for seed, size in enumerate(SIZES)]
    smooth = [image.resize((9, 7)).resize(image.size, Image.Resampling.BICUBIC) for image in images]
    return [image.convert(mode) for image, mode in zip(smooth, MODES, strict=True)]


class Compared:
    """Layouts in a folder, each saved once, and copied for each of its variants."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.images = [image.convert("RGB") for image in drawn()]
        self.pictures = Pictures([encoded(image) for image in drawn()])
        self._uris: dict[str, str] = {}

    def outcome(self, key: str, edit: Edit, layout: Layout | None = None) -> Outcome:
        """Of a layout, edited; `layout` replaces the one of that key."""
        layout = layout or LAYOUTS[key]
        saved = self.root / key.replace(" ", "-").replace("@", "-")
        if key not in self._uris:
            saved.mkdir()
            self._uris[key] = layout.save(saved)
        work = self.root / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(saved, work)
        edit(work / layout.folder, layout)
        return self._compared(layout, self._uris[key], work)

    def _compared(self, layout: Layout, uri: str, work: Path) -> Outcome:
        import torch

        torch.manual_seed(1)  # what a library makes up for a missing tensor is not what fairgate's load would make up
        try:
            model = open_scorer(uri, self.pictures, device="cpu", cache=None, base=work)  # type: ignore[arg-type]
            ours = np.asarray(layout.ours(model), dtype=np.float64)
        except FairgateError as error:
            return Outcome("refused", said=str(error))
        torch.manual_seed(2)
        try:
            random.seed(0)
            theirs = np.asarray(layout.library(work, self.images), dtype=np.float64)
        except Exception as error:  # a library refuses in its own words
            return Outcome("different", np.inf, f"the library refuses: {type(error).__name__}: {error}")
        scale = float(np.abs(theirs).max()) or 1.0
        largest = float(np.abs(ours - theirs).max() / scale)
        near = tolerance(layout)
        spread = float(np.ptp(theirs, axis=0).max() / scale)
        if not spread > 10 * near:
            return Outcome("different", largest, f"pictures differ by {spread:.1e} only: the test shows nothing")
        return Outcome("equal" if largest <= near else "different", largest, f"allowed {near:.1e}")


def tolerance(layout: Layout) -> float:
    """Relative to the largest number. Every layer of a network rounds sums of some hundred terms in another order,
    whose errors grow as their square root: 16 roundings of float32 a layer."""
    return 16 * EPS * layout.depth


def run(compared: Compared, keys: Sequence[str] = tuple(LAYOUTS)) -> dict[str, dict[str, Outcome]]:
    """All variants of layouts."""
    return {key: {name: compared.outcome(key, edit) for name, edit in variants(LAYOUTS[key]).items()} for key in keys}


def table(outcomes: Mapping[str, Mapping[str, Outcome]]) -> str:
    """Counts by layout, as lines of Markdown."""
    lines = ["| files | equal | refused | different | largest difference |", "| --- | --: | --: | --: | --: |"]
    for key, found in outcomes.items():
        counts = [sum(one.kind == kind for one in found.values()) for kind in ("equal", "refused", "different")]
        largest = max((one.largest for one in found.values() if one.kind != "refused"), default=0.0)
        lines.append(f"| {key} | {' | '.join(map(str, counts))} | {largest:.0e} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table, and what differs."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes: Any = run(Compared(Path(folder)))
    print(table(outcomes))
    for key, found in outcomes.items():
        for name, one in found.items():
            if one.kind == "different":
                print(f"different: {key}, {name}: {one.largest:.1e} ({one.said[:300]})")
