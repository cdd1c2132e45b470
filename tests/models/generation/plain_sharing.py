"""Attention sharing as published, plainly: every score of every member is made, then replaced by the base member's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairgate.models.generation import Sampling
from fairgate.models.generation.diffusion.pipeline import joined
from fairgate.models.generation.set_painting import Attempt, SetPainting


def paint_set(
    parts: Any, captions: Sequence[str], attempts: Sequence[Attempt], how: Sampling, **options: Any
) -> list[list[Any]]:
    """The pictures of one set, base member first, for every attempt."""
    painting = SetPainting(parts, captions, how, **options)
    canvases = painting.start(attempts)
    painting.advance(canvases)
    return [painting.pictures(canvas) for canvas in canvases]


class PlainAttention:
    """Rows are {unconditional, conditional} x members of one set, or the conditional half alone."""

    def __init__(self, mode: str, members: int, maps: Sequence[tuple[Tensor, Tensor]]) -> None:
        self.mode, self.members, self.maps = mode, members, maps
        self.on = False

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        assert attention_mask is None
        hidden, context = hidden_states, encoder_hidden_states
        mine = hidden if context is None else context
        query, key, value = attn.to_q(hidden), attn.to_k(mine), attn.to_v(mine)
        query, key, value = (attn.head_to_batch_dim(part) for part in (query, key, value))
        scores = torch.einsum("bid,bjd->bij", query, key) * attn.scale
        rows = list(scores.chunk(len(hidden)))
        if self.on and self.mode == "self" and context is None:
            rows = [rows[row // self.members * self.members] for row in range(len(rows))]
        maps = [row.softmax(-1) for row in rows]
        if self.on and self.mode == "cross" and context is not None:
            first = len(maps) - self.members
            for member, (weights, own) in enumerate(self.maps):
                maps[first + member] = maps[first] @ weights + maps[first + member] * own
        seen = torch.einsum("bij,bjd->bid", torch.cat(maps), value)
        return attn.to_out[0](attn.batch_to_head_dim(seen))


@torch.inference_mode()
def plain_latents(
    parts: Any,
    captions: Sequence[str],
    attempt: Attempt,
    steps: int,
    mode: str = "self",
    maps: Sequence[tuple[Tensor, Tensor]] = (),
) -> Tensor:
    """Euler-ancestral by hand over a whole set in one batch, with the set's one noise at every step."""
    scheduler = parts.scheduler(steps, "euler_ancestral")
    halves = 2 if attempt.guidance > 1 else 1
    attention = PlainAttention(mode, len(captions), maps)
    before = parts.unet.attn_processors
    parts.unet.set_attn_processor(attention)
    told = parts.embed_prompts(list(captions))
    both = joined([parts.embed_negative(None, len(captions)), told])
    generator = torch.Generator().manual_seed(attempt.seed)
    one = (1, 4, parts.size // parts.vae_factor, parts.size // parts.vae_factor)
    latents = (torch.randn(one, generator=generator) * scheduler.init_noise_sigma).repeat(len(captions), 1, 1, 1)
    sigmas, times = scheduler.sigmas, scheduler.timesteps
    for step in range(steps):
        attention.on = attempt.share > step / max(steps - 1, 1)
        here, there = float(sigmas[step]), float(sigmas[step + 1])
        scaled = latents / (here**2 + 1) ** 0.5
        if halves == 2:
            without, seen = parts.predict(torch.cat([scaled, scaled]), times[step], both).chunk(2)
            noise = without + attempt.guidance * (seen - without)
        else:
            noise = parts.predict(scaled, times[step], told)
        up = min(there, (there**2 * (here**2 - there**2) / here**2) ** 0.5)
        down = (there**2 - up**2) ** 0.5
        latents = latents + slope(parts, latents, noise, here) * (down - here)
        if there > 0:
            latents = latents + torch.randn(one, generator=generator) * up
    parts.unet.set_attn_processor(before)
    return latents


def slope(parts: Any, latents: Tensor, noise: Tensor, sigma: float) -> Tensor:
    """The derivative towards the finished picture, for models that predict noise or velocity."""
    if parts.scheduler(1).config.prediction_type == "epsilon":
        return noise
    finished = noise * (-sigma / (sigma**2 + 1) ** 0.5) + latents / (sigma**2 + 1)
    return (latents - finished) / sigma
