"""Face finders: they cut the faces of a picture out as FairFace's authors did, or take the whole picture as one.

`dlib` is the authors' own procedure: dlib's CNN detector (mmod) on the picture at 800 pixels a side, doubled once;
five landmarks; aligned chips of 300 pixels with 0.25 padding. docs/models-for-building.md compares the finders that pip
installs, on 252 FairFace photographs: this one misses 2.4% of the faces, dlib's HOG detector a third and OpenCV's
cascade half of them, and not equally many of every group.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fairgate.checkpoints import HashedFiles, naming, require_file
from fairgate.errors import ModelError
from fairgate.generation.roles import Box

SIDE = 800
"""Longest side in pixels at which the authors look for faces; smaller pictures are enlarged to it."""
UPSAMPLE = 1
"""How often the detector doubles the picture: faces of 80 pixels and more are found after that."""
CHIP, PADDING = 300, 0.25
"""Pixels of a chip's side, and how much is added around the aligned face, as a share of it."""

_DETECTOR = "mmod_human_face_detector.dat"
_LANDMARKS = "shape_predictor_5_face_landmarks.dat"
_PACKAGE = "face_recognition_models"


@dataclass(frozen=True, slots=True)
class FoundFace:
    """A face, cut out and turned upright, and where it was in the picture."""

    chip: Image.Image
    box: Box

    @property
    def area(self) -> float:
        return (self.box.right - self.box.left) * (self.box.bottom - self.box.top)


class WholeImage:
    """Takes every picture as one face: for pictures that are face crops already.

    `identity` is plain data that names everything that chips depend on, file digests included.
    """

    identity: Mapping[str, str] = {"faces": "whole"}

    def find(self, image: Image.Image) -> list[FoundFace]:
        return [FoundFace(image, Box(0.0, 0.0, float(image.width), float(image.height), label="face"))]


class DlibFinder:
    """dlib's CNN face detector and five landmarks. Raises ModelError where dlib or its models are not installed."""

    def __init__(self, side: int = SIDE, upsample: int = UPSAMPLE) -> None:
        files = _model_files()
        try:
            import dlib
        except ImportError as error:
            raise _not_installed("dlib") from error
        self._dlib = dlib
        self._side, self._upsample = side, upsample
        with naming("dlib", "load its face models"):
            self._detector = self._dlib.cnn_face_detection_model_v1(str(files.paths["detector"]))
            self._landmarks = self._dlib.shape_predictor(str(files.paths["landmarks"]))
        files.require_unchanged()
        settings = {"faces": "dlib", "side": str(side), "upsample": str(upsample)}
        self.identity: Mapping[str, str] = {**settings, **files.hashes, "dlib": str(self._dlib.__version__)}

    def find(self, image: Image.Image) -> list[FoundFace]:
        """Aligned chips, the largest face first; boxes are the detector's, in pixels, and may reach over the edge."""
        with naming("dlib", "look for faces"):
            scale = self._side / max(image.size)
            width, height = searched_size(image.size, self._side)
            pixels = self._dlib.resize_image(np.asarray(image.convert("RGB")), rows=height, cols=width)
            found = list(self._detector(pixels, self._upsample))
            if not found:
                return []
            faces = self._dlib.full_object_detections()
            for one in found:
                faces.append(self._landmarks(pixels, one.rect))
            chips = self._dlib.get_face_chips(pixels, faces, size=CHIP, padding=PADDING)
        cut = [_face(chip, one, scale) for chip, one in zip(chips, found, strict=True)]
        return sorted(cut, key=lambda face: -face.area)


def searched_size(size: tuple[int, int], side: int) -> tuple[int, int]:
    """Width and height in pixels at which a picture is searched: the longest is `side`, the other rounded down.

    >>> searched_size((5000, 2500), 800)
    (800, 400)
    """
    width, height = (max(1, length * side // max(size)) for length in size)
    return width, height


def _face(chip: Any, found: Any, scale: float) -> FoundFace:
    rect = found.rect
    left, top, right, bottom = rect.left(), rect.top(), rect.right() + 1, rect.bottom() + 1
    score = min(max(float(found.confidence), 0.0), 1.0)
    box = Box(left / scale, top / scale, right / scale, bottom / scale, score, "face")
    return FoundFace(Image.fromarray(chip), box)


def _model_files() -> HashedFiles:
    """The two files out of the package that carries them. It is not imported: it needs an old setuptools for that."""
    spec = importlib.util.find_spec(_PACKAGE)
    folders = list(spec.submodule_search_locations or []) if spec else []
    if not folders:
        raise _not_installed(_PACKAGE)
    paths = {"detector": Path(folders[0], "models", _DETECTOR), "landmarks": Path(folders[0], "models", _LANDMARKS)}
    for path in paths.values():
        require_file(path)
    return HashedFiles.of(paths)


def _not_installed(package: str) -> ModelError:
    return ModelError(
        f"faces are found with dlib, and '{package}' is not installed.",
        remedy="install both it and its models: `pip install 'fairgate[faces]'`; or, where every picture is one face "
        "already, say so in the model's address: fairface:FILE?faces=whole",
    )
