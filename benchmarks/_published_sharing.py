"""Counterfactual sets as their authors generate them, written anew: sub-batches with the base member in each.

A set of n captions runs in ceil((n - 1) / 2) sub-batches of equal size, each with the base caption first and filled up
with it. Every layer materialises the scores of every row; while attention is shared, self-attention scores are then
replaced by those of the first row of each half of the guidance.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fairgate.models.generation.diffusion.pipeline import StableDiffusion, joined
from fairgate.models.generation.set_painting import Attempt

if TYPE_CHECKING:
    from PIL.Image import Image

BATCH = 2  # the authors' --batch_size, members beside the base


class MaterialisedAttention:
    """All scores in memory, as the authors' attention layer."""

    def __init__(self) -> None:
        self.shared = False

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        assert attention_mask is None
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query, key, value = (
            attn.head_to_batch_dim(part) for part in (attn.to_q(hidden_states), attn.to_k(context), attn.to_v(context))
        )
        scores = torch.einsum("bid,bjd->bij", query, key) * attn.scale
        if self.shared and encoder_hidden_states is None:
            rows, members = scores.chunk(len(hidden_states)), len(hidden_states) // 2
            scores = torch.cat([rows[0]] * members + [rows[members]] * members)
        seen = torch.einsum("bij,bjd->bid", scores.softmax(dim=-1), value)
        return attn.to_out[0](attn.batch_to_head_dim(seen))


def sub_batches(members: int) -> list[list[int]]:
    """The members of each sub-batch; 0 is the base member, which also fills the last one up.

    >>> sub_batches(4)
    [[0, 1, 2], [0, 3, 0]]
    """
    others = members - 1
    batches = ceil(others / BATCH)
    width = ceil((others + batches) / batches)
    found = []
    for batch in range(batches):
        index = list(range(batch * (width - 1) + 1, min((batch + 1) * (width - 1) + 1, members)))
        found.append(([0, *index] + [0] * width)[:width])
    return found


@torch.inference_mode()
def published_set(parts: StableDiffusion, captions: Sequence[str], attempt: Attempt, steps: int) -> list[Image]:
    """The pictures of one attempt at a set, base member first."""
    attention, before = MaterialisedAttention(), parts.unet.attn_processors
    parts.unet.set_attn_processor(attention)
    pictures: dict[int, Image] = {}
    for batch in sub_batches(len(captions)):
        latents = _sample(parts, [captions[member] for member in batch], attempt, steps, attention)
        for member, picture in zip(batch, parts.decode(latents), strict=True):
            pictures.setdefault(member, picture)
    parts.unet.set_attn_processor(before)
    return [pictures[member] for member in range(len(captions))]


def _sample(
    parts: StableDiffusion, captions: Sequence[str], attempt: Attempt, steps: int, attention: MaterialisedAttention
) -> Tensor:
    """Euler-ancestral steps of one sub-batch; latents (members, 4, height, width)."""
    told = joined([parts.embed_negative(None, len(captions)), parts.embed_prompts(captions)])
    scheduler = parts.scheduler(steps, "euler_ancestral")
    generator = torch.Generator().manual_seed(attempt.seed)
    side = parts.size // parts.vae_factor
    one = (1, parts.latent_channels, side, side)
    first = torch.randn(one, generator=generator).to(parts.device) * scheduler.init_noise_sigma
    latents = first.repeat(len(captions), 1, 1, 1)
    for step, time in enumerate(scheduler.timesteps):
        attention.shared = attempt.share > step / max(steps - 1, 1)
        scaled = scheduler.scale_model_input(latents, time)
        without, seen = parts.predict(torch.cat([scaled, scaled]), time, told).chunk(2)
        noise = without + attempt.guidance * (seen - without)
        generators = [torch.Generator().manual_seed(0) for _ in captions]
        for each in generators:
            each.set_state(generator.get_state())
        latents = scheduler.step(noise, time, latents, generator=generators).prev_sample
        torch.randn(one, generator=generator)
    return latents
