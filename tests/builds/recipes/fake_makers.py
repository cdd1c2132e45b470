"""Models for recipes' tests that play every role by reading and writing a few pixels: what happens is plain to see.

A picture is noise, and its first pixel carries its facts: red the occupation is there, limbs are whole and the picture
is in colour (bits 1, 2, 4), how many persons there are (from bit 8 on); green how real it looks; blue which group is
seen in it (0: none yet). All of it is drawn from the seed.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from PIL import Image

from fairgate.ground.randomness import stream
from fairgate.models.generation import Box, Face

SIDE = 16
GROUPS = ["light", "tan", "brown", "dark"]
FAILS = {"light": 0.1, "tan": 0.2, "brown": 0.3, "dark": 0.5}
"""How often inpainting shows somebody else than its prompt asked for."""


class _Fake:
    def __init__(self, uri):
        self.uri, self.fingerprint, self.spent = uri, "0" * 64, Counter()
        self.calls = Counter()


def facts(image):
    red, green, blue = (int(value) for value in np.asarray(image)[0, 0])
    return {
        "present": bool(red & 1),
        "whole": bool(red & 2),
        "colour": bool(red & 4),
        "persons": red >> 3,
        "real": green / 255,
        "group": blue,
    }


class Painter(_Fake):
    def paint(self, prompts, seeds, how):
        self.spent["unet"] += 2 * how.steps * len(prompts)
        return [self._one(seed) for seed in seeds]

    def _one(self, seed):
        rng = stream(seed, "painter")
        pixels = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        colour = rng.random() < 0.9
        if not colour:
            pixels[..., 1] = pixels[..., 2] = pixels[..., 0] // 16
            pixels[..., 0] = pixels[..., 1]
        flags = (rng.random() < 0.85) + 2 * (rng.random() < 0.9) + 4 * colour
        persons = int(rng.choice([0, 1, 2], p=[0.05, 0.85, 0.1]))
        pixels[0, 0] = (flags + 8 * persons, rng.integers(256), 0)
        return Image.fromarray(pixels)


class Inpainter(_Fake):
    def inpaint(self, images, masks, prompts, seeds, how):
        return [self._one(*each, how) for each in zip(images, masks, prompts, seeds, strict=True)]

    def _one(self, image, mask, prompt, seed, how):
        self.spent["unet"] += 2 * int(how.steps * how.strength)
        [asked] = [group for group in GROUPS if f"{group}-skinned" in prompt]
        rng = stream(seed, "inpainter", prompt)
        shown = str(rng.choice(GROUPS)) if rng.random() < FAILS[asked] else asked
        pixels = np.array(image)
        pixels[mask] = stream(seed, "noise").integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)[mask]
        pixels[0, 0, 2] = 1 + GROUPS.index(shown)
        return Image.fromarray(pixels)


class VQAModel(_Fake):
    def ask(self, images, questions, answers):
        self.calls["ask"] += 1
        self.calls["pictures"] += len(images)
        table = []
        for image in images:
            known = facts(image)
            about = []
            for question in questions:
                if question.startswith("Is there a doctor"):
                    told = {"yes": 0.8 if known["present"] else 0.1, "no": 0.1 if known["present"] else 0.8}
                elif "limbs" in question:
                    told = {"yes": 0.1 if known["whole"] else 0.8, "no": 0.8 if known["whole"] else 0.1}
                else:
                    told = {"real": known["real"]}
                about.append([told.get(answer, 0.0) for answer in answers])
            table.append(about)
        return np.array(table)


class Detector(_Fake):
    def detect(self, images, text, *, box_threshold, text_threshold):  # noqa: ARG002
        boxes = [Box(2, 2, SIDE - 2, SIDE, 0.9, text), Box(0, 0, 4, 4, 0.5, text)]
        return [boxes[: facts(image)["persons"]] for image in images]


class Segmenter(_Fake):
    def segment(self, images, boxes):  # noqa: ARG002
        masks = []
        for box in boxes:
            mask = np.zeros((SIDE, SIDE), dtype=np.bool_)
            mask[int(box.top) : int(box.bottom), int(box.left) : int(box.right)] = True
            masks.append(mask)
        return masks


class FaceReader(_Fake):
    def read(self, images):
        self.calls["read"] += len(images)
        found = []
        for image in images:
            seen = facts(image)["group"]
            if not 1 <= seen <= len(GROUPS):
                found.append([])  # a face without a group is none
                continue
            shares = {group: 0.7 if place == seen - 1 else 0.1 for place, group in enumerate(GROUPS)}
            found.append([Face({"skin_tone": shares, "gender": {"Male": 0.9, "Female": 0.1}})])
        return found


OPENED = {}
"""The model of each role that was opened last: tests look at what it was asked."""


def _opener(role, kind):
    def open_it(uri, address, *, device, base):
        OPENED[role] = kind(uri)
        return OPENED[role]

    return open_it


open_painter = _opener("painter", Painter)
open_inpainter = _opener("inpainter", Inpainter)
open_asker = _opener("asker", VQAModel)
open_detector = _opener("detector", Detector)
open_segmenter = _opener("segmenter", Segmenter)
open_face_reader = _opener("face_reader", FaceReader)
