"""A loaded language model that reads what was said of a picture, and scores the labels that may follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.modeling_outputs import BaseModelOutput

from fairgate.models.checkpoints import Device
from fairgate.models.contract import Floats
from fairgate.models.vlm.asking import CAPTION
from fairgate.models.vlm.likelihood import Prefix, decoded, label_tokens, require_end


class LanguageReader:
    """`prompt` is the text before the label, with CAPTION where the caption goes."""

    def __init__(self, model: Any, tokenizer: Any, prompt: str, device: Device, where: str) -> None:
        self.model, self.tokenizer, self.where = model, tokenizer, where
        self._before, self._after = prompt.split(CAPTION)
        self._device = torch.device(device.name)
        self._seq2seq = bool(model.config.is_encoder_decoder)

    def tokens(self, labels: Sequence[str]) -> list[list[int]]:
        """Tokens of each label as it follows the prompt; a decoder of its own (T5's) reads it by itself."""
        return label_tokens(self._read, "" if self._seq2seq else self._after, labels, self.where)

    def _read(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def log_likelihoods(self, shown: str, labels: Sequence[Sequence[int]]) -> Floats:
        """Summed log-probabilities of labels, given by their tokens, after the prompt with a caption: (labels,)."""
        ids = self.tokenizer(self._before + shown + self._after, return_tensors="pt")["input_ids"].to(self._device)
        if self._seq2seq:
            states = self.model.get_encoder()(input_ids=ids).last_hidden_state

            def decode(tokens: torch.Tensor) -> torch.Tensor:
                seen = BaseModelOutput(last_hidden_state=states.expand(len(tokens), -1, -1))
                logits: torch.Tensor = self.model(encoder_outputs=seen, decoder_input_ids=tokens).logits
                return logits

            return decoded(decode, self.model.config.decoder_start_token_id, labels, self._device)
        require_end(ids[0].tolist(), self._read(self._after), self.where)
        out = self.model(input_ids=ids, use_cache=True, logits_to_keep=1)

        def forward(tokens: torch.Tensor, cache: Any) -> torch.Tensor:
            logits: torch.Tensor = self.model(input_ids=tokens, past_key_values=cache, use_cache=True).logits
            return logits

        return Prefix(out.past_key_values, out.logits[:, -1], forward).log_likelihoods(labels)
