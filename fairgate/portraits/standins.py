"""Small replacements for ViLT, GroundingDINO, SAM and FairFace: a test instrument, `portraits:FOLDER` as a URI.

Three small networks fill four roles of `fairgate.models.generation.roles` on drawn portraits and on pictures of the
tiny generator, so that recipes run from end to end on a CPU. Their output on a photograph means nothing.
`docs/evidence/demonstration.md` has their accuracy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import maximum_filter

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import find_device
from fairgate.models.generation import Box, Face, Mask
from fairgate.portraits import standin_nets
from fairgate.portraits.generator_models import scaled
from fairgate.portraits.standin_nets import CHIP, FIND, GRID, KINDS, LOOK, NOTHING, READ, Fitted, face_chip, letterbox
from fairgate.portraits.world import LABELS, PERSON

ANSWERS = ("yes", "no", "real", "fake")
LEAST_FACE = 0.3
"""Score from which the face reader takes a box of the finder for a face."""

_IS_THERE = re.compile(r"is there an? ([a-z ]+?) in this (?:image|picture|photo)\?", re.IGNORECASE)
_DISTORTED = "are this person's limbs distorted?"
_REAL = "is this image real or fake?"
_CHUNK = 64

Crop = tuple[int, int, int, int]
"""Left, top, right, bottom in whole pixels."""
Floats = NDArray[np.float32]


class _Net:
    """A network of the folder as a model. Raises ModelError where it is missing, damaged or of another version."""

    net: ClassVar[str]
    side: ClassVar[int]

    def __init__(self, uri: str, address: str, *, device: str, base: Path) -> None:
        net, self.fingerprint = standin_nets.load(address, self.net, base)
        self.uri = uri
        self.spent: Counter[str] = Counter()
        self._device = find_device(device).name
        self._net = net.to(self._device)

    def _run(self, shown: Sequence[NDArray[np.uint8]]) -> list[Any]:
        """The net's outputs for any number of pictures of its size, joined over chunks, on the CPU."""
        self.spent[self.net] += len(shown)
        pictures = scaled(np.reshape(shown, (-1, self.side, self.side, 3)))
        parts = []
        with torch.inference_mode():
            for part in torch.split(pictures, _CHUNK):
                out = self._net(part.to(self._device))
                parts.append([each.float().cpu() for each in (out if isinstance(out, tuple) else (out,))])
        return [torch.cat(each) for each in zip(*parts, strict=True)]


class StandinVQA(_Net):
    """In place of ViLT: answers three kinds of questions with yes, no, real or fake; refuses any other question."""

    net, side = "asker", LOOK

    def ask(
        self, images: Sequence[Image.Image], questions: Sequence[str], answers: Sequence[str]
    ) -> NDArray[np.float64]:
        """Probability of each answer, (images, questions, answers). Raises ModelError for what it does not know."""
        parsed = [_question(question) for question in questions]
        if wrong := [answer for answer in answers if answer not in ANSWERS]:
            raise ModelError(
                f"'{wrong[0]}' is not among the stand-in's answers.",
                where=self.uri,
                remedy=f"choose from {', '.join(ANSWERS)}",
            )
        (logits,) = self._run([standin_nets.pixels(image, LOOK) for image in images])
        labels = logits[:, : NOTHING + 1].double().softmax(dim=1).numpy()
        distorted, real = logits[:, NOTHING + 1 :].double().sigmoid().numpy().T
        yes = {label: labels[:, place] for place, label in enumerate(LABELS)}
        yes |= {PERSON: 1 - labels[:, NOTHING], _DISTORTED: distorted}
        out = np.zeros((len(images), len(questions), len(answers)))
        for column, what in enumerate(parsed):
            said = {"real": real, "fake": 1 - real} if what == _REAL else {"yes": yes[what], "no": 1 - yes[what]}
            for place, answer in enumerate(answers):
                out[:, column, place] = said.get(answer, 0.0)
        return out

    def answer(self, images: Sequence[Image.Image], questions: Sequence[str]) -> list[list[str]]:
        """The likeliest answer to each question about each image."""
        likeliest = self.ask(images, questions, ANSWERS).argmax(axis=2)
        return [[ANSWERS[place] for place in row] for row in likeliest]


