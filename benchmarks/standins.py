"""How well the stand-ins for ViLT, GroundingDINO, SAM and FairFace do on pictures that they were not trained on.

    python -m benchmarks.standins [--seeds 2]

The table of docs/evidence/demonstration.md: a held-out drawing of every label and group, at 96 and at 32 pixels, and
pictures that the demonstration's generator paints of all of them. The demonstration data is a test instrument; no
figure here is a fact about real models.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fairgate.ground.randomness import stream
from fairgate.models.generation import Box, Face, Role, open_model
from fairgate.portraits.generator import GUIDANCE, open_pipeline, paint
from fairgate.portraits.scene import scene_of
from fairgate.portraits.standin_data import Portrait, blurred, distorted, noisy, portrait, two_people
from fairgate.portraits.standin_nets import READ
from fairgate.portraits.standins import overlap
from fairgate.portraits.world import GROUPS, LABELS, caption, with_article

WORLD = Path("build/portraits")
HELD_OUT = 31
"""Seed of scenes that nothing was trained on."""
LIMBS, REAL = "Are this person's limbs distorted?", "Is this image real or fake?"
ROLES: tuple[Role, ...] = ("asker", "detector", "segmenter", "face_reader")
Pictures = Sequence[Image.Image]


class Judges:
    """The stand-ins, asked as the recipes ask them."""

    def __init__(self) -> None:
        self.models: dict[str, Any] = {role: open_model(role, f"portraits:{WORLD / 'standins'}") for role in ROLES}

    def labels(self, pictures: Pictures) -> NDArray[np.bool_]:
        """(pictures, labels): whether the asker says that a label is there."""
        questions = [f"Is there {with_article(label)} in this image?" for label in LABELS]
        there: NDArray[np.bool_] = self.models["asker"].ask(pictures, questions, ["yes"])[..., 0] > 0.5
        return there

    def says(self, pictures: Pictures, question: str, answer: str) -> float:
        """The share of pictures to which an answer is the likelier one."""
        return float(np.mean([said[0] == answer for said in self.models["asker"].answer(pictures, [question])]))

    def boxes(self, pictures: Pictures) -> list[list[Box]]:
        """People, as the recipe `occupations` looks for them."""
        found: list[list[Box]] = self.models["detector"].detect(
            pictures, "person", box_threshold=0.35, text_threshold=0.25
        )
        return found

    def right(self, pictures: Pictures, truths: Sequence[dict[str, str]], attribute: str) -> float:
        """The share of pictures whose largest face is perceived as it is."""
        faces: list[list[Face]] = self.models["face_reader"].read(pictures)
        pairs = zip(faces, truths, strict=True)
        return float(
            np.mean([bool(each) and each[0].perceived(attribute) == truth[attribute] for each, truth in pairs])
        )


def spoilt(pictures: Pictures, how: Callable[[Image.Image, np.random.Generator], Image.Image]) -> list[Image.Image]:
    """Every picture with a planted failure."""
    return [how(picture, stream(HELD_OUT, place)) for place, picture in enumerate(pictures)]


def told(judges: Judges, pictures: Pictures, truths: Sequence[dict[str, str]]) -> dict[str, float]:
    """What is measured of drawings and of generated pictures alike."""
    there = judges.labels(pictures)
    right = np.array([[truth["label"] == label for label in LABELS] for truth in truths])
    return {
        '"Is there a ... in this image?" yes where it is': float(there[right].mean()),
        "... yes where it is not": float(there[~right].mean()),
        "distorted limbs found": judges.says(spoilt(pictures, distorted), LIMBS, "yes"),
        "... found in whole pictures": judges.says(pictures, LIMBS, "yes"),
        '"real"': judges.says(pictures, REAL, "real"),
        '"real", when blurred': judges.says(spoilt(pictures, blurred), REAL, "real"),
        '"real", when noisy': judges.says(spoilt(pictures, noisy), REAL, "real"),
        **{f"{name} right": judges.right(pictures, truths, name) for name in READ if name in truths[0]},
        "one box where one person is": float(np.mean([len(each) == 1 for each in judges.boxes(pictures)])),
        "two where two are": float(np.mean([len(each) == 2 for each in judges.boxes(_pairs(pictures))])),
    }


def _pairs(pictures: Pictures) -> list[Image.Image]:
    return [two_people(left, right) for left, right in zip(pictures[::3], pictures[1::3], strict=False)]


def placed(judges: Judges, drawn: Sequence[Portrait], pictures: Pictures) -> dict[str, float]:
    """Boxes and masks, where the truth about them is known."""
    scale = pictures[0].width / drawn[0].picture.shape[1]
    boxes = [each[0] if each else Box(0, 0, 1, 1) for each in judges.boxes(pictures)]
    masks = judges.models["segmenter"].segment(pictures, boxes)
    apart, shared = [], []
    for one, box, mask, picture in zip(drawn, boxes, masks, pictures, strict=True):
        rows, columns = (np.any(one.mask, axis=axis).nonzero()[0] for axis in (1, 0))
        edges = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
        apart.append(overlap(box, Box(*(float(edge) * scale for edge in edges))))
        truth = np.asarray(Image.fromarray(one.mask).convert("L").resize(picture.size, Image.Resampling.BOX)) > 127
        shared.append((mask & truth).sum() / (mask | truth).sum())
    return {
        "box: intersection over union": float(np.mean(apart)),
        "mask: intersection over union": float(np.mean(shared)),
    }


def generated(seeds: int) -> tuple[list[Image.Image], list[dict[str, str]]]:
    """Pictures of every label and group, `seeds` each, with what their captions say."""
    jobs = [(label, *group) for label in LABELS for group in GROUPS for _ in range(seeds)]
    prompts = [caption(label, skin_tone=tone, gender=gender) for label, tone, gender in jobs]
    pictures = paint(open_pipeline(WORLD / "diffusion"), prompts, range(900, 900 + len(jobs)), guidance=GUIDANCE)
    truths = [{"label": label, "skin_tone": tone, "gender": gender} for label, tone, gender in jobs]
    return [Image.fromarray(one) for one in pictures], truths


def show(columns: dict[str, dict[str, float]]) -> Iterable[str]:
    """The lines of a Markdown table."""
    yield f"| | {' | '.join(columns)} |"
    yield f"|---{'|---' * len(columns)}|"
    for name in next(iter(columns.values())):
        cells = [f"{column[name]:.3f}" if name in column else "" for column in columns.values()]
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2, help="generated pictures of every label and group")
    judges, columns = Judges(), {}
    drawn = [
        portrait(scene_of(HELD_OUT, label, n), label, *group) for label in LABELS for n, group in enumerate(GROUPS)
    ]
    truths = [{"label": one.label, **{name: getattr(one, name) for name in READ}} for one in drawn]
    for name, shrink in (("drawn, 96 px", 1), ("drawn, 32 px", 3)):
        pictures = [Image.fromarray(one.picture).reduce(shrink) for one in drawn]
        columns[name] = {**told(judges, pictures, truths), **placed(judges, drawn, pictures)}
    columns["generated"] = told(judges, *generated(parser.parse_args().seeds))
    print("\n".join(show(columns)))


if __name__ == "__main__":
    main()
