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
from differential_models import LAYOUTS as PLAIN
from differential_models import Layout, Numbers
from differential_painting import PAINTING
from differential_seeing import SEEING
from differential_settings import BY_DESIGN
from differential_variants import Edit, variants
from model_world import Pictures, encoded, picture
from PIL import Image

from fairgate.ground.errors import FairgateError
from fairgate.models import open_scorer

GENERATIVE: dict[str, Layout] = {**SEEING, **PAINTING}
LAYOUTS: dict[str, Layout] = {**PLAIN, **GENERATIVE}
EPS = 2.0**-23
SIZES = [(37, 53), (64, 41), (33, 33), (91, 35), (45, 67), (39, 120), (57, 49), (73, 71)]
MODES = ["RGB", "L", "RGBA", "P"] * 2


@dataclass(frozen=True)
class Outcome:
    """Of one variant. `largest` is the largest difference, relative to the largest number of the library."""

    kind: Literal["equal", "refused", "by design", "different"]
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
        self._saved: dict[str, Numbers] = {}

    def outcome(self, key: str, edit: Edit, layout: Layout | None = None, name: str = "") -> Outcome:
        """Of a layout, edited; `layout` replaces the one of that key, and `name` is the variant's, if it has one."""
        layout = layout or LAYOUTS[key]
        saved = self.root / key.replace(" ", "-").replace("@", "-")
        if key not in self._uris:
            saved.mkdir()
            self._uris[key] = layout.save(saved)
        work = self.root / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(saved, work)
        edit(work / layout.folder, layout)
        found, numbers, note = self._compared(layout, name, self._uris[key], work)
        if found.kind == "different" and name in BY_DESIGN and BY_DESIGN[name] in note:
            if key not in self._saved:
                self._saved[key] = self._library(layout, saved)
            if near(numbers, self._saved[key], layout)[0] == "equal":
                return Outcome("by design", said=note)
        return found

    def _library(self, layout: Layout, folder: Path) -> Numbers:
        import torch

        random.seed(0)
        torch.manual_seed(2)
        return np.asarray(layout.library(folder, self.images), dtype=np.float64)

    def _compared(self, layout: Layout, name: str, uri: str, work: Path) -> tuple[Outcome, Numbers, str]:
        import torch

        torch.manual_seed(1)  # what a library makes up for a missing tensor is not what fairgate's load would make up
        try:
            model = open_scorer(uri, self.pictures, device="cpu", cache=None, base=work)  # type: ignore[arg-type]
            ours = np.asarray(layout.ours(model), dtype=np.float64)
        except FairgateError as error:
            return Outcome("refused", said=str(error)), None, ""
        note = getattr(model, "note", None) or ""
        try:
            theirs = self._library(layout, work)
        except Exception as error:  # a library refuses in its own words
            said = f"the library refuses: {type(error).__name__}: {error}"
            return Outcome("different", np.inf, said), ours, note
        kind, largest = near(ours, theirs, layout)
        if (name == "as saved" or not layout.group) and not spread(theirs) > 10 * tolerance(layout):
            return Outcome("different", largest, "all pictures have one number: the test shows nothing"), ours, note
        return Outcome(kind, largest, f"allowed {tolerance(layout):.1e}"), ours, note


def near(ours: Numbers, theirs: Numbers, layout: Layout) -> tuple[Literal["equal", "different"], float]:
    """Whether numbers are equal within the arithmetic, and their largest difference."""
    if ours.shape != theirs.shape:
        return "different", np.inf
    largest = float(np.abs(ours - theirs).max() / (np.abs(theirs).max() or 1.0))  # no box has no number
    return "equal" if largest <= tolerance(layout) else "different", largest


def spread(theirs: Numbers) -> float:
    """How much the library's numbers of pictures differ."""
    return float(np.ptp(theirs, axis=0).max() / (np.abs(theirs).max() or 1.0))


def tolerance(layout: Layout) -> float:
    """Relative to the largest number. Every layer of a network rounds sums of some hundred terms in another order,
    whose errors grow as their square root: 16 roundings of float32 a layer."""
    return layout.near or 16 * EPS * layout.depth


def run(compared: Compared, keys: Sequence[str] = tuple(LAYOUTS)) -> dict[str, dict[str, Outcome]]:
    """All variants of layouts."""
    return {
        key: {name: compared.outcome(key, edit, name=name) for name, edit in variants(LAYOUTS[key]).items()}
        for key in keys
    }


def table(outcomes: Mapping[str, Mapping[str, Outcome]]) -> str:
    """Counts by layout, as lines of Markdown."""
    lines = [
        "| files | equal | refused | by design | different | largest difference |",
        "| --- | --: | --: | --: | --: | --: |",
    ]
    for key, found in outcomes.items():
        counts = [
            sum(one.kind == kind for one in found.values()) for kind in ("equal", "refused", "by design", "different")
        ]
        largest = max((one.largest for one in found.values() if one.kind in ("equal", "different")), default=0.0)
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
