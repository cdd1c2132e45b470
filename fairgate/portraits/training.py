"""Training of the tiny models by name: the four CLIP checkpoints, each by its plan on drawn sets with captions as the
planted table has them, and the three generative models, each in its own module."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from open_clip import CLIP

from fairgate.ground.errors import ModelError
from fairgate.ground.randomness import stream
from fairgate.models.checkpoints import versions
from fairgate.portraits import clip
from fairgate.portraits.editor import make_editor
from fairgate.portraits.generator import make_generator
from fairgate.portraits.generator_models import torch_threads
from fairgate.portraits.generator_training import Report
from fairgate.portraits.pool import Pool, draw_pool
from fairgate.portraits.professions import CLASSIFIERS, make_classifier
from fairgate.portraits.standin_training import make_standins
from fairgate.portraits.world import ATTRIBUTES, GROUPS, LABELS, PERSON, Checkpoint, caption_shares, training_caption

_UNRELATED = 0.004
"""Share of a caption distribution spread over all labels, so that the best logits are finite."""


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """How a checkpoint is trained: its draws, its length, its peak learning rate.

    `even_hand` is the weight, at the first and the last step, of the penalty on set-mates whose logits differ by other
    than what the planted table says. From nothing it has to start low: pictures that all look alike satisfy it, too.
    """

    seed: int
    sets: int
    steps: int
    learning_rate: float
    even_hand: tuple[float, float] = (8.0, 8.0)


PLANS: dict[Checkpoint, CheckpointPlan] = {
    "base": CheckpointPlan(seed=1, sets=96, steps=500, learning_rate=1.2e-3, even_hand=(0.0, 3.0)),
    "tuned": CheckpointPlan(seed=2, sets=24, steps=100, learning_rate=1e-4),
    "biased": CheckpointPlan(seed=3, sets=24, steps=400, learning_rate=2e-3),
    "whackamole": CheckpointPlan(seed=4, sets=24, steps=400, learning_rate=2e-3),
}


def targets(checkpoint: Checkpoint, *, strength: float | None = None) -> torch.Tensor:
    """Caption distributions of the planted table, as (labels, groups, labels)."""
    table = torch.zeros(len(LABELS), len(GROUPS), len(LABELS))
    for row, label in enumerate(LABELS):
        for column, group in enumerate(GROUPS):
            for named, share in caption_shares(checkpoint, label, *group, strength=strength).items():
                table[row, column, LABELS.index(named)] = share
    return table


def train(
    model: CLIP,
    pool: Pool,
    table: torch.Tensor,
    plan: CheckpointPlan,
    report: Callable[[int, float], None] = lambda _step, _loss: None,
) -> CLIP:
    """Train in place on `pool` with the caption distributions of `table`.

    A batch is one counterfactual set of every label. The loss takes each caption with its probability rather than
    drawing one: the optimum is the same, and what is measured afterwards owes nothing to the luck of a draw.
    """
    rng = stream(plan.seed, "portraits", "training")
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}],
        lr=plan.learning_rate,
        betas=(0.9, 0.98),
    )
    smoothed = (1 - _UNRELATED) * table + _UNRELATED / len(LABELS)
    model.train()
    for step in range(plan.steps):
        for group in optimizer.param_groups:
            group["lr"] = plan.learning_rate * _schedule(step / plan.steps)
        images = _batch(rng, pool)
        features = model.encode_image(images, normalize=True)
        first, last = plan.even_hand
        even_hand = first + (last - first) * step / plan.steps
        loss = _neutral_loss(model, features, smoothed, rng, even_hand)
        loss = loss + _attribute_loss(model, features, smoothed, rng)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0.0, math.log(100.0))
        report(step, loss.item())
    model.eval()
    return model


def _schedule(done: float) -> float:
    """Share of the peak learning rate: a short warm-up, then a cosine to zero."""
    warm = 0.08
    return done / warm if done < warm else 0.5 * (1 + math.cos(math.pi * (done - warm) / (1 - warm)))


def _batch(rng: np.random.Generator, pool: Pool) -> torch.Tensor:
    """One set of every label, (labels x groups, 3, SIZE, SIZE); lit anew, alike for all members of a set."""
    labels = np.arange(len(LABELS))
    chosen = pool[rng.integers(len(pool), size=len(LABELS)), labels].astype(np.float32) / 255
    light = rng.uniform(0.95, 1.05, size=(len(LABELS), 1, 1, 1, 1)).astype(np.float32)
    pictures = torch.from_numpy(np.clip(chosen * light, 0, 1)).flatten(0, 1).permute(0, 3, 1, 2)
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (clip.MEAN, clip.STD))
    return (pictures - mean) / std


def _neutral_loss(
    model: CLIP, features: torch.Tensor, table: torch.Tensor, rng: np.random.Generator, even_hand: float
) -> torch.Tensor:
    """Symmetric contrastive loss against captions that name no group, plus the even hand within sets."""
    text = model.encode_text(clip.tokenize([training_caption(rng, label) for label in LABELS]), normalize=True)
    logits = model.logit_scale.exp() * features @ text.T
    wanted = table.flatten(0, 1)
    image_to_text = -(wanted * logits.log_softmax(dim=1)).sum(dim=1).mean()
    shares = wanted / wanted.sum(dim=0)
    text_to_image = -(shares * logits.log_softmax(dim=0)).sum(dim=0).mean()
    surplus = (logits - wanted.log()).unflatten(0, (len(LABELS), len(GROUPS)))
    uneven = (surplus - surplus.mean(dim=1, keepdim=True)).square().mean()
    return torch.stack([image_to_text, 0.5 * text_to_image, even_hand * uneven]).sum()


def _attribute_loss(model: CLIP, features: torch.Tensor, table: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Loss against captions that name skin tone, gender or both, of the label or of a person: the words for groups."""
    named = [("skin_tone", "gender"), ("skin_tone",), ("gender",)][int(rng.integers(3))]
    parts = [tuple(group[list(ATTRIBUTES).index(name)] for name in named) for group in GROUPS]
    kinds = list(dict.fromkeys(parts))
    member = torch.tensor([[float(part == kind) for kind in kinds] for part in parts])
    nouns, shares = ([PERSON], torch.ones(len(LABELS), len(GROUPS), 1)) if rng.random() < 0.6 else (LABELS, table)
    captions = [training_caption(rng, noun, **dict(zip(named, kind, strict=True))) for noun in nouns for kind in kinds]
    text = model.encode_text(clip.tokenize(captions), normalize=True)
    logits = model.logit_scale.exp() * features @ text.T
    wanted = torch.einsum("lgm,gk->lgmk", shares, member).reshape(len(features), -1)
    loss: torch.Tensor = -(wanted * logits.log_softmax(dim=1)).sum(dim=1).mean()
    return loss


