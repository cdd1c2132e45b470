"""Attention sharing over a diffusers UNet: the members of a counterfactual set look where their base member looks.

Two modes. `self`, what the authors of paper 3 run: in every layer the base member's self-attention scores, before the
softmax, serve the whole set, the conditional and the unconditional half each with its own. `cross`, what the paper
says (Prompt-to-Prompt, Hertz et al. 2022): the base caption's cross-attention maps, word by word, conditional half
only. Every member has the same probabilities, so they are made once and multiplied once with all members' values;
queries and keys are projected for the base member alone.

Captions are aligned word by word as in Prompt-to-Prompt's word swap and refinement: an unchanged word keeps its map, a
replaced word takes over the map of the word that it replaces, a word that is new keeps the map of its own. An attribute
of several words ("Middle Eastern") is one word here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from diffusers.models.attention_processor import AttnProcessor2_0
from numpy.typing import NDArray
from torch import Tensor

from fairgate.ground.errors import ModelError

Mode = Literal["self", "cross"]
BLOCK_BYTES = {"cpu": 8 << 20, "cuda": 1 << 30}
"""Scores that are held at once: a block that stays in a CPU's cache is fastest there; a GPU wants large products."""
_ADDED = ("spatial_norm", "group_norm", "norm_cross", "norm_q", "norm_k", "add_k_proj")
_WIDE_SUMS = hasattr(torch.ops.aten.bmm, "dtype")  # since torch 2.8, on CUDA: products of halves, given in float32


@dataclass(slots=True)
class Sharing:
    """What the layers share in the next pass of the UNet, whose rows are (halves, attempts, members).

    `groups` (halves times attempts) is 0 where nothing is shared: fused attention. The first rows of each group are
    the base members while `leads`; a later chunk of the same sets has none and uses `projected`, from the first.
    `free` groups come first and share nothing (the unconditional half in mode `cross`).
    """

    mode: Mode
    groups: int = 0
    free: int = 0
    leads: bool = True
    keep: bool = False
    words: Words | None = None
    projected: dict[int, BaseMember] = field(default_factory=dict)

    def alone(self) -> None:
        """The next passes share nothing."""
        self.groups, self.words = 0, None
        self.projected.clear()


class SharedAttention:
    """A diffusers attention processor that shares what `Sharing` says, and is stock attention otherwise."""

    def __init__(self, sharing: Sharing) -> None:
        self.sharing, self._stock = sharing, AttnProcessor2_0()

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        """One layer; shapes as diffusers' `AttnProcessor2_0`: (rows, tokens, features). Shared ones have no mask."""
        sharing, context = self.sharing, encoder_hidden_states
        kind: Mode = "self" if context is None else "cross"
        if not sharing.groups or kind != sharing.mode:
            return cast(Tensor, self._stock(attn, hidden_states, context, attention_mask))
        members = len(hidden_states) // sharing.groups
        free = sharing.free * members
        ours = hidden_states[free:]
        seen = self._shared(attn, ours, ours if context is None else context[free:], members)
        for layer in attn.to_out:
            seen = layer(seen)
        if attn.residual_connection:
            seen = seen + ours
        seen = seen / attn.rescale_output_factor
        if context is None or not free:
            return cast(Tensor, seen)
        return torch.cat([self._stock(attn, hidden_states[:free], context[:free]), seen])

    def _shared(self, attn: Any, ours: Tensor, contexts: Tensor, members: int) -> Tensor:
        sharing, groups = self.sharing, len(ours) // members
        base = self._base_member(attn, ours[::members], contexts[::members])
        values = torch.unflatten(_heads(attn, attn.to_v(contexts)), 0, (groups, -1))
        words = sharing.words if sharing.mode == "cross" else None
        seen = wide_product(base, values if words is None else by_words(words, values), attn.scale)
        if words is not None and words.keeps_own:
            query, key = (torch.unflatten(each, 0, (groups, -1)) for each in _project(attn, ours, contexts))
            seen = seen + own_words(words, query, key, values, attn.scale)
        return seen.flatten(0, 1).transpose(1, 2).flatten(2)

    def _base_member(self, attn: Any, bases: Tensor, contexts: Tensor) -> BaseMember:
        """Queries and keys of the base members: projected in the first chunk, remembered for the others."""
        if not self.sharing.leads:
            return self.sharing.projected[id(attn)]
        base = BaseMember(*_project(attn, bases, contexts))
        if self.sharing.keep:
            self.sharing.projected[id(attn)] = base
        return base


