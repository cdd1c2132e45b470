"""One run of `benchmarks.families`: `_family_runs.py FAMILY engine|plain FOLDER`, with the fairgate of PYTHONPATH."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

from fairgate.models import checkpoints, open_scorer

SIDE, WARM = 224, 4
LABELS = [f"label {number}" for number in range(20)]
ASKED = {
    "classifier": ("classifier:", 512),
    "features": ("features:", 512),
    "hf": ("hf:", 512),
    "detector": ("detector:", 128),
    "vlm": ("vlm:", 512),
}
"""By family the beginning of its URI, and how many pictures are timed."""


@dataclass
class Pictures:
    """An image source in memory."""

    blobs: Sequence[bytes]

    def __post_init__(self) -> None:
        names = [f"{place:06d}" for place in range(len(self.blobs))]
        self.folder = Path("pictures")
        self.index = SimpleNamespace(set_id=np.array(names), member=np.array(["a"] * len(names)), path=np.array(names))
        self.fingerprint = hashlib.sha256(b"".join(self.blobs)).hexdigest()

    def __len__(self) -> int:
        return len(self.blobs)

    def image_batches(self, batch_size: int) -> Iterator[tuple[np.ndarray[Any, Any], list[bytes]]]:
        """Encoded pictures, with their places."""
        for start in range(0, len(self.blobs), batch_size):
            places = np.arange(start, min(start + batch_size, len(self.blobs)))
            yield places, [self.blobs[place] for place in places]


def photographs(count: int) -> list[bytes]:
    """JPEGs of coarse noise, each another one."""
    made = []
    for seed in range(count):
        noise = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        held = io.BytesIO()
        Image.fromarray(noise).resize((SIDE, SIDE)).save(held, "JPEG", quality=90)
        made.append(held.getvalue())
    return made


def answer(family: str, scorer: Any) -> Any:
    """What the family is asked about all pictures of its source."""
    return {
        "classifier": lambda: scorer.log_probabilities(LABELS),
        "features": getattr(scorer, "outputs", None) or getattr(scorer, "features", None),  # of a checkout before
        "hf": lambda: scorer.logits(["a photo of a doctor", "a photo of a nurse"]),
        "detector": lambda: scorer.detect(LABELS[0]),
        "vlm": lambda: scorer.log_likelihoods(vlm_labels()),
    }[family]()


def vlm_labels() -> list[str]:
    """Twenty labels in the words of the tests' tokenizer."""
    roles = ["doctor", "nurse", "chef", "pilot", "firefighter"]
    return [*roles, *(f"{sex} {role}" for sex in ("male", "female") for role in roles), *(f"photo {r}" for r in roles)]


def timed(family: str, way: str, folder: Path, device: str) -> dict[str, float]:
    """Seconds of the start, and pictures a second; in this process, of the fairgate that it imports."""
    if way == "plain":
        checkpoints.is_plain = lambda *_: True
        checkpoints.BACKBONES = {}
    uri = f"{ASKED[family][0]}{folder / family}" + ("?question=Who is it?" if family == "vlm" else "")
    blobs = photographs(WARM + ASKED[family][1])
    started = time.perf_counter()
    answer(family, open_scorer(uri, Pictures(blobs[:WARM]), device=device, cache=None))
    start = time.perf_counter() - started
    scorer = open_scorer(uri, Pictures(blobs[WARM:]), device=device, cache=None)
    if (" plain " in scorer.preparation) != (way == "plain"):
        raise SystemExit(f"{family} is not judged by the way '{way}'")
    opened = time.perf_counter()
    answer(family, scorer)
    # the second source's model is opened again: as the first was, with what is imported already
    whole = time.perf_counter() - opened
    again = time.perf_counter()
    answer(family, open_scorer(uri, Pictures(blobs[1 : WARM + 1]), device=device, cache=None))
    return {"start": start, "rate": ASKED[family][1] / max(whole - (time.perf_counter() - again), 1e-9)}


if __name__ == "__main__":
    print(json.dumps(timed(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])))
