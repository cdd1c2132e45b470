"""What a loaded model of pictures and text, or of text alone, has in common: what comes before the labels is computed
once, and every label continues it.

log P(label | picture, prompt) is the sum of the log-probabilities of the label's tokens. The end of the text is not
scored: a label that begins another one is at least as likely as that one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
from transformers.modeling_outputs import BaseModelOutput

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import Device
from fairgate.models.contract import Floats
from fairgate.models.vlm.asking import CAPTION

_CACHE_BYTES = 1 << 29
"""Memory of a CPU for copies of the prefix's keys and values, one a label: 600 tokens of a model with 7 billion
parameters take 0.6 GB in float32. On a GPU it is a quarter of what is free."""
_SCORED_TOKENS, _ANSWERED_TOKENS = 2_500, 10_000
"""Tokens of prompts that a CPU reads at once: the keys and values of 2,500 take 2.5 GB of a model with 7 billion
parameters, and are copied for labels. A GPU that lacks memory is given half as many."""
_DOUBLE_BYTES = 1 << 28
"""Memory for logits in float64."""

Tokens = Sequence[int]
Inputs = Mapping[str, torch.Tensor]


def continued(cache: Any, logits: torch.Tensor, language: Any, labels: Sequence[Tokens]) -> Floats:
    """Summed log-probabilities of each label's tokens, (pictures, labels) float64, after what a decoder computed of
    pictures and prompts of one length: its keys and values, and the logits of the next token (pictures, V).

    `language` is the model of transformers that reads the tokens that follow.
    """
    first = torch.log_softmax(logits.double(), dim=-1)
    sums = first[:, [label[0] for label in labels]].cpu().numpy()
    longer = [place for place, label in enumerate(labels) if len(label) > 1]
    layers = [layer for layer in cache.layers if getattr(layer, "keys", None) is not None]
    cached = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
    size = max(1, _room(logits.device) // max(1, cached))
    for start in range(0, len(longer), size):
        chosen = longer[start : start + size]
        # padded on the right, where a causal model's earlier tokens do not look
        ids = _padded([labels[place][:-1] for place in chosen]).repeat(len(sums), 1).to(logits.device)
        own = _repeated(cache, len(sums), len(chosen), logits.device)
        found = language(input_ids=ids, past_key_values=own, use_cache=True).logits
        rest = [labels[place][1:] for place in chosen] * len(sums)
        sums[:, chosen] += _gathered(found, rest).reshape(len(sums), -1)
    return sums


def _room(device: torch.device) -> int:
    """Bytes for copies of a prefix; the model needs as many again while it adds to them."""
    if device.type != "cuda":
        return _CACHE_BYTES
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return (int(torch.cuda.mem_get_info(device)[0]) + unused) // 4


def _repeated(cache: Any, pictures: int, times: int, device: torch.device) -> Any:
    """A cache that has each picture's keys and values so many times, one after the other; the first stays as it is:
    layers that add to theirs make new tensors, and others write into their own."""
    repeated = copy.copy(cache)
    adding = (DynamicLayer, DynamicSlidingWindowLayer)
    repeated.layers = [copy.copy(layer) if type(layer) in adding else copy.deepcopy(layer) for layer in cache.layers]
    repeated.reorder_cache(torch.arange(pictures, device=device).repeat_interleave(times))
    return repeated


def decoded(language: Any, states: torch.Tensor, start: int, labels: Sequence[Tokens], **more: torch.Tensor) -> Floats:
    """Of a decoder that looks at an encoder's `states` (1, tokens, width); `more` is what else it takes."""
    ids = _padded([[start, *label[:-1]] for label in labels]).to(states.device)
    seen = BaseModelOutput(last_hidden_state=states.expand(len(ids), -1, -1))
    more = {name: row.expand(len(ids), -1) for name, row in more.items()}
    return _gathered(language(encoder_outputs=seen, decoder_input_ids=ids, **more).logits, labels)


