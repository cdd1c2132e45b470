"""Models for the tests of `gensynth` and `genswap`, in a world of plain colours: men are blue, women are red.

A photograph is noise with a rectangle of its person's colour. The editor recolours it, and fails as planted: it leaves
the person as it was, or makes it green, which nobody is. Which of these it does is drawn from the seed.
"""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
from PIL import Image

from fairgate.ground.randomness import stream
from fairgate.models.generation import Box, Face

COLOURS = {"male": (40, 60, 220), "female": (220, 60, 40)}
GREEN = (40, 220, 60)
OUTCOMES = {"good": 0.6, "same": 0.25, "green": 0.15}
OPENED = {}
PERSON = (12, 6, 28, 30)


def outcome(seed):
    return str(stream(seed, "outcome").choice(list(OUTCOMES), p=list(OUTCOMES.values())))


def seen(image):
    """Whom a picture shows: male, female or green."""
    colour = np.asarray(image, dtype=float).mean(axis=(0, 1))
    return {2: "male", 0: "female", 1: "green"}[int(colour.argmax())]


def block(rng, size, colour):
    width, height = size
    noise = rng.normal(0, 12, (height, width, 3)) + rng.normal(0, 6, 3)
    return Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8))


class _Fake:
    def __init__(self, uri):
        self.uri, self.fingerprint, self.spent, self.calls = uri, "0" * 64, Counter(), []


class Editor(_Fake):
    def edit(self, image, instructions, seeds, hows):
        self.calls.append((image.size, tuple(instructions), tuple(seeds), tuple(hows)))
        self.spent["unet"] += 3 * sum(how.steps for how in hows)
        return [self._one(image, *each) for each in zip(instructions, seeds, strict=True)]

    def _one(self, image, instruction, seed):
        asked = "female" if instruction.endswith(("woman", "feminine")) else "male"
        if outcome(seed) == "same":
            return image.copy()
        return block(stream(seed, "paint"), image.size, COLOURS[asked] if outcome(seed) == "good" else GREEN)


class Matcher(_Fake):
    def embed_images(self, images):
        colours = np.array([np.asarray(image, dtype=np.float32).mean(axis=(0, 1)) for image in images])
        return colours / np.linalg.norm(colours, axis=1, keepdims=True)


class Detector(_Fake):
    """Finds a face in the upper third, and a smaller one below it; none in every fifth picture, by its size."""

    def detect(self, images, text, *, box_threshold, text_threshold):
        self.calls.append((text, box_threshold, text_threshold))
        return [self._faces(image) for image in images]

    def _faces(self, image):
        if image.width % 5 == 0:
            return []
        third = image.height / 3
        return [Box(3.0, 20.0, 5.0, 22.0, 0.99, "face"), Box(2.5, 1.2, image.width - 2.5, third, 0.8, "face")]


class Facereader(_Fake):
    def read(self, images):
        self.calls.append(len(images))
        return [[Face({"gender": {seen(image): 1.0, "other": 0.0}})] if image.width % 3 else [] for image in images]


def _open(kind):
    def open_it(uri, address, *, device, base):
        OPENED[kind.__name__.lower()] = model = kind(uri)
        return model

    return open_it


open_editor, open_matcher, open_detector = _open(Editor), _open(Matcher), _open(Detector)
open_face_reader = _open(Facereader)


def write_folder(folder, photos, *, seed=0):
    """A COCO-style folder of one-person photographs, every other one a man's; (captions, instances, images)."""
    images = folder / "images"
    images.mkdir(parents=True)
    listed, captions, instances = [], [], []
    for number in range(1, photos + 1):
        rng = stream(seed, "photo", number)
        gender = "male" if number % 2 else "female"
        pixels = rng.integers(0, 256, (36, 40, 3), dtype=np.uint8)
        photo = Image.fromarray(pixels)
        width = PERSON[2] - PERSON[0] - number % 3
        photo.paste(block(rng, (width, PERSON[3] - PERSON[1]), COLOURS[gender]), PERSON[:2])
        photo.save(images / f"{number}.png")
        listed.append({"id": number, "file_name": f"{number}.png", "width": 40, "height": 36})
        noun, their = ("man", "his") if gender == "male" else ("woman", "her")
        for place, text in enumerate([f"A {noun} with {their} dog.", "A doctor at work", f"The {noun}'s coat."]):
            captions.append({"id": 10 * number + place, "image_id": number, "caption": text})
        box = [PERSON[0] + 0.4, PERSON[1] + 0.2, width - 0.7, PERSON[3] - PERSON[1] - 0.5]
        instances.append({"id": number, "image_id": number, "category_id": 1, "bbox": box, "iscrowd": 0})
    return save(folder, listed, captions, instances)


def save(folder, listed, captions, instances):
    categories = [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}]
    paths = {"captions": folder / "captions.json", "instances": folder / "instances.json", "images": folder / "images"}
    paths["captions"].write_text(json.dumps({"images": listed, "annotations": captions}))
    paths["instances"].write_text(json.dumps({"annotations": instances, "categories": categories}))
    return paths
