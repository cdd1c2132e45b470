"""The four checkpoints: each trained by its plan, from nothing or from *base*, into a folder that open_clip loads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fairgate.errors import ModelError
from fairgate.portraits import clip
from fairgate.portraits.planted import CHECKPOINTS, Checkpoint
from fairgate.portraits.pool import draw_pool
from fairgate.portraits.training import PLANS, targets, train

THREADS = 2
"""Training uses this many threads everywhere: sums of floats depend on their number."""


def train_checkpoint(
    name: Checkpoint,
    folder: Path,
    *,
    start: Path | None = None,
    strength: float | None = None,
    report: Callable[[int, float], None] = lambda _step, _loss: None,
) -> None:
    """Draw the checkpoint's training sets, train on them, and save to `folder`.

    *base* starts from nothing; the others are fine-tuned from the checkpoint at `start`. `strength` replaces the
    planted strength of *biased*. Raises ModelError when `start` is missing or does not fit the checkpoint.
    """
    import torch

    if name not in CHECKPOINTS:
        raise ModelError(
            f"the embedded world has no checkpoint '{name}'.", remedy=f"choose from: {', '.join(CHECKPOINTS)}"
        )
    if (name == "base") != (start is None):
        raise ModelError(
            f"'{name}' {'starts from nothing' if name == 'base' else 'is fine-tuned from another checkpoint'}.",
            where=str(start) if start else None,
            remedy="leave out --from" if name == "base" else "give --from build/portraits/checkpoints/base",
        )
    plan = PLANS[name]
    model = clip.new_model(plan.seed) if start is None else clip.load(start)
    pool = draw_pool(plan.seed, plan.sets)
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        train(model, pool, targets(name, strength=strength), plan, report)
    finally:
        torch.set_num_threads(threads)
    clip.save(model, folder)
