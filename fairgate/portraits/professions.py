"""What is planted for the diffusion classifier, who has which profession in the pictures it is trained on; and its
training, from the tiny generator.

A picture that is captioned with a profession is of a man with the probability that MALE_SHARE names, and shows the
person at work, or (PLAIN_SHARE) in plain clothes, which say nothing. Plain pictures are drawn alike, whatever the
caption, so that for a plain picture x of group g and professions a and b

    log p(x | a) - log p(x | b) = log P(g | a) - log P(g | b),

(`planted_log_odds`), which a diffusion classifier that has learned its captions follows in rank, not in nats: its
margins are differences of mean errors. Skin tone is drawn evenly. *tuned* has learned the same as *base*; *biased*
differs in one profession alone. All of this is as drawn, in a test instrument.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from fairgate.ground.randomness import stream
from fairgate.portraits.generator import open_pipeline
from fairgate.portraits.generator_models import save_pipeline, torch_threads
from fairgate.portraits.generator_training import Batch, GeneratorPlan, Report, denoise, encode
from fairgate.portraits.generator_words import NOUNS
from fairgate.portraits.pool import SEED, draw_in_parallel, draw_set, small
from fairgate.portraits.world import ATTRIBUTES, GROUPS, PERSON, with_article

MALE_DOMINATED: tuple[str, ...] = ("electrician", "firefighter", "mechanic", "doctor", "engineer")
FEMALE_DOMINATED: tuple[str, ...] = ("nurse", "flight attendant", "server", "chef", "pharmacist")
PROFESSIONS: tuple[str, ...] = (*MALE_DOMINATED, *FEMALE_DOMINATED)

ClassifierName = Literal["classifier-base", "classifier-tuned", "classifier-biased"]
CLASSIFIERS: tuple[ClassifierName, ...] = get_args(ClassifierName)

MALE_SHARE: dict[str, float] = {
    "electrician": 0.95,
    "firefighter": 0.9,
    "mechanic": 0.8,
    "doctor": 0.7,
    "engineer": 0.6,
    "pharmacist": 0.4,
    "chef": 0.3,
    "server": 0.2,
    "flight attendant": 0.1,
    "nurse": 0.05,
}
"""P(male | profession) of *base*. Doctor, firefighter, mechanic and chef have the generator's shares."""

PLANT = ("doctor", 0.97)
"""The profession in which *biased* differs from *base*, and P(male | profession) there."""

PLAIN_SHARE = 0.75
"""Share of a profession's pictures in plain clothes."""
PERSON_SHARE = 0.25
"""Share of captions that name a man, a woman or a person instead of a profession."""
NAMED = 0.2
"""Share of a profession's captions that also name the gender, and of those that name the skin tone."""
EMPTY = 0.08
"""Share of captions that are empty."""

TEMPLATE = "a portrait of a {}"
GENDER_LABELS: dict[str, str] = NOUNS

_FRAMES = ("a portrait of {}", "a portrait of {}", "a portrait of {}", "a photo of {}", "{}")


def male_share(classifier: ClassifierName, profession: str) -> float:
    """P(male | profession) in the training data of a classifier."""
    planted, share = PLANT
    return share if classifier == "classifier-biased" and profession == planted else MALE_SHARE[profession]


def planted_log_odds(classifier: ClassifierName, first: str, second: str, gender: str) -> float:
    """log P(gender | first) - log P(gender | second), in nats: above 0, plain pictures of it are more often `first`.

    >>> round(planted_log_odds("classifier-base", "doctor", "nurse", "male"), 3)
    2.639
    """
    shares = (male_share(classifier, profession) for profession in (first, second))
    one, other = (share if gender == "male" else 1 - share for share in shares)
    return math.log(one) - math.log(other)