def _gathered(logits: torch.Tensor, labels: Sequence[Tokens]) -> Floats:
    """Sums of the log-probabilities of each label's tokens, of logits (labels, length, V): (labels,)."""
    targets = _padded(labels).to(logits.device)
    rows = max(1, _DOUBLE_BYTES // (8 * logits[0].numel()))
    pieces = zip(torch.split(logits, rows), torch.split(targets, rows), strict=True)
    chosen = torch.cat(
        [torch.log_softmax(piece.double(), dim=-1).gather(2, ids[:, :, None])[:, :, 0] for piece, ids in pieces]
    )
    lengths = torch.tensor([len(label) for label in labels], device=logits.device)
    there = torch.arange(targets.shape[1], device=logits.device)[None] < lengths[:, None]
    return np.asarray(chosen.where(there, 0.0).sum(dim=1).cpu().numpy(), dtype=np.float64)


def _padded(rows: Sequence[Tokens]) -> torch.Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *([0] * (longest - len(row)))] for row in rows], dtype=torch.long)


def require_end(prompt: Sequence[int], end: Sequence[int], where: str) -> None:
    """Raises ModelError unless a prompt's tokens end with those of its last text."""
    if end and list(prompt[-len(end) :]) != list(end):
        raise ModelError(
            "the tokenizer ends the prompt with other tokens than its text: a label could not follow it.",
            where=where,
            remedy="save the tokenizer without a token that ends every text",
        )


_TEXT_ENDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
_NO_CHOICE = ("_from_model_config", "max_length", "max_new_tokens", "transformers_version", "use_cache")
"""Of generation_config.json, what decides no token."""


