"""What the diffusion classifier costs, and how much of it computing each error once and stopping early save.

    python -m benchmarks.probes [--model build/portraits/classifiers/base] [--sets 8] [--samples 100]

Twelve prompts: ten professions in 25 pairs, and a man against a woman. The plain procedure (one classification a pair,
as paper 2 reports it) evaluates two prompts for each of 26 comparisons. Computing the error of a picture under a prompt
once needs 12 prompts; the decisions of two pictures must be the same to the last one, under the same noise. Stopping
early is tuned on half of the sets (the smallest certainty with which no more than one decision in 400 differs from that
of all samples) and counted on the other half; decisions of a picture, and pictures of a set, are not independent, so
that the count bounds nothing. Evaluations of the UNet are counted, not timed. All are test instruments.

With `--half` instead: errors and decisions of a UNet in bfloat16 (fairgate on a GPU) and in float16 (the default of Li
et al.'s code), next to float32, under the same noise, on this processor.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fairgate.formulas.metrics import pair_choices
from fairgate.models import Floats
from fairgate.models.generation.diffusion.files import PipelineAddress, find_pipeline
from fairgate.models.generation.diffusion.pipeline import StableDiffusion
from fairgate.models.generation.diffusion_classifier.engine import DenoisingErrors
from fairgate.models.generation.diffusion_classifier.sampling import settle
from fairgate.portraits.draw import draw
from fairgate.portraits.pool import RELEASE_SEED
from fairgate.portraits.professions import FEMALE_DOMINATED, GENDER_LABELS, MALE_DOMINATED, TEMPLATE
from fairgate.portraits.scene import scene_of
from fairgate.portraits.world import GROUPS, PERSON, with_article

CERTAINTIES = (1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0)
ALLOWED = 1 / 400
Pairs = tuple[Sequence[int], Sequence[int]]


def main() -> int:
    """Print the tables; 1 where a decision differs under the same noise."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, default=Path("build/portraits/classifiers/base"))
    parser.add_argument("--sets", type=int, default=8)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--errors", type=Path, help="an .npy file: read if it is there, else written")
    parser.add_argument("--half", action="store_true", help="compare half precisions")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = StableDiffusion(find_pipeline(PipelineAddress(str(options.model)), Path()), str(options.model), "cpu")
    engine = DenoisingErrors(model, samples=options.samples)
    words = [*MALE_DOMINATED, *FEMALE_DOMINATED, *GENDER_LABELS.values()]
    prompts = [TEMPLATE.removesuffix("a {}") + with_article(word) for word in words]
    if options.half:
        return half_precisions(engine, prompts, options.sets)
    if options.errors and options.errors.is_file():
        errors = np.load(options.errors)
    else:
        errors = measured(engine, prompts, options.sets)
        if options.errors:
            np.save(options.errors, errors)
    print(f"{options.model}: {len(errors)} pictures, {options.samples} samples, {len(prompts)} prompts")
    questions: list[Pairs] = [(range(5), range(5, 10)), ([10], [11])]
    plain = options.samples * 2 * sum(len(first) * len(second) for first, second in questions)
    shared = options.samples * len(prompts)
    same = identical(engine, prompts, errors, questions)
    print(f"UNet evaluations a picture, pair by pair: {plain:,}; each error once: {shared:,} ({shared / plain:.1%})")
    print(f"decisions of two pictures that differ under the same noise: {same}")
    half = len(errors) // 2
    certainty = tuned(errors[:half], questions)
    agree, spent = early(errors[half:], questions, certainty)
    print(f"stopping early at {certainty} standard errors, tuned on {half} pictures, counted on {len(errors) - half}:")
    print(f"  {spent:,.0f} evaluations a picture ({spent / plain:.1%} of pair by pair)")
    sets = len(errors[half:]) // len(GROUPS)
    print(f"  {(~agree).sum()} of {agree.size} decisions differ, on {len(agree)} pictures of {sets} sets (no bound)")
    return 1 if same else 0


