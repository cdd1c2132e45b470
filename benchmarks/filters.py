"""How well the recipes' filters catch failures that were planted in drawn portraits: recall and precision.

    python -m benchmarks.filters [--portraits 200] [--build occupations-embedded]

Half of the pictures are spoilt in one way (grey, another occupation, a distorted body, two people, nobody, another
group than asked for), half are as they should be; the filter is the recipe's own steps with the models and thresholds
of the build in `params.yaml`. Recall is the share of planted failures that were dropped, precision the share of what
was dropped that had been planted. The models are stand-ins of the demonstration data, a test instrument: figures say
that the filters do what they are for, and nothing about real models.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from fairgate.builds.recipes.occupations import OccupationSettings, questions
from fairgate.builds.steps import Meter, SetRows, Step, run_steps
from fairgate.builds.steps.filters import CaptionMatcher, CountColours, EveryCaptionMatches, MatchCaptions, Within
from fairgate.builds.steps.perceive import Ask, MaskPerson, Perceive, Trait
from fairgate.builds.steps.pictures import png
from fairgate.ground.randomness import stream
from fairgate.models.generation import open_model
from fairgate.portraits import standin_data
from fairgate.portraits.draw import draw
from fairgate.portraits.scene import scene_of
from fairgate.portraits.world import ATTRIBUTES, SUBJECTS, caption

SEED = 5_2024
MATCHER = "open_clip:local-dir:build/portraits/checkpoints/base"
MIN_COSINE = 0.6
"""Between what the tiny CLIP gives pictures and their own captions and what it gives those of other occupations. Paper
3's 0.2 was set for CLIP ViT-L/14."""
SIDE = 32
"""Pixels of a side: the size at which the tiny generator paints. Drawn at 96, and scaled."""


@dataclass(frozen=True)
class Sitter:
    """A drawn person and what was asked for."""

    number: int
    subject: str
    skin_tone: str
    gender: str

    @classmethod
    def of(cls, number: int) -> Sitter:
        rng = stream(SEED, "sitter", number)
        tone, gender = (str(rng.choice(ATTRIBUTES[name])) for name in ("skin_tone", "gender"))
        return cls(number, SUBJECTS[number % len(SUBJECTS)], tone, gender)

    def picture(self, **other: str) -> Image.Image:
        """As asked for, or with another subject, skin tone or gender."""
        drawn = {"label": self.subject, "skin_tone": self.skin_tone, "gender": self.gender, **other}
        small = draw(scene_of(SEED, self.subject, self.number), drawn["label"], drawn["skin_tone"], drawn["gender"])
        return small.resize((SIDE, SIDE), Image.Resampling.BICUBIC)

    def other(self, choices: Sequence[str], own: str) -> str:
        """Another one of several, drawn."""
        return str(stream(SEED, "other", self.number).choice([choice for choice in choices if choice != own]))


@dataclass(frozen=True)
class Filter:
    """A way to fail, the reasons that a drop may give for it, and the steps that should drop it."""

    failure: str
    reasons: tuple[str, ...]
    spoil: Callable[[Sitter], Image.Image]
    steps: Callable[[str], Sequence[Step]]


@dataclass(frozen=True)
class Caught:
    """What became of planted failures and of good pictures."""

    failure: str
    reasons: tuple[str, ...]
    planted: int
    caught: int
    good: int
    lost: int

    @property
    def recall(self) -> float:
        """Share of the planted failures that were dropped for the right reason."""
        return self.caught / self.planted

    @property
    def precision(self) -> float:
        """Share of the dropped that were planted failures; NaN where nothing was dropped."""
        dropped = self.caught + self.lost
        return self.caught / dropped if dropped else float("nan")


