"""`fairface:FILE`: perceived race, gender and age of faces (Karkkainen and Joo 2021), a ResNet-34 with 18 outputs.

The file is one of the authors' two checkpoints or has their layout: a state dict of torchvision's ResNet-34 whose last
layer gives race (the first 7 outputs, or the first 4 of the checkpoint with four races), gender (7 and 8) and age (9 to
17). What is perceived is a guess from a picture, never a fact about a person.

Options follow the file: `?races=4` or `7` where its name does not say, `?faces=whole` takes every picture as one face
(the default is `dlib`), and `side` and `upsample` are dlib's, whose defaults are the authors'.

`dlib` is the authors' own procedure: dlib's CNN detector (mmod) on the picture at 800 pixels a side, doubled once;
five landmarks; aligned chips of 300 pixels with 0.25 padding. docs/evidence/models.md compares the finders that pip
installs, on 252 FairFace photographs: this one misses 2.4% of the faces, dlib's HOG detector a third and OpenCV's
cascade half of them, and not equally many of every group.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL.Image import Image, fromarray

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import (
    Device,
    HashedFiles,
    naming,
    option_number,
    require_file,
    require_weights,
    resolve,
    split_options,
)
from fairgate.models.classifiers.fixed_labels import Loaded, loaded_into
from fairgate.models.generation.perceivers import Perceiver, device_of
from fairgate.models.generation.roles import Box, Face

RACES = {
    7: ("White", "Black", "Latino_Hispanic", "East Asian", "Southeast Asian", "Indian", "Middle Eastern"),
    4: ("White", "Black", "Asian", "Indian"),
}
GENDERS = ("Male", "Female")
AGES = ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "more than 70")
_OUTPUTS, _FIRST_GENDER = 18, 7
_RACES = re.compile(r"(?<![0-9])([47])(?:_?races?|_20\d{6})|fairface_alldata_20191111$")
"""How names say it: res34_fair_align_multi_4_20190809, fairface_alldata_4race_20191111; without a number, of seven."""

SIDE = 800
"""Longest side in pixels at which the authors look for faces; smaller pictures are enlarged to it."""
UPSAMPLE = 1
"""How often the detector doubles the picture: faces of 80 pixels and more are found after that."""
CHIP, PADDING = 300, 0.25
"""Pixels of a chip's side, and how much is added around the aligned face, as a share of it."""

_DETECTOR = "mmod_human_face_detector.dat"
_LANDMARKS = "shape_predictor_5_face_landmarks.dat"
_PACKAGE = "face_recognition_models"


def open_face_reader(uri: str, address: str, *, device: str, base: Path) -> FairFace:
    """Load a checkpoint without running its code, and a face finder. Raises ModelError or DeviceError.

    The reader's `uri` spells every option out, and its fingerprint holds the finder's files.
    """
    where = device_of(device)
    file, options = split_options(uri, address, ("races", "faces", "side", "upsample"))
    side = int(option_number(uri, "side", options.get("side", str(SIDE)), 32, 4096))
    upsample = int(option_number(uri, "upsample", options.get("upsample", str(UPSAMPLE)), 0, 3))
    faces = options.get("faces", "dlib")
    if faces not in ("dlib", "whole"):
        raise ModelError(f"'{uri}' names no face finder: '{faces}'.", remedy="use faces=dlib or faces=whole")
    races = _races_of(uri, file, options.get("races"))
    path = resolve(file, base)
    if not path.exists():
        raise ModelError(
            "the checkpoint of FairFace is not there.",
            where=str(path),
            remedy="its authors link it from the README of github.com/dchen236/FairFace (Google Drive, and a licence); "
            "put fairface_alldata_4race_20191111.pt, or res34_fair_align_multi_7_20190809.pt with ?races=7, there",
        )
    require_weights(path)
    files = HashedFiles.of({"weights": path})
    finder = DlibFinder(side, upsample) if faces == "dlib" else WholeImage()
    loaded = _load(files, races, where)
    files.require_unchanged()
    fingerprint = files.fingerprint(races=str(races), **finder.identity)
    searched = f"&side={side}&upsample={upsample}" if faces == "dlib" else ""
    full = f"fairface:{file}?races={races}&faces={faces}{searched}"
    return FairFace(full, fingerprint, where, loaded, races, finder)