class StandinDetector(_Net):
    """In place of GroundingDINO: finds `person` and `face`, up to a handful of each in a picture."""

    net, side = "finder", FIND

    def detect(
        self, images: Sequence[Image.Image], text: str, *, box_threshold: float, text_threshold: float
    ) -> list[list[Box]]:
        """Boxes per image, highest score first; both thresholds hold for the one score that there is."""
        kinds = [part.strip().lower() for part in text.split(".") if part.strip()]
        if wrong := [kind for kind in kinds if kind not in KINDS] or ([text] if not kinds else []):
            raise ModelError(
                f"the stand-in does not know what '{wrong[0]}' is.",
                where=self.uri,
                remedy=did_you_mean(wrong[0], KINDS) or f"choose from {', '.join(KINDS)}",
            )
        return self.find(images, kinds, max(box_threshold, text_threshold))

    def find(self, images: Sequence[Image.Image], kinds: Sequence[str], least: float) -> list[list[Box]]:
        """Boxes of these kinds with at least this score."""
        fitted = [letterbox(image) for image in images]
        centres, edges, _ = self._run([one.square for one in fitted])
        found = zip(images, fitted, centres.sigmoid().numpy(), edges.numpy(), strict=True)
        return [_boxes(*one, kinds, least) for one in found]


class StandinSegmenter(_Net):
    """In place of SAM: the outline of the person in a box."""

    net, side = "finder", FIND

    def segment(self, images: Sequence[Image.Image], boxes: Sequence[Box]) -> list[Mask]:
        """One mask per image, False everywhere outside of its box."""
        if len(images) != len(boxes):
            raise ModelError(
                f"{len(images)} images and {len(boxes)} boxes.", where=self.uri, remedy="give one box for each image"
            )
        surrounds = [_surrounds(image, box) for image, box in zip(images, boxes, strict=True)]
        fitted = [letterbox(image.crop(around)) for image, around in zip(images, surrounds, strict=True)]
        _, _, outlines = self._run([one.square for one in fitted])
        found = zip(images, boxes, surrounds, fitted, outlines.numpy(), strict=True)
        return [_mask(*one) for one in found]


class StandinFaceReader(_Net):
    """In place of FairFace: perceives `skin_tone`, `gender` and `age` of the faces that the finder finds."""

    net, side = "reader", CHIP

    def __init__(self, uri: str, address: str, *, device: str, base: Path) -> None:
        super().__init__(uri, address, device=device, base=base)
        self._finder = StandinDetector(uri, address, device=device, base=base)
        self.fingerprint = digest([self.fingerprint, self._finder.fingerprint])

    def read(self, images: Sequence[Image.Image]) -> list[list[Face]]:
        """The faces of each image, largest first; empty where none was found."""
        boxes_found = self._finder.find(images, ["face"], LEAST_FACE)
        found = [sorted(boxes, key=_area, reverse=True) for boxes in boxes_found]
        self.spent["finder"] = self._finder.spent["finder"]
        chips = [
            face_chip(image, (box.left, box.top, box.right, box.bottom))
            for image, boxes in zip(images, found, strict=True)
            for box in boxes
        ]
        (logits,) = self._run(chips)
        parts = logits.double().split([len(groups) for groups in READ.values()], dim=1)
        tables = [part.softmax(dim=1).numpy() for part in parts]
        perceived = iter(
            {name: dict(zip(READ[name], map(float, row), strict=True)) for name, row in zip(READ, rows, strict=True)}
            for rows in zip(*tables, strict=True)
        )
        return [[Face(next(perceived), box) for box in boxes] for boxes in found]


# the entry points `fairgate.roles`
open_asker, open_detector = StandinVQA, StandinDetector
open_segmenter, open_face_reader = StandinSegmenter, StandinFaceReader


