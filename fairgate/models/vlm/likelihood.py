"""How likely a language model continues a text with each label. What comes before the labels is computed once.

log P(label | picture, prompt) is the sum of the log-probabilities of the label's tokens. The end of the text is not
scored: a label that begins another one is at least as likely as that one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.modeling_outputs import BaseModelOutput

from fairgate.ground.errors import ModelError
from fairgate.models.contract import Floats

_CACHE_BYTES = {"cpu": 1 << 29, "cuda": 1 << 32}
"""Memory for copies of the prefix's keys and values, one a label: 600 tokens of a model with 7 billion parameters take
0.6 GB in float32."""

Tokens = Sequence[int]


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a decoder computed of a picture and a prompt: its keys and values, and the logits of the next token (1, V).

    `language` is the model of transformers that reads the tokens that follow.
    """

    cache: Any
    logits: torch.Tensor
    language: Any

    def log_likelihoods(self, labels: Sequence[Tokens]) -> Floats:
        """Summed log-probabilities of each label's tokens, (labels,) float64."""
        first = torch.log_softmax(self.logits[0].double(), dim=-1).cpu()
        found = np.array([float(first[label[0]]) for label in labels])
        longer = [place for place, label in enumerate(labels) if len(label) > 1]
        device = self.logits.device
        held = sum(layer.keys.numel() + layer.values.numel() for layer in self.cache.layers)
        held *= self.cache.layers[0].keys.element_size()
        size = max(1, _CACHE_BYTES[device.type] // held)
        for start in range(0, len(longer), size):
            chosen = longer[start : start + size]
            cache = copy.deepcopy(self.cache)
            cache.batch_repeat_interleave(len(chosen))
            # padded on the right, where a causal model's earlier tokens do not look
            ids = _padded([labels[place][:-1] for place in chosen]).to(device)
            rest = [labels[place][1:] for place in chosen]
            logits = self.language(input_ids=ids, past_key_values=cache, use_cache=True).logits
            found[chosen] += _gathered(logits, rest)
        return found


def decoded(language: Any, states: torch.Tensor, start: int, labels: Sequence[Tokens], **more: torch.Tensor) -> Floats:
    """Of a decoder that looks at an encoder's `states` (1, tokens, width); `more` is what else it takes."""
    ids = _padded([[start, *label[:-1]] for label in labels]).to(states.device)
    seen = BaseModelOutput(last_hidden_state=states.expand(len(ids), -1, -1))
    more = {name: row.expand(len(ids), -1) for name, row in more.items()}
    return _gathered(language(encoder_outputs=seen, decoder_input_ids=ids, **more).logits, labels)


def _gathered(logits: torch.Tensor, labels: Sequence[Tokens]) -> Floats:
    """Sums of the log-probabilities of each label's tokens, of logits (labels, length, V): (labels,)."""
    targets = _padded(labels).to(logits.device)
    chosen = torch.log_softmax(logits.double(), dim=-1).gather(2, targets[:, :, None])[:, :, 0]
    lengths = torch.tensor([len(label) for label in labels], device=logits.device)
    there = torch.arange(targets.shape[1], device=logits.device)[None] < lengths[:, None]
    return np.asarray(chosen.where(there, 0.0).sum(dim=1).cpu().numpy(), dtype=np.float64)


def _padded(rows: Sequence[Tokens]) -> torch.Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *([0] * (longest - len(row)))] for row in rows], dtype=torch.long)


def label_tokens(
    tokenize: Callable[[str], list[int]], prompt: str, labels: Iterable[str], where: str
) -> list[list[int]]:
    """The tokens that each label adds to a prompt, which it follows after a space.

    Prompt and label are read together, as a text is. Raises ModelError for a label without tokens, and for one whose
    beginning the tokenizer joins with the end of the prompt: it has no tokens of its own to be scored by.
    """
    before, found = tokenize(prompt), []
    space = "" if not prompt or prompt[-1].isspace() else " "
    for label in labels:
        whole = tokenize(f"{prompt}{space}{label.strip()}")
        if whole[: len(before)] != before:
            raise ModelError(
                f"the tokenizer joins the label '{label}' with the end of the prompt ('...{prompt[-20:]}').",
                where=where,
                remedy="end the prompt with a colon or another sign, and without a space",
            )
        if len(whole) == len(before) or not label.strip():
            raise ModelError(
                f"the label '{label}' has no token: the model cannot say how likely it is.",
                where=where,
                remedy="check the label, and the tokenizer's files",
            )
        found.append(whole[len(before) :])
    return found


def require_end(prompt: Sequence[int], end: Sequence[int], where: str) -> None:
    """Raises ModelError unless a prompt's tokens end with those of its last text."""
    if end and list(prompt[-len(end) :]) != list(end):
        raise ModelError(
            "the tokenizer ends the prompt with other tokens than its text: a label could not follow it.",
            where=where,
            remedy="save the tokenizer without a token that ends every text",
        )