class ContinuedPrompt:
    """What continues `_end`, the end of a prompt, with labels or an answer. `_seq2seq`: a decoder of its own (T5's)
    reads a label by itself. `_writer`: the model whose config ends a text."""

    model: Any
    tokenizer: Any
    where: str
    _end: str
    _seq2seq: bool
    _writer: Any

    def tokens(self, labels: Sequence[str]) -> list[list[int]]:
        """The tokens that each label adds to the prompt, which it follows after a space.

        Prompt and label are read together, as a text is. Raises ModelError for a label without tokens, and for one
        whose beginning the tokenizer joins with the end of the prompt: it has no tokens of its own to be scored by.
        """
        prompt = "" if self._seq2seq else self._end
        before, tokens = self._read(prompt), []
        space = "" if not prompt or prompt[-1].isspace() else " "
        for label in labels:
            whole = self._read(f"{prompt}{space}{label.strip()}")
            if whole[: len(before)] != before:
                raise ModelError(
                    f"the tokenizer joins the label '{label}' with the end of the prompt ('...{prompt[-20:]}').",
                    where=self.where,
                    remedy="end the prompt with a colon or another sign, and without a space",
                )
            if len(whole) == len(before) or not label.strip():
                raise ModelError(
                    f"the label '{label}' has no token: the model cannot say how likely it is.",
                    where=self.where,
                    remedy="check the label, and the tokenizer's files",
                )
            tokens.append(whole[len(before) :])
        return tokens

    def _read(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def log_likelihoods(self, shown: Sequence[Inputs], labels: Sequence[Tokens]) -> Floats:
        """Summed log-probabilities of labels, given by their tokens, after what is shown, given as `inputs`: (shown,
        labels) float64."""
        return self._shared(shown, labels, _SCORED_TOKENS)

    def _shared(self, shown: Sequence[Inputs], labels: Sequence[Tokens], at_once: int) -> Floats:
        """The same, so many tokens of prompts at once."""
        sums = np.empty((len(shown), len(labels)))
        for places, joined in _alike(shown, at_once):
            sums[places] = (self._of_encoder if self._seq2seq else self._of_decoder)(joined, labels)
        return sums

    def _of_decoder(self, inputs: Inputs, labels: Sequence[Tokens]) -> Floats:
        out = self.model(**inputs, use_cache=True, logits_to_keep=1)
        inner = getattr(out, "language_model_outputs", None)
        language = self.model if inner is None else self.model.language_model  # BLIP-2's takes no text without pixels
        cache = (out if inner is None else inner).past_key_values
        return continued(cache, out.logits[:, -1], language, labels)

    def _of_encoder(self, inputs: Inputs, labels: Sequence[Tokens]) -> Floats:
        start, ids = self.model.config.get_text_config().decoder_start_token_id, inputs["input_ids"]
        out = self.model(**inputs, decoder_input_ids=torch.full((len(ids), 1), start, device=ids.device))
        inner = getattr(out, "language_model_outputs", None)
        language = self.model if inner is None else self.model.language_model
        states = (out if inner is None else inner).encoder_last_hidden_state
        masks = {name: inputs[name] for name in ("attention_mask",) if name in inputs}
        rows = [{name: mask[at : at + 1] for name, mask in masks.items()} for at in range(len(ids))]
        return np.stack([decoded(language, states[at : at + 1], start, labels, **row) for at, row in enumerate(rows)])

    def answers(self, shown: Sequence[Inputs], longest: int) -> list[str]:
        """What is answered to pictures and prompts, given as `inputs`, each token the likeliest, at most `longest`.

        Pictures whose inputs have the same shapes are one batch, so that nothing is padded, and no answer depends on
        what it is computed with, but for rounding.
        """
        replies = [""] * len(shown)
        for places, joined in _alike(shown, _ANSWERED_TOKENS):
            made = self.model.generate(**joined, do_sample=False, num_beams=1, max_new_tokens=longest)
            given = joined["input_ids"]
            own = made[:, given.shape[1] :] if torch.equal(made[:, : given.shape[1]], given) else made
            for place, ids in zip(places, own.tolist(), strict=True):
                replies[place] = self._said(ids)
        return replies

    def _said(self, ids: list[int]) -> str:
        """The text up to the token that ends it, which is left out if it is a special one, as the library does."""
        ends = getattr(self._writer.generation_config, "eos_token_id", None)
        stops = set(ends if isinstance(ends, list) else [ends])
        first = 1 if self._seq2seq else 0  # a decoder of its own starts with a token that may be its padding
        end = next((at + 1 for at, token in enumerate(ids) if at >= first and token in stops), len(ids))
        return str(self.tokenizer.decode(ids[:end], skip_special_tokens=True)).strip()


class LanguageReader(ContinuedPrompt):
    """A language model that reads what was said of a picture, and scores the labels that may follow.

    `prompt` is the text before the label, with CAPTION where the caption goes."""

    def __init__(self, model: Any, tokenizer: Any, prompt: str, device: Device, where: str) -> None:
        self.model, self.tokenizer, self.where = model, tokenizer, where
        self._before, self._end = prompt.split(CAPTION)
        self._device = torch.device(device.name)
        self._seq2seq = bool(model.config.is_encoder_decoder)

    def inputs(self, shown: str) -> dict[str, torch.Tensor]:
        """The prompt with a caption as the model takes it. Raises ModelError where a label could not follow it."""
        ids = self.tokenizer(self._before + shown + self._end, return_tensors="pt")["input_ids"].to(self._device)
        if not self._seq2seq:
            require_end(ids[0].tolist(), self._read(self._end), self.where)
        return {"input_ids": ids}


def _alike(shown: Sequence[Inputs], tokens: int) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
    """Places of inputs that have the same shapes, and these as one batch; on a CPU, batches of so many tokens at most,
    or of one prompt."""
    batches: dict[tuple[Any, ...], list[int]] = {}
    for place, entry in enumerate(shown):
        batches.setdefault(tuple((name, tuple(value.shape)) for name, value in entry.items()), []).append(place)
    for alike in batches.values():
        ids = shown[alike[0]]["input_ids"]
        size = len(alike) if ids.is_cuda else max(1, tokens // ids.shape[1])
        for start in range(0, len(alike), size):
            places = alike[start : start + size]
            yield places, {name: torch.cat([shown[place][name] for place in places]) for name in shown[places[0]]}


def decode_plainly(model: Any) -> list[str]:
    """Keep of what the configs say of decoding the tokens that begin, end and pad a text: `generate` takes all that it
    is not told from there, such as forbidden words, penalties, or a method that is code on a hub. The names of what
    else is set."""
    dropped = set[str]()
    for part in model.modules():  # BLIP-2's language model has its own
        if getattr(part, "generation_config", None) is not None:
            written = part.generation_config
            ids = {name: getattr(written, name, None) for name in _TEXT_ENDS}
            part.generation_config = GenerationConfig(**ids)
            dropped |= written.to_diff_dict().keys() - {*_TEXT_ENDS, *_NO_CHOICE}
    return sorted(dropped)