def _question(question: str) -> str:
    """The subject of a question: a label, `person`, or another known question. Raises ModelError for others."""
    plain = " ".join(question.split()).lower().replace("’", "'")
    if plain in (_DISTORTED, _REAL):
        return plain
    named = _IS_THERE.fullmatch(plain)
    if named and named[1] in (*LABELS, PERSON):
        return named[1]
    if named:
        raise ModelError(
            f"the stand-in does not know what a '{named[1]}' looks like.",
            where=question,
            remedy=did_you_mean(named[1], LABELS) or f"choose from {', '.join([*LABELS, PERSON])}",
        )
    raise ModelError(
        "the stand-in does not understand the question.",
        where=question,
        remedy="questions: 'Is there a LABEL in this image?', 'Are this person's limbs distorted?' or "
        "'Is this image real or fake?'",
    )


def _area(box: Box) -> float:
    return (box.right - box.left) * (box.bottom - box.top)


SAME = 0.5
"""Overlap (intersection over union) from which the weaker of two boxes of a kind is the same thing found twice."""
_MARGIN = 0.08
"""Of the box's longer side, added on every side before its outline is looked for."""


def _boxes(
    picture: Image.Image, fitted: Fitted, scores: Floats, edges: Floats, kinds: Sequence[str], least: float
) -> list[Box]:
    """Peaks of the grid (kinds, GRID, GRID) with at least this score, as boxes, highest score first."""
    cell = fitted.scale * FIND / GRID
    found: list[Box] = []
    for kind in kinds:
        grid, reach = scores[KINDS.index(kind)], edges[KINDS.index(kind)]
        for row, column in np.argwhere((grid == maximum_filter(grid, 3)) & (grid >= least)):
            left, top, right, bottom = reach[:, row, column]
            found.append(
                Box(
                    left=max(0.0, float(column + 0.5 - left) * cell),
                    top=max(0.0, float(row + 0.5 - top) * cell),
                    right=min(float(picture.width), float(column + 0.5 + right) * cell),
                    bottom=min(float(picture.height), float(row + 0.5 + bottom) * cell),
                    score=float(grid[row, column]),
                    label=kind,
                )
            )
    distinct: list[Box] = []
    for box in sorted(found, key=lambda box: -box.score):
        doubled = any(box.label == other.label and overlap(box, other) > SAME for other in distinct)
        if box.right > box.left and box.bottom > box.top and not doubled:
            distinct.append(box)
    return distinct


def overlap(one: Box, other: Box) -> float:
    """Intersection over union of two boxes."""
    wide = min(one.right, other.right) - max(one.left, other.left)
    high = min(one.bottom, other.bottom) - max(one.top, other.top)
    both = max(0.0, wide) * max(0.0, high)
    return both / max(_area(one) + _area(other) - both, 1e-9)


def _surrounds(picture: Image.Image, box: Box) -> Crop:
    """The part of a picture in which the finder looks for the outline of the person in a box, in whole pixels."""
    margin = _MARGIN * max(box.right - box.left, box.bottom - box.top)
    left, top = max(0, int(np.floor(box.left - margin))), max(0, int(np.floor(box.top - margin)))
    right = min(picture.width, int(np.ceil(box.right + margin)))
    bottom = min(picture.height, int(np.ceil(box.bottom + margin)))
    return left, top, max(right, left + 1), max(bottom, top + 1)


def _mask(picture: Image.Image, box: Box, around: Crop, fitted: Fitted, outline: Floats) -> Mask:
    """The mask (height, width) of the whole picture, from outline logits (FIND / 2, FIND / 2) of a part of it."""
    left, top, right, bottom = around
    width, height = right - left, bottom - top
    used = (width / fitted.scale / 2, height / fitted.scale / 2)
    filled = Image.fromarray(outline).resize((width, height), Image.Resampling.BICUBIC, box=(0.0, 0.0, *used))
    whole = np.zeros((picture.height, picture.width), bool)
    whole[top:bottom, left:right] = np.asarray(filled) > 0
    rows, columns = np.arange(picture.height)[:, None] + 0.5, np.arange(picture.width)[None] + 0.5
    inside = (rows > box.top - 1) & (rows < box.bottom + 1)
    inside = inside & (columns > box.left - 1) & (columns < box.right + 1)
    mask: Mask = whole & inside
    return mask