@contextmanager
def shared_attention(unet: Any, mode: Mode) -> Iterator[Sharing]:
    """Attention of the UNet under `Sharing` inside the block, as it was after it.

    Raises ModelError for a mode that is none, and for a UNet with a layer that this attention would change.
    """
    if mode not in get_args(Mode):
        raise ModelError(f"there is no sharing mode '{mode}'.", remedy=f"modes: {', '.join(get_args(Mode))}")
    for name, layer in unet.named_modules():
        # Stable Diffusion 1, 2 and XL have plain layers: what others add would be lost in silence
        added = [part for part in _ADDED if getattr(layer, part, None) not in (None, False)]
        if added and hasattr(layer, "set_processor"):
            raise ModelError(
                f"attention sharing does not know {', '.join(added)} of the UNet's layer '{name}'.",
                remedy="use a UNet of Stable Diffusion 1, 2 or XL",
            )
    before = unet.attn_processors
    sharing = Sharing(mode)
    unet.set_attn_processor(SharedAttention(sharing))
    try:
        yield sharing
    finally:
        unet.set_attn_processor(before)


def _project(attn: Any, hidden: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
    return _heads(attn, attn.to_q(hidden)), _heads(attn, attn.to_k(context))


def _heads(attn: Any, projected: Tensor) -> Tensor:
    """(rows, tokens, heads * features) -> (rows, heads, tokens, features)"""
    return projected.reshape(*projected.shape[:2], attn.heads, -1).transpose(1, 2)


@dataclass(frozen=True, slots=True)
class BaseMember:
    """The base member's queries and keys, projected: (groups, heads, tokens, features) each."""

    query: Tensor
    key: Tensor


@dataclass(frozen=True, slots=True)
class Words:
    """The alignment of the members' tokens with the base member's, for Prompt-to-Prompt.

    `weights` (members, base tokens, tokens): the share of a base token's map that a member's token takes over. `own`
    (members, tokens): 1 for a token that the base caption has nothing for, which keeps the map of its own; else 0.
    `keeps_own`: whether some member has such a token, known without a read from the device, which would synchronise it.
    """

    weights: Tensor
    own: Tensor
    keeps_own: bool

    @classmethod
    def of(cls, members: Sequence[Alignment], device: torch.device) -> Words:
        """Alignments of one length, the base member's first."""
        weights, own = (np.stack([getattr(one, name) for one in members]) for name in ("weights", "own"))
        return cls(torch.from_numpy(weights).to(device), torch.from_numpy(own).to(device), bool(own.any()))

    def rows(self, first: int, last: int) -> Words:
        """The same for some of the members."""
        return Words(self.weights[first:last], self.own[first:last], self.keeps_own)


def wide_product(base: BaseMember, values: Tensor, scale: float, block_bytes: int | None = None) -> Tensor:
    """softmax(QK') of the base member times the values of every member of its set, exactly, in blocks of queries.

    `values` (groups, members, heads, keys, features) -> (groups, members, heads, queries, features). The members'
    values are concatenated, so that each block of probabilities is made once and used in one product; no more than
    `block_bytes` of scores are held. Half precision has its scores and their softmax in float32, as in fused attention.
    """
    groups, members, heads, keys, features = values.shape
    wide = values.permute(0, 2, 3, 1, 4).reshape(groups, heads, keys, members * features)
    queries = base.query.shape[2]
    limit = block_bytes or BLOCK_BYTES.get(values.device.type, BLOCK_BYTES["cuda"])
    block = max(1, limit // (groups * heads * keys * 4))
    keyed = base.key.transpose(-1, -2)
    parts = [
        probabilities(base.query[:, :, start : start + block], keyed, scale).to(wide.dtype) @ wide
        for start in range(0, queries, block)
    ]
    out = parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)
    return out.reshape(groups, heads, queries, members, features).permute(0, 3, 1, 2, 4)


def probabilities(query: Tensor, keyed: Tensor, scale: float) -> Tensor:
    """Attention probabilities in float32, of scores that were never in half precision: it would round or overflow."""
    if _WIDE_SUMS and query.is_cuda and query.dtype != torch.float32:
        scores = torch.bmm(query.flatten(0, -3), keyed.flatten(0, -3), out_dtype=torch.float32)
        scores = scores.mul_(scale).reshape(*query.shape[:-1], keyed.shape[-1])
    else:
        scores = (query.float() * scale) @ keyed.float()
    return torch.softmax(scores, dim=-1)


def by_words(words: Words, values: Tensor) -> Tensor:
    """The members' values laid onto the base caption's tokens: P_base (W V) is (P_base W) V, Prompt-to-Prompt's maps.

    `values` (groups, members, heads, tokens, features) -> (groups, members, heads, base tokens, features).
    """
    return torch.einsum("mbs,gmhsd->gmhbd", words.weights.to(values.dtype), values)


def own_words(words: Words, query: Tensor, key: Tensor, values: Tensor, scale: float) -> Tensor:
    """What members see through tokens that the base caption lacks: their own maps, all shapes as `values`."""
    masked = values * words.own.to(values.dtype)[None, :, None, :, None]
    return probabilities(query, key.transpose(-1, -2), scale).to(values.dtype) @ masked


@dataclass(frozen=True, slots=True)
class Alignment:
    """`weights` (base tokens, tokens) and `own` (tokens,): see `Words`."""

    weights: NDArray[np.float32]
    own: NDArray[np.float32]


def words_of(caption: str, phrases: Sequence[str] = ()) -> list[str]:
    """A caption's words; a phrase counts as one.

    >>> words_of("a Middle Eastern male doctor", ["Middle Eastern"])
    ['a', 'Middle Eastern', 'male', 'doctor']
    """
    several = sorted((phrase for phrase in phrases if " " in phrase), key=len, reverse=True)
    glued = "|".join([*(rf"(?<!\S){re.escape(phrase)}(?!\S)" for phrase in several), r"\S+"])
    return re.findall(glued, caption)


def word_pairs(base: Sequence[str], words: Sequence[str]) -> list[tuple[range, range]]:
    """Corresponding spans of words, in order: (base words, words); an empty span where one side has none.

    Spans of equal length are paired word by word; otherwise the whole span corresponds to the whole span.

    >>> word_pairs(["a", "White", "male"], ["an", "Asian", "male"])
    [(range(0, 1), range(0, 1)), (range(1, 2), range(1, 2)), (range(2, 3), range(2, 3))]
    """
    pairs: list[tuple[range, range]] = []
    for _, first, last, start, stop in SequenceMatcher(None, base, words, autojunk=False).get_opcodes():
        if last - first == stop - start:
            pairs += [(range(first + n, first + n + 1), range(start + n, start + n + 1)) for n in range(last - first)]
        else:
            pairs.append((range(first, last), range(start, stop)))
    return pairs


def align_tokens(base: str, caption: str, tokenizer: Any, length: int, phrases: Sequence[str] = ()) -> Alignment:
    """How the tokens of a caption take over the maps of the base caption's tokens, both padded to `length` tokens.

    `tokenizer` is the text encoder's, of transformers. A span's map goes token by token where both spans have as many
    tokens, else each base token's map is spread evenly over the span: a row of `weights` sums to 1. Where the caption
    has no word for a base word, the attention to it is dropped, and its rows are 0. The end token and the padding take
    over the base's. Raises ModelError where words do not break into whole tokens.
    """
    words, base_words = words_of(caption, phrases), words_of(base, phrases)
    ends, base_ends = _token_ends(words, caption, tokenizer), _token_ends(base_words, base, tokenizer)
    weights = np.zeros((length, length), np.float32)
    own = np.zeros(length, np.float32)
    weights[0, 0] = 1.0  # the start token
    for theirs, ours in word_pairs(base_words, words):
        rows = range(base_ends[theirs.start], base_ends[theirs.stop])
        columns = range(ends[ours.start], ends[ours.stop])
        if rows and columns:
            _spread(weights, rows, columns)
        else:
            own[list(columns)] = 1.0
    _pad(weights, range(base_ends[-1], length), range(ends[-1], length))
    return Alignment(weights, own)


def _token_ends(words: Sequence[str], caption: str, tokenizer: Any) -> list[int]:
    """The place after the start token, and after each word's last token."""
    pieces = [tokenizer(word, add_special_tokens=False).input_ids for word in words]
    whole = tokenizer(caption).input_ids
    if [token for piece in pieces for token in piece] != list(whole[1:-1]):
        raise ModelError(
            f"the words of '{caption}' do not break into the tokens of the whole caption.",
            remedy="sharing mode 'cross' needs a tokenizer whose tokens end with their words; use mode 'self'",
        )
    return list(accumulate(map(len, pieces), initial=1))


def _spread(weights: NDArray[np.float32], rows: range, columns: range) -> None:
    if len(rows) == len(columns):
        weights[list(rows), list(columns)] = 1.0
    else:
        weights[np.ix_(list(rows), list(columns))] = 1.0 / len(columns)


def _pad(weights: NDArray[np.float32], rows: range, columns: range) -> None:
    """End and padding, one by one; what one side has too many of is shared with the last of the other."""
    shared = min(len(rows), len(columns)) - 1
    _spread(weights, rows[:shared], columns[:shared])
    weights[np.ix_(list(rows[shared:]), list(columns[shared:]))] = 1.0 / len(columns[shared:])