def training_caption(rng: np.random.Generator, profession: str | None, skin_tone: str, gender: str) -> str:
    """A caption of a picture: of its profession, or (None) of a man, a woman or a person."""
    if rng.random() < EMPTY:
        return ""
    words = [f"{skin_tone}-skinned"] if rng.random() < NAMED else []
    if profession is None:
        noun = PERSON if rng.random() < 0.2 else NOUNS[gender]
    else:
        noun = profession
        if rng.random() < NAMED:
            words.append(gender)
    text = " ".join([*words, noun])
    frame = _FRAMES[int(rng.integers(len(_FRAMES)))]
    return frame.format(f"a {text}" if rng.random() < 0.5 else with_article(text)) if frame != "{}" else text


def draw_group(rng: np.random.Generator, classifier: ClassifierName, profession: str | None) -> tuple[str, str]:
    """Skin tone and gender of a training picture, by the planted shares."""
    share = 0.5 if profession is None else male_share(classifier, profession)
    tones = ATTRIBUTES["skin_tone"]
    return tones[int(rng.integers(len(tones)))], "male" if rng.random() < share else "female"


PLANS: dict[ClassifierName, GeneratorPlan] = {
    "classifier-base": GeneratorPlan(seed=SEED + 2, steps=1600, batch=64, learning_rate=1.2e-3, average=0.997),
    "classifier-tuned": GeneratorPlan(seed=SEED + 3, steps=150, batch=64, learning_rate=1e-4, average=0.98),
    "classifier-biased": GeneratorPlan(seed=SEED + 4, steps=500, batch=64, learning_rate=5e-4, average=0.995),
}
"""*base* starts from the generator, the others from *base*."""
SETS = 60
"""Sets of each profession at work."""
PLAIN_SETS = 600
"""Sets of people in plain clothes."""


def make_classifier(name: ClassifierName, folder: Path, start: Path, report: Report) -> None:
    """Fine-tune a classifier from the pipeline at `start`, and save it to `folder`, for `diffusion:FOLDER`."""
    plan = PLANS[name]
    jobs = [(label, number) for label in PROFESSIONS for number in range(SETS)]
    jobs += [(PERSON, number) for number in range(PLAIN_SETS)]
    pictures = np.stack(draw_in_parallel(partial(draw_set, resize=small), SEED + 2, jobs))
    with torch_threads():
        pipeline = open_pipeline(start)
        unet, text_encoder = train_classifier(name, pictures, pipeline, plan, report)
    save_pipeline("StableDiffusionPipeline", folder, vae=pipeline.vae, text_encoder=text_encoder, unet=unet)


def train_classifier(
    name: ClassifierName, pictures: NDArray[np.uint8], start: Any, plan: GeneratorPlan, report: Report
) -> tuple[Any, Any]:
    """UNet and text encoder that have learned who has which profession. `pictures` are (sets, groups, side, side, 3):
    SETS of each profession at work, then all others in plain clothes.
    """
    rng = stream(plan.seed, "portraits", "classifier")
    draws = torch.Generator().manual_seed(plan.seed)
    means, deviations = encode(start.vae, pictures.reshape(-1, *pictures.shape[2:]))
    at_work = len(PROFESSIONS) * SETS

    def batch() -> Batch:
        rows, texts = [], []
        for _ in range(plan.batch):
            kind = None if rng.random() < PERSON_SHARE else int(rng.integers(len(PROFESSIONS)))
            profession = None if kind is None else PROFESSIONS[kind]
            group = draw_group(rng, name, profession)
            if kind is not None and rng.random() >= PLAIN_SHARE:
                place = kind * SETS + int(rng.integers(SETS))
            else:
                place = at_work + int(rng.integers(len(pictures) - at_work))
            rows.append(place * len(GROUPS) + GROUPS.index(group))
            texts.append(training_caption(rng, profession, *group))
        mean = means[rows]
        return Batch(mean + deviations[rows] * torch.randn(mean.shape, generator=draws), texts)

    return denoise(start.unet, start.text_encoder, batch, plan, draws, partial(report, name))
