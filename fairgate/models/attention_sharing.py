"""Attention sharing over a diffusers UNet: the members of a counterfactual set look where their base member looks.

Two modes. `self`, what the authors of paper 3 run: in every layer the base member's self-attention scores, before the
softmax, serve the whole set, the conditional and the unconditional half each with its own. `cross`, what the paper
says (Prompt-to-Prompt, Hertz et al. 2022): the base caption's cross-attention maps, word by word, conditional half
only. Every member has the same probabilities, so they are made once and multiplied once with all members' values;
queries and keys are projected for the base member alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from fairgate.errors import ModelError
from fairgate.models.attention_sharing_products import Asked, Words, by_words, own_words, wide_product

Mode = Literal["self", "cross"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(slots=True)
class Sharing:
    """What the layers are told before each pass of the UNet, whose rows are (halves, attempts, members).

    `groups` (halves times attempts) is 0 where nothing is shared: fused attention. The first rows of each group are
    the base members while `leads`; a later chunk of the same sets has none and uses what was `asked` in the first.
    `free` groups come first and share nothing (the unconditional half in mode `cross`).
    """

    mode: Mode
    groups: int = 0
    free: int = 0
    leads: bool = True
    keep: bool = False
    words: Words | None = None
    block_bytes: int | None = None
    asked: dict[int, Asked] = field(default_factory=dict)

    def alone(self) -> None:
        """The next passes share nothing."""
        self.groups, self.words = 0, None
        self.asked.clear()


class SharedAttention:
    """A diffusers attention processor that shares what `Sharing` says, and is stock attention otherwise."""

    def __init__(self, sharing: Sharing) -> None:
        self.sharing = sharing

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        """One layer; shapes as diffusers' `AttnProcessor2_0`: (rows, tokens, features)."""
        if attention_mask is not None:
            raise ModelError(
                "attention sharing does not take attention masks, and a layer was given one.",
                remedy="use captions of one length, without an `encoder_attention_mask`",
            )
        kind: Mode = "self" if encoder_hidden_states is None else "cross"
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        if self.sharing.groups and kind == self.sharing.mode:
            seen = self._shared(attn, hidden_states, context)
        else:
            seen = _stock(attn, hidden_states, context)
        for layer in attn.to_out:
            seen = layer(seen)
        if attn.residual_connection:
            seen = seen + hidden_states
        out: Tensor = seen / attn.rescale_output_factor
        return out

    def _shared(self, attn: Any, hidden: Tensor, context: Tensor) -> Tensor:
        sharing = self.sharing
        members = len(hidden) // sharing.groups
        free = sharing.free * members
        ours, answers = hidden[free:], context[free:]
        asked = self._asked(attn, ours[::members], answers[::members])
        groups = sharing.groups - sharing.free
        values = _grouped(_heads(attn, attn.to_v(answers)), groups)
        words = sharing.words if sharing.mode == "cross" else None
        seen = wide_product(
            asked, values if words is None else by_words(words, values), attn.scale, sharing.block_bytes
        )
        if words is not None and any(words.keeps_own):
            query, key = _project(attn, ours, answers)
            query, key = _grouped(query, groups), _grouped(key, groups)
            seen = seen + own_words(words, query, key, values, attn.scale)
        seen = _joined(seen.flatten(0, 1))
        return torch.cat([_stock(attn, hidden[:free], context[:free]), seen]) if free else seen

    def _asked(self, attn: Any, bases: Tensor, answers: Tensor) -> Asked:
        """Queries and keys of the base members: projected in the first chunk, remembered for the others."""
        if not self.sharing.leads:
            return self.sharing.asked[id(attn)]
        asked = Asked(*_project(attn, bases, answers))
        if self.sharing.keep:
            self.sharing.asked[id(attn)] = asked
        return asked


@contextmanager
def shared_attention(unet: Any, mode: Mode, block_bytes: int | None = None) -> Iterator[Sharing]:
    """Attention of the UNet under `Sharing` inside the block, as it was after it.

    `block_bytes` bounds the scores that a layer holds at once (default: by device). Raises ModelError for a mode that
    is none, and for a UNet with a layer that this attention would change.
    """
    if mode not in MODES:
        raise ModelError(f"there is no sharing mode '{mode}'.", remedy=f"modes: {', '.join(MODES)}")
    for name, layer in unet.named_modules():
        if hasattr(layer, "set_processor"):
            _refuse_unknown(name, layer)
    before = unet.attn_processors
    sharing = Sharing(mode, block_bytes=block_bytes)
    unet.set_attn_processor(SharedAttention(sharing))
    try:
        yield sharing
    finally:
        unet.set_attn_processor(before)


def _refuse_unknown(name: str, layer: Any) -> None:
    """Stable Diffusion 1, 2 and XL have plain layers: what others add would be lost in silence."""
    added = [
        part
        for part in ("spatial_norm", "group_norm", "norm_cross", "norm_q", "norm_k", "add_k_proj")
        if getattr(layer, part, None) is not None and getattr(layer, part) is not False
    ]
    if added:
        raise ModelError(
            f"attention sharing does not know {', '.join(added)} of the UNet's layer '{name}'.",
            remedy="use a UNet of Stable Diffusion 1, 2 or XL",
        )


def _stock(attn: Any, hidden: Tensor, context: Tensor) -> Tensor:
    query, key = _project(attn, hidden, context)
    value = _heads(attn, attn.to_v(context))
    return _joined(scaled_dot_product_attention(query, key, value, scale=attn.scale))


def _project(attn: Any, hidden: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
    return _heads(attn, attn.to_q(hidden)), _heads(attn, attn.to_k(context))


def _heads(attn: Any, projected: Tensor) -> Tensor:
    """(rows, tokens, heads * features) -> (rows, heads, tokens, features)"""
    return projected.reshape(*projected.shape[:2], attn.heads, -1).transpose(1, 2)


def _joined(seen: Tensor) -> Tensor:
    """(rows, heads, tokens, features) -> (rows, tokens, heads * features)"""
    return seen.transpose(1, 2).flatten(2)


def _grouped(rows: Tensor, groups: int) -> Tensor:
    """(rows, ...) -> (groups, members, ...)"""
    return rows.reshape(groups, -1, *rows.shape[1:])
