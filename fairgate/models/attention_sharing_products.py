"""The arithmetic of shared attention: one row of probabilities for a whole set, one wide product with its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fairgate.models.attention_sharing_words import Alignment

BLOCK_BYTES = {"cpu": 8 << 20, "cuda": 1 << 30}
"""Scores that are held at once: a block that stays in a CPU's cache is fastest there; a GPU wants large products."""
_WIDE_SUMS = hasattr(torch.ops.aten.bmm, "dtype")  # since torch 2.8, on CUDA: products of halves, given in float32


@dataclass(frozen=True, slots=True)
class Asked:
    """What the base member asks and is answered by, projected: (groups, heads, tokens, features) each."""

    query: Tensor
    key: Tensor


@dataclass(frozen=True, slots=True)
class Words:
    """How the members' tokens stand to the base member's, for Prompt-to-Prompt.

    `weights` (members, base tokens, tokens): the share of a base token's map that a member's token takes over. `own`
    (members, tokens): 1 for a token that the base caption has nothing for, which keeps the map of its own; else 0.
    `keeps_own`: whether a member has such a token, known without asking the device, which would have to be waited for.
    """

    weights: Tensor
    own: Tensor
    keeps_own: tuple[bool, ...]

    @classmethod
    def of(cls, members: Sequence[Alignment], device: torch.device) -> Words:
        """Alignments of one length, the base member's first."""
        weights, own = (np.stack([getattr(one, name) for one in members]) for name in ("weights", "own"))
        keeps_own = tuple(bool(one.own.any()) for one in members)
        return cls(torch.from_numpy(weights).to(device), torch.from_numpy(own).to(device), keeps_own)

    def rows(self, first: int, last: int) -> Words:
        """The same for some of the members."""
        return Words(self.weights[first:last], self.own[first:last], self.keeps_own[first:last])


def wide_product(asked: Asked, values: Tensor, scale: float, block_bytes: int | None = None) -> Tensor:
    """softmax(QK') of the base member times the values of every member of its set, exactly, in blocks of queries.

    `values` (groups, members, heads, keys, features) -> (groups, members, heads, queries, features). The members'
    values stand side by side, so that each block of probabilities is made once and used in one product; no more than
    `block_bytes` of scores are held. Half precision has its scores and their softmax in float32, as in fused attention.
    """
    groups, members, heads, keys, features = values.shape
    wide = values.permute(0, 2, 3, 1, 4).reshape(groups, heads, keys, members * features)
    queries = asked.query.shape[2]
    limit = block_bytes or BLOCK_BYTES.get(values.device.type, BLOCK_BYTES["cuda"])
    block = max(1, limit // (groups * heads * keys * 4))
    keyed = asked.key.transpose(-1, -2)
    parts = [
        probabilities(asked.query[:, :, start : start + block], keyed, scale).to(wide.dtype) @ wide
        for start in range(0, queries, block)
    ]
    out = parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)
    return out.reshape(groups, heads, queries, members, features).permute(0, 3, 1, 2, 4)


def probabilities(query: Tensor, keyed: Tensor, scale: float) -> Tensor:
    """Attention probabilities in float32, of scores that were never in half precision: it would round or overflow."""
    return torch.softmax(_scores(query, keyed, scale), dim=-1)


def _scores(query: Tensor, keyed: Tensor, scale: float) -> Tensor:
    if _WIDE_SUMS and query.is_cuda and query.dtype != torch.float32:
        scores = torch.bmm(query.flatten(0, -3), keyed.flatten(0, -3), out_dtype=torch.float32)
        return scores.mul_(scale).reshape(*query.shape[:-1], keyed.shape[-1])
    return (query.float() * scale) @ keyed.float()


def by_words(words: Words, values: Tensor) -> Tensor:
    """The members' values laid onto the base caption's tokens: P_base (W V) is (P_base W) V, Prompt-to-Prompt's maps.

    `values` (groups, members, heads, tokens, features) -> (groups, members, heads, base tokens, features).
    """
    return torch.einsum("mbs,gmhsd->gmhbd", words.weights.to(values.dtype), values)


def own_words(words: Words, query: Tensor, key: Tensor, values: Tensor, scale: float) -> Tensor:
    """What members see through tokens that the base caption lacks: their own maps, all shapes as `values`."""
    kept = values * words.own.to(values.dtype)[None, :, None, :, None]
    return probabilities(query, key.transpose(-1, -2), scale).to(values.dtype) @ kept