def half_precisions(engine: DenoisingErrors, prompts: Sequence[str], sets: int) -> int:
    """Print by how much errors of half precision differ from float32's, and how many decisions."""
    questions: list[Pairs] = [(range(5), range(5, 10)), ([10], [11])]
    whole = measured(engine, prompts, sets).mean(axis=1)
    men = np.array([gender == "male" for _, gender in GROUPS] * sets)
    print(f"{len(whole)} pictures, {engine.samples} samples; float32: mean error {whole.mean():.4f}")
    for dtype in (torch.bfloat16, torch.float16):
        engine.model.dtype, _ = dtype, engine.model.unet.to(dtype)
        half = measured(engine, prompts, sets).mean(axis=1)
        own, theirs = (decisions(errors, questions) for errors in (half, whole))
        apart = [float(each[men, :25].mean() - each[~men, :25].mean()) for each in (own, theirs)]
        between = np.ptp(whole, axis=1).mean()
        off = np.abs(half - whole)
        print(
            f"{dtype}: errors differ by {off.mean():.1e} on average, {off.max():.1e} at most (prompts of a picture by "
            f"{between:.1e}); {int((own != theirs).sum())} of {own.size} decisions differ; differential S "
            f"{apart[0]:.3f}, {apart[1]:.3f} in float32"
        )
    return 0


def measured(engine: DenoisingErrors, prompts: Sequence[str], sets: int) -> Floats:
    """Errors of people in plain clothes, (pictures, samples, prompts)."""
    found = []
    with torch.inference_mode():
        shown = engine.model.embed_prompts(list(prompts))
        for number in range(sets):
            scene = scene_of(RELEASE_SEED, PERSON, number)
            latents = torch.cat([engine.latents(draw(scene, PERSON, *group)) for group in GROUPS])
            found.append(engine(latents, [f"person-{number:04d}"] * len(GROUPS), shown))
    return np.concatenate(found)


def decisions(errors: Floats, questions: Sequence[Pairs]) -> Floats:
    """Of every question's pairs, by mean errors (pictures, prompts): (pictures, pairs)."""
    of = [
        pair_choices(errors[:, list(one)], errors[:, list(other)]).reshape(len(errors), -1) for one, other in questions
    ]
    return np.concatenate(of, axis=1)


def identical(engine: DenoisingErrors, prompts: Sequence[str], errors: Floats, questions: Sequence[Pairs]) -> int:
    """Decisions of two pictures that differ where every pair is classified by itself, from the picture on."""
    scene = scene_of(RELEASE_SEED, PERSON, 0)
    pairs = [(a, b) for first, second in questions for a in first for b in second]
    apart = []
    with torch.inference_mode():
        latents = torch.cat([engine.latents(draw(scene, PERSON, *group)) for group in GROUPS[:2]])
        for a, b in pairs:
            shown = engine.model.embed_prompts([prompts[a], prompts[b]])
            found = engine(latents, ["person-0000"] * 2, shown).mean(axis=1)
            apart.append(pair_choices(found[:, :1], found[:, 1:]).ravel())
    return int((np.stack(apart, axis=1) != decisions(errors[:2].mean(axis=1), questions)).sum())


def early(errors: Floats, questions: Sequence[Pairs], certainty: float) -> tuple[NDArray[np.bool_], float]:
    """Which decisions agree with those of all samples, (pictures, pairs), and evaluations a picture."""
    samples, spent, found = errors.shape[1], 0, []
    for picture in errors:
        row = []
        for first, second in questions:
            own = picture[:, [*first, *second]]

            def evaluate(who: Sequence[int], at: NDArray[np.int64], own: Floats = own) -> Floats:
                nonlocal spent
                spent += len(who) * len(at)
                return own[at][:, who]

            row.append(settle(evaluate, (len(first), len(second)), samples, certainty).ravel())
        found.append(np.concatenate(row))
    agree = np.stack(found) == decisions(errors.mean(axis=1), questions)
    return agree, spent / len(errors)


def tuned(errors: Floats, questions: Sequence[Pairs]) -> float:
    """The smallest certainty with which at most ALLOWED of the decisions differ."""
    return next((one for one in CERTAINTIES if early(errors, questions, one)[0].mean() >= 1 - ALLOWED), CERTAINTIES[-1])


if __name__ == "__main__":
    sys.exit(main())