def _races_of(uri: str, file: str, option: str | None) -> int:
    """Four or seven, by the option, else by the file's name. Raises ModelError if neither says it."""
    named = _RACES.search(Path(file).stem)
    races = option or (named and (named[1] or "7"))
    if races not in ("4", "7"):
        raise ModelError(
            f"'{uri}' does not say whether the checkpoint has four or seven races.",
            where=uri,
            remedy="write ?races=4 or ?races=7 after the file",
        )
    return int(races)


def _load(files: HashedFiles, races: int, device: Device) -> Loaded:
    """A checkpoint; its outputs are logits of the races, of the genders and of the ages. Raises ModelError."""
    from torchvision import transforms
    from torchvision.models import resnet34

    steps = [
        transforms.Resize((224, 224)),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
    build, what = partial(resnet34, num_classes=_OUTPUTS), f"a ResNet-34 with {_OUTPUTS} outputs (FairFace)"
    whole = loaded_into(build, files, transforms.Compose(steps), device, what)
    used = [*range(races), *range(_FIRST_GENDER, _OUTPUTS)]
    return Loaded(whole.prepare, lambda prepared: whole.outputs(prepared)[:, used])


class FairFace(Perceiver):
    """`spent` counts "fairface", once per face, and "face_finder", once per image."""

    def __init__(
        self, uri: str, fingerprint: str, device: Device, loaded: Loaded, races: int, finder: DlibFinder | WholeImage
    ) -> None:
        super().__init__(uri, fingerprint, device)
        self._loaded, self._finder = loaded, finder
        self._groups = {"race": RACES[races], "gender": GENDERS, "age": AGES}

    def read(self, images: Sequence[Image]) -> list[list[Face]]:
        """The faces of each image, largest first, each with a softmax over the groups of race, gender and age."""
        found = [self._finder.find(image.convert("RGB")) for image in images]
        self.spent["face_finder"] += len(images)
        chips = [face.chip for faces in found for face in faces]
        with self._running("read faces"):
            outputs = self._loaded.outputs([self._loaded.prepare(chip) for chip in chips]) if chips else ()
        self.spent["fairface"] += len(chips)
        logits = iter(torch.as_tensor(outputs).double())
        return [[Face(self._probabilities(next(logits)), face.box) for face in faces] for faces in found]

    def _probabilities(self, logits: torch.Tensor) -> dict[str, dict[str, float]]:
        if not torch.isfinite(logits).all():
            raise self._diverged()
        parts = torch.split(logits, [len(groups) for groups in self._groups.values()])
        return {
            attribute: dict(zip(groups, torch.softmax(part, dim=0).tolist(), strict=True))
            for (attribute, groups), part in zip(self._groups.items(), parts, strict=True)
        }


@dataclass(frozen=True, slots=True)
class FoundFace:
    """A face, cut out and turned upright, and where it was in the picture."""

    chip: Image
    box: Box


class WholeImage:
    """Takes every picture as one face: for pictures that are face crops already.

    `identity` is plain data that names everything that chips depend on, file digests included.
    """

    identity: Mapping[str, str] = {"faces": "whole"}

    def find(self, image: Image) -> list[FoundFace]:
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

    def find(self, image: Image) -> list[FoundFace]:
        """Aligned chips, the largest face first; boxes are the detector's, in pixels, and may reach over the edge."""
        with naming("dlib", "look for faces"):
            scale = self._side / max(image.size)
            width, height = (max(1, length * self._side // max(image.size)) for length in image.size)
            pixels = self._dlib.resize_image(np.asarray(image.convert("RGB")), rows=height, cols=width)
            found = list(self._detector(pixels, self._upsample))
            if not found:
                return []
            faces = self._dlib.full_object_detections()
            for one in found:
                faces.append(self._landmarks(pixels, one.rect))
            chips = self._dlib.get_face_chips(pixels, faces, size=CHIP, padding=PADDING)
        cut = []
        for chip, one in zip(chips, found, strict=True):
            left, top, right, bottom = one.rect.left(), one.rect.top(), one.rect.right() + 1, one.rect.bottom() + 1
            score = min(max(float(one.confidence), 0.0), 1.0)
            box = Box(left / scale, top / scale, right / scale, bottom / scale, score, "face")
            cut.append(FoundFace(fromarray(chip), box))
        return sorted(cut, key=lambda face: (face.box.left - face.box.right) * (face.box.bottom - face.box.top))


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