def filters(settings: OccupationSettings, device: str = "cpu") -> list[Filter]:
    """The filters of a build of `occupations`, and paper 3's of captions."""
    asker, detector, segmenter, reader = (
        open_model(role, getattr(settings, role), device=device)  # type: ignore[arg-type]
        for role in ("asker", "detector", "segmenter", "face_reader")
    )
    matcher = CaptionMatcher(open_model("matcher", MATCHER, device=device))
    thresholds = (settings.person, settings.box_threshold, settings.text_threshold, settings.batch)
    colours: list[Step] = [CountColours(), Within("n_colours", "grey", at_least=settings.min_colours)]
    mask: list[Step] = [MaskPerson(detector, segmenter, *thresholds)]

    def ask(*judge: Step) -> Callable[[str], Sequence[Step]]:
        return lambda subject: [Ask(asker, questions(settings, subject), settings.batch), *judge]

    def perceive(attribute: str) -> Callable[[str], Sequence[Step]]:
        return lambda _: [Perceive(reader, (Trait(attribute, {}),), settings.batch)]

    def spoilt(how: Callable[..., Image.Image]) -> Callable[[Sitter], Image.Image]:
        return lambda sitter: how(sitter.picture(), stream(SEED, "spoil", sitter.number))

    def other_subject(sitter: Sitter) -> Image.Image:
        return sitter.picture(label=sitter.other(SUBJECTS, sitter.subject))

    def other_group(attribute: str) -> Callable[[Sitter], Image.Image]:
        return lambda sitter: sitter.picture(
            **{attribute: sitter.other(ATTRIBUTES[attribute], getattr(sitter, attribute))}
        )

    def pair(sitter: Sitter) -> Image.Image:
        return standin_data.two_people(sitter.picture(), Sitter.of(sitter.number + 10_000).picture())

    def nobody(sitter: Sitter) -> Image.Image:
        return sitter.picture().crop((0, 0, SIDE // 6, SIDE // 6)).resize((SIDE, SIDE), Image.Resampling.BILINEAR)

    matches: list[Step] = [MatchCaptions(matcher), EveryCaptionMatches(MIN_COSINE)]
    present, sound = (
        Within("vqa_present", "not_present", at_least=0.5),
        Within("vqa_distorted", "distorted", at_most=0.5),
    )
    return [
        Filter("grey", ("grey",), lambda sitter: standin_data.grey(sitter.picture()), lambda _: colours),
        Filter("another occupation, asked", ("not_present",), other_subject, ask(present)),
        Filter("another occupation, by CLIP", ("caption_mismatch",), other_subject, lambda _: matches),
        Filter("distorted body", ("distorted",), spoilt(standin_data.distorted), ask(sound)),
        Filter("two people", ("several_persons",), pair, lambda _: mask),
        Filter("nobody", ("no_person",), nobody, lambda _: mask),
        Filter("another skin tone", ("perceived_otherwise",), other_group("skin_tone"), perceive("skin_tone")),
        Filter("another gender", ("perceived_otherwise",), other_group("gender"), perceive("gender")),
        Filter("two faces", ("several_faces",), pair, perceive("skin_tone")),
    ]


def measure(one: Filter, portraits: int) -> Caught:
    """Run a filter over as many spoilt pictures as good ones: `portraits` in all."""
    sitters = [Sitter.of(number) for number in range(portraits)]
    dropped: dict[bool, list[str | None]] = {True: [], False: []}
    for subject in SUBJECTS:
        mine = [sitter for sitter in sitters if sitter.subject == subject]
        bad = {sitter.number: sitter.number // len(SUBJECTS) % 2 == 0 for sitter in mine}
        sets = [_set(sitter, one.spoil(sitter) if bad[sitter.number] else sitter.picture()) for sitter in mine]
        for sitter, trace in zip(mine, run_steps(one.steps(subject), sets, Meter()), strict=True):
            dropped[bad[sitter.number]].append(trace.drop.reason if trace.drop else None)
    caught = sum(reason in one.reasons for reason in dropped[True])
    lost = sum(reason is not None for reason in dropped[False])
    return Caught(one.failure, one.reasons, len(dropped[True]), caught, len(dropped[False]), lost)


def _set(sitter: Sitter, image: Image.Image) -> SetRows:
    groups = {"skin_tone": sitter.skin_tone, "gender": sitter.gender}
    told = caption(sitter.subject, **groups)
    row: dict[str, Any] = {"member": "base", "image": image, "caption": told, **groups}
    set_id = f"{sitter.subject}-{sitter.number}"
    return SetRows(set_id, sitter.subject, ("filters", sitter.number), rows=[row], columns={"base": png(image)})


def settings_of(build: str, root: Path = Path()) -> OccupationSettings:
    """The settings of a build of params.yaml."""
    params = yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8"))["builds"][build]
    known = OccupationSettings.model_fields
    return OccupationSettings(**{name: value for name, value in params.items() if name in known})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--portraits", type=int, default=200, help="per filter, half of them spoilt (default 200)")
    parser.add_argument("--build", default="occupations-embedded", help="whose models and thresholds (params.yaml)")
    asked = parser.parse_args()
    print("| planted failure | dropped as | planted | recall | good | good dropped | precision |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for one in filters(settings_of(asked.build)):
        found = measure(one, asked.portraits)
        precision = "-" if np.isnan(found.precision) else f"{found.precision:.3f}"
        print(
            f"| {found.failure} | {', '.join(found.reasons)} | {found.planted} | {found.recall:.3f} "
            f"| {found.good} | {found.lost} | {precision} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
