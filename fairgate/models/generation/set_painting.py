"""Painting counterfactual sets: members start from one noise, meet the same noise at every step, and share attention.

One UNet evaluation per member, step and half of the guidance, and no more: a set that does not fit into one pass is
split inside each step, and the later pieces reuse the base member's queries and keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from fairgate.ground.errors import DeviceError, ModelError
from fairgate.models.generation.attention_sharing import Mode, Sharing, Words, align_tokens, shared_attention
from fairgate.models.generation.diffusion.pipeline import StableDiffusion, joined
from fairgate.models.generation.roles import Sampling

ROWS = 48
"""UNet rows of one pass: two sets of 12 under guidance."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a set. `share`: the part of the steps (0..1) in which attention is shared; `guidance`: CFG's scale."""

    seed: int
    guidance: float
    share: float


@dataclass(slots=True)
class AttemptState:
    """An attempt under way: latents (members, channels, height, width) after `done` steps, and its noise to come.

    `expected` is what the latents would become if the last step's prediction of the finished picture held.
    """

    attempt: Attempt
    latents: Tensor
    noises: list[torch.Generator]
    done: int = 0
    expected: Tensor | None = None


class SetPainting:
    """Paints attempts at one set: its captions, base member first; all attempts with the same steps and scheduler.

    `rows` bounds the UNet rows of one pass and changes nothing else (the last bits aside). `phrases` are attributes of
    several words, which mode `cross` aligns as one. Raises ModelError for a painter or a sampling with a refiner.
    """

    def __init__(
        self,
        parts: StableDiffusion,
        captions: Sequence[str],
        how: Sampling,
        *,
        mode: Mode = "self",
        rows: int = ROWS,
        phrases: Sequence[str] = (),
    ) -> None:
        if how.refine_from is not None or parts.refiner is not None:
            raise ModelError(
                "attention is shared in one UNet from the first step to the last, and no refiner takes over.",
                where=parts.uri,
                remedy="name a painter without a refiner, and leave refine_from out",
            )
        self.parts, self.captions, self.how = parts, list(captions), how
        self.mode, self.rows, self.phrases = mode, rows, phrases
        self._conditioning = parts.embed_prompts(self.captions)
        self._unconditional = parts.embed_negative(how.negative, 1)
        self.steps = len(self._scheduler().timesteps)

    def start(self, attempts: Sequence[Attempt]) -> list[AttemptState]:
        """Canvases with nothing but noise, the same for every member of a set."""
        side = self.how.size or self.parts.size
        scale, canvases = float(self._scheduler().init_noise_sigma), []
        for attempt in attempts:
            noises = [torch.Generator().manual_seed(attempt.seed) for _ in self.captions]
            latents = self.parts.noise(noises, (side, side)) * scale
            canvases.append(AttemptState(attempt, latents, noises))
        return canvases

    @torch.inference_mode()
    def advance(self, canvases: Sequence[AttemptState], until: int | None = None) -> None:
        """Run canvases that have come equally far up to step `until` (None: to the end), in place."""
        begin, end = canvases[0].done if canvases else 0, self.steps if until is None else until
        if not canvases or begin >= end:
            return
        scheduler = self._scheduler(begin, end)
        draws = {"generator": [each for canvas in canvases for each in canvas.noises]}
        if "generator" not in inspect.signature(scheduler.step).parameters:
            draws = {}
        latents, expected = torch.cat([canvas.latents for canvas in canvases]), None
        with shared_attention(self.parts.unet, self.mode) as sharing:
            for step in range(begin, end):
                time = scheduler.timesteps[step]
                noise = self._fitting(canvases, scheduler.scale_model_input(latents, time), time, step, sharing)
                stepped = scheduler.step(noise, time, latents, **draws)
                latents, expected = stepped.prev_sample, getattr(stepped, "pred_original_sample", None)
        members = len(self.captions)
        for number, canvas in enumerate(canvases):
            rows = slice(number * members, (number + 1) * members)
            canvas.latents, canvas.done = latents[rows], end
            canvas.expected = None if expected is None else expected[rows]

    def pictures(self, canvas: AttemptState) -> list[Image]:
        """The members' pictures: what they are, or before the last step, what they are expected to become."""
        latents = canvas.latents if canvas.done == self.steps else canvas.expected
        if latents is None:
            raise ModelError(
                "this scheduler does not say what a half-finished picture will become.",
                where=self.parts.uri,
                remedy="choose another scheduler (euler_ancestral), or do not prune",
            )
        return self.parts.decode(latents)

    def _scheduler(self, begin: int = 0, end: int | None = None) -> Any:
        """The scheduler from a step on. Raises ModelError where one that looks back would be cut in two."""
        scheduler = self.parts.scheduler(self.how.steps, self.how.scheduler)
        state = any(hasattr(scheduler, name) for name in ("model_outputs", "ets"))  # of multistep solvers
        looks_back = state or scheduler.order != 1 or not hasattr(scheduler, "set_begin_index")
        if looks_back and (begin > 0 or (end is not None and end < self.steps)):
            raise ModelError(
                f"{type(scheduler).__name__} remembers earlier steps, and cannot stop half way.",
                where=self.parts.uri,
                remedy="choose euler_ancestral or euler, or do not prune",
            )
        if begin:
            scheduler.set_begin_index(begin)
        return scheduler

    def _fitting(
        self, canvases: Sequence[AttemptState], latents: Tensor, time: Tensor, step: int, sharing: Sharing
    ) -> Tensor:
        """`_denoise`, in smaller passes from here on where memory runs out. DeviceError when none is smaller."""
        while True:
            spent = self.parts.spent["unet"]
            try:
                return self._denoise(canvases, latents, time, step, sharing)
            except torch.OutOfMemoryError as error:
                if self.rows <= 2:
                    raise DeviceError(
                        "the device has too little free memory for one picture.",
                        remedy="free memory on the device, make the pictures smaller, or run on a larger one",
                    ) from error
            self.parts.spent["unet"] = spent
            self.rows //= 2
            sharing.alone()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _denoise(
        self, canvases: Sequence[AttemptState], latents: Tensor, time: Tensor, step: int, sharing: Sharing
    ) -> Tensor:
        """The noise that the UNet sees in every row, under guidance: shaped as `latents`, in float32."""
        members, halves = len(self.captions), 2 if any(canvas.attempt.guidance > 1 for canvas in canvases) else 1
        part = step / max(self.steps - 1, 1)
        shares = [canvas.attempt.share > part for canvas in canvases]
        noise = torch.empty_like(latents)
        for shared in (True, False):
            numbers = [number for number, share in enumerate(shares) if share is shared]
            for chosen, first, last in _pieces(numbers, members, self.rows // halves):
                rows = [number * members + member for number in chosen for member in range(first, last)]
                if shared:
                    sharing.groups, crossed = len(chosen) * halves, self.mode == "cross"
                    sharing.free = len(chosen) if crossed and halves == 2 else 0
                    sharing.leads, sharing.keep = first == 0, last < members
                    sharing.words = self._words.rows(first, last) if crossed else None
                else:
                    sharing.alone()
                scales = [max(1.0, canvases[number].attempt.guidance) for number in chosen for _ in range(first, last)]
                noise[rows] = self._predict(latents[rows], time, rows, scales if halves == 2 else None)
        return noise

    def _predict(self, latents: Tensor, time: Tensor, rows: Sequence[int], scales: Sequence[float] | None) -> Tensor:
        """One pass of the UNet over the rows, under guidance with their unconditional halves before them."""
        wanted = self._conditioning.rows([row % len(self.captions) for row in rows])
        if scales is None:
            return self.parts.predict(latents, time, wanted)
        empty = self._unconditional.rows([0] * len(rows))
        without, seen = self.parts.predict(torch.cat([latents, latents]), time, joined([empty, wanted])).chunk(2)
        return without + torch.tensor(scales, device=seen.device)[:, None, None, None] * (seen - without)

    @cached_property
    def _words(self) -> Words:
        """The alignment of every member's tokens with the base member's."""
        tokenizer, length = self.parts.tokenizers[0], self._conditioning.tokens.shape[1]
        found = [align_tokens(self.captions[0], caption, tokenizer, length, self.phrases) for caption in self.captions]
        return Words.of(found, self.parts.device)


def _pieces(numbers: Sequence[int], members: int, rows: int) -> Iterator[tuple[Sequence[int], int, int]]:
    """Which attempts, and which of their members, make one pass of at most `rows` rows (one at least).

    Whole sets as far as they fit, else pieces of one set, its base member first.
    """
    if rows >= members:
        per = rows // members
        yield from ((numbers[start : start + per], 0, members) for start in range(0, len(numbers), per))
        return
    width = max(1, rows)
    for number in numbers:
        yield from (([number], first, min(first + width, members)) for first in range(0, members, width))
