"""Learned tokens in front of prompts: how a text tower is given them, and is taught them (after Berg et al. 2022).

A prompt's tokens keep their order; the learned ones come after the token that opens the text. They are trained against
a classifier that predicts the attribute of a picture from its cosines with neutral prompts, while captions keep finding
their pictures. Departures:

- The classifier's cross entropy is held to that of guessing (its absolute distance from it), where Berg et al. maximise
  it, which rewards a classifier that is confidently wrong.
- Captions that are equal are one class of the contrastive term, since there are few different ones in small releases.
- In the authors' code (oxai/debias-vision-lang) the learned vectors come before the token that opens the text, have no
  positional embedding, and start as the embedding of token 0; here they come after it, have the positions of their
  places, and start as zeros. An array of one is none of the other: the published one cannot be opened here.
- Their classifier has three hidden layers and a sigmoid, and sees the scaled cosines divided by 20; here two hidden
  layers, no sigmoid, no division.
- Rate, steps and weight are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import Embeddings, Encoder
from fairgate.models.contract import Floats, Rows

HIDDEN = 32
"""Width of the classifier's two hidden layers; the authors' code has three of this width."""
BATCH = 256


def with_tokens(tokens: Mapping[str, Any], count: int, where: str) -> Mapping[str, Any]:
    """Token ids with `count` places after the first. Raises ModelError for a prompt that has no room for them.

    The end of a text is at its largest id, as CLIP's towers read it; what is behind it is padding.
    """
    ids = tokens["ids"]
    length = ids.shape[1]
    if int(ids.argmax(dim=1).max()) + count >= length:
        raise ModelError(
            f"a prompt has no room for {count} learned tokens: the text tower reads {length} in all.",
            where=where,
            remedy="write shorter prompts, or learn fewer tokens",
        )
    return {
        name: torch.cat([part[:, :1].expand(-1, 1 + count), part[:, 1 : length - count]], dim=1)
        for name, part in tokens.items()
    }


def putting(vectors: torch.Tensor) -> Any:
    """A forward hook of the embedding of tokens, which puts `vectors` (tokens, width) after the first one."""

    def put(_: Any, __: Any, found: torch.Tensor) -> torch.Tensor:
        own = vectors.to(found.dtype).expand(len(found), -1, -1)
        return torch.cat([found[:, :1], own, found[:, 1 + len(vectors) :]], dim=1)

    return put


def require_words(encoder: Encoder, where: str) -> None:
    """Raises ModelError for a text tower whose tokens cannot be added to."""
    if encoder.words is None or encoder.text_features is None:
        raise ModelError(
            "its text tower takes no learned tokens.",
            where=where,
            remedy="name a CLIP (open_clip: with its own text tower, or hf: of type clip)",
        )


def prefixed(encoder: Encoder, array: Sequence[Sequence[float]], where: str) -> Any:
    """The encoder's `encode_tokens` behind an array. Raises ModelError for a text tower that takes none."""
    require_words(encoder, where)
    vectors = torch.tensor(np.asarray(array, dtype=np.float32), device=encoder.words.weight.device)
    encoder.words.register_forward_hook(putting(vectors))

    def encode(tokens: Mapping[str, Any]) -> Embeddings:
        return encoder.encode_tokens(with_tokens(tokens, len(vectors), where))

    return encode


@dataclass(frozen=True, slots=True)
class Lesson:
    """What an array is learned from: unit embeddings of pictures (images, dim) with their groups (images,), the
    neutral prompts whose cosines must not tell of them; and others with one of `captions` each, to be found by them."""

    images: Embeddings
    groups: Rows
    prompts: tuple[str, ...]
    kept_images: Embeddings
    captions: tuple[str, ...]
    caption_of: Rows


def learn_array(
    encoder: Encoder,
    lesson: Lesson,
    where: str,
    *,
    tokens: int = 2,
    steps: int = 300,
    rate: float = 0.01,
    weight: float = 1.0,
    seed: int = 0,
) -> Floats:
    """The learned tokens, (tokens, width); the published array has two. `weight` is that of the classifier against the
    contrastive term. The encoder's weights stay as they are; it is on the CPU or a GPU."""
    require_words(encoder, where)
    assert encoder.text_features is not None
    device = encoder.words.weight.device
    prompts, captions = (
        with_tokens(encoder.tokens(texts), tokens, where) for texts in (lesson.prompts, lesson.captions)
    )
    images, groups = torch.tensor(lesson.images, device=device), torch.tensor(lesson.groups, device=device)
    kept, own = torch.tensor(lesson.kept_images, device=device), torch.tensor(lesson.caption_of, device=device)
    count = int(groups.max()) + 1
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        array = torch.zeros(tokens, encoder.words.embedding_dim, device=device, requires_grad=True)
        judge = torch.nn.Sequential(
            torch.nn.Linear(len(lesson.prompts), HIDDEN), torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, count),
        ).to(device)  # fmt: skip
        teacher, student = torch.optim.Adam(judge.parameters(), lr=rate), torch.optim.Adam([array], lr=rate)
        draw = torch.Generator().manual_seed(seed)
        guess = math.log(count)
        with torch.enable_grad():
            for _ in range(steps):
                some = torch.randperm(len(images), generator=draw)[:BATCH].to(device)
                few = torch.randperm(len(kept), generator=draw)[:BATCH].to(device)
                hook = encoder.words.register_forward_hook(putting(array))
                try:
                    texts = functional.normalize(encoder.text_features(prompts).float(), dim=1)
                    named = functional.normalize(encoder.text_features(captions).float(), dim=1)
                finally:
                    hook.remove()
                cosines = images[some] @ texts.T * encoder.scale
                teacher.zero_grad()
                functional.cross_entropy(judge(cosines.detach()), groups[some]).backward()  # type: ignore[no-untyped-call]
                teacher.step()
                against = (functional.cross_entropy(judge(cosines), groups[some]) - guess).abs()
                useful = functional.cross_entropy(kept[few] @ named.T * encoder.scale, own[few])
                (grown,) = torch.autograd.grad(weight * against + useful, [array])
                array.grad = grown
                student.step()
    found: Floats = array.detach().cpu().numpy().astype(np.float64)
    if not np.isfinite(found).all():
        raise ModelError("the learned tokens are not finite.", where=where, remedy="learn in fewer --steps")
    return found