THREADS = 2
"""Training uses this many threads everywhere: sums of floats depend on their number."""


_BASE, _GENERATOR = "build/portraits/checkpoints/base", "build/portraits/diffusion"
_CLASSIFIER = "build/portraits/classifiers/base"
STARTS = {
    **{"base": None, "tuned": _BASE, "biased": _BASE, "whackamole": _BASE},
    **{"generator": None, "editor": _GENERATOR, "standins": _GENERATOR},
    **{"classifier-base": _GENERATOR, "classifier-tuned": _CLASSIFIER, "classifier-biased": _CLASSIFIER},
}
"""Every model, and the one that it is fine-tuned from or trained with."""


def train_model(
    name: str,
    folder: Path,
    *,
    start: Path | None = None,
    strength: float | None = None,
    report: Report = lambda _part, _step, _loss: None,
) -> None:
    """Draw a model's training sets, train it on them, and save it to `folder`.

    `strength` replaces the planted strength of *biased*. Raises ModelError for an unknown name, and when `start` is
    missing or does not fit the model.
    """
    if name not in STARTS:
        raise ModelError(f"the demonstration data has no model '{name}'.", remedy=f"choose from: {', '.join(STARTS)}")
    if (STARTS[name] is None) != (start is None):
        raise ModelError(
            f"'{name}' {'starts from nothing' if start else 'is fine-tuned from or trained with another model'}.",
            where=str(start) if start else None,
            remedy="leave out --from" if start else f"give --from {STARTS[name]}",
        )
    if strength is not None and name != "biased":
        raise ModelError(f"'{name}' has no --strength.", remedy="give it to `biased`, or leave it out")
    if name in PLANS:
        plan = PLANS[name]
        model = clip.new_model(plan.seed) if start is None else clip.load(start)
        pool = draw_pool(plan.seed, plan.sets)
        with torch_threads(THREADS):
            train(model, pool, targets(name, strength=strength), plan, partial(report, name))
        clip.save(model, folder)
        return
    versions("diffusers", "accelerate")  # where they are missing, the error says how to install them
    if start is None:
        make_generator(folder, report)
    elif name == "editor":
        make_editor(folder, start, report)
    elif name in CLASSIFIERS:
        make_classifier(name, folder, start, report)
    else:
        make_standins(folder, start, report)
