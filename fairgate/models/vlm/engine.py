"""A loaded model of pictures and text, or of text alone: what comes before the labels is computed once, and every label
continues it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from transformers import GenerationConfig

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import Device
from fairgate.models.contract import Floats
from fairgate.models.vlm.asking import CAPTION, IMAGE
from fairgate.models.vlm.layouts import Layout
from fairgate.models.vlm.likelihood import Prefix, decoded, label_tokens, require_end

_TEXT_ENDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")


class _Continuing:
    """What continues `_end`, the end of a prompt, with labels. `_seq2seq`: a decoder of its own (T5's) reads a label by
    itself."""

    tokenizer: Any
    where: str
    _end: str
    _seq2seq: bool

    def tokens(self, labels: Sequence[str]) -> list[list[int]]:
        """Tokens of each label as it follows the prompt."""
        return label_tokens(self._read, "" if self._seq2seq else self._end, labels, self.where)

    def _read(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])


class VisionLanguage(_Continuing):
    """`prompt` is the text before the label, with IMAGE where the picture goes."""

    def __init__(self, model: Any, processor: Any, layout: Layout, prompt: str, device: Device, where: str) -> None:
        self.model, self.processor, self.layout, self.where = model, processor, layout, where
        self.tokenizer = processor.tokenizer
        _decode_plainly(model)
        self._device = torch.device(device.name)
        self.text, after = self._marked(prompt)
        self._end = "" if layout.line_ends else after
        self._seq2seq = bool(getattr(model.config.get_text_config(), "is_encoder_decoder", False))

    def _marked(self, prompt: str) -> tuple[str, str]:
        """A prompt with the processor's mark of the picture, and its text after that."""
        before, after = prompt.split(IMAGE)
        if self.layout.first and before:
            raise ModelError(
                "the prompt has text before the picture, and this model takes the picture first.",
                where=self.where,
                remedy=f"begin the prompt with {IMAGE}",
            )
        token = str(getattr(self.processor, "image_token", ""))
        if token and token in prompt:
            raise ModelError(
                f"the prompt holds the mark of a picture, '{token}'.", where=self.where, remedy=f"write {IMAGE} once"
            )
        return before + self.layout.marker.format(image_token=token) + after, after

    def inputs(self, image: Image.Image, prompt: str | None = None) -> dict[str, Any]:
        """A picture and a prompt (None: the engine's) as the model takes them. Raises ModelError where the picture
        would not be seen."""
        text, end_text = (self.text, self._end) if prompt is None else self._marked(prompt)
        with warnings.catch_warnings():  # PaliGemma's reads a tensor in a way that numpy 2 warns of
            warnings.simplefilter("ignore", DeprecationWarning)
            made = self.processor(images=[image], text=[text], return_tensors="pt")
        inputs = {name: value for name, value in made.items() if name not in ("labels", "num_patches")}
        ids = inputs["input_ids"][0]
        if not bool((ids == self.model.config.image_token_id).any()):
            raise ModelError(
                "the tokenizer's prompt has no token for the picture, so that the model would not see it.",
                where=self.where,
                remedy="check image_token_id in config.json, and the image token of the tokenizer",
            )
        if "attention_mask" in inputs and not bool(inputs["attention_mask"].all()):
            raise ModelError(
                "the tokenizer pads a single text, and labels would follow the padding.",
                where=self.where,
                remedy="remove 'padding' from tokenizer.json",
            )
        end = [] if self._seq2seq or self.layout.line_ends else self._read(end_text)
        require_end(ids.tolist(), end, self.where)
        return {name: value.to(self._device) for name, value in inputs.items()}

    def log_likelihoods(self, shown: Image.Image, labels: Sequence[Sequence[int]]) -> Floats:
        """Summed log-probabilities of labels, given by their tokens, on a picture: (labels,)."""
        inputs = self.inputs(shown)
        return self._of_encoder(inputs, labels) if self._seq2seq else self._of_decoder(inputs, labels)

    def _of_decoder(self, inputs: dict[str, Any], labels: Sequence[Sequence[int]]) -> Floats:
        out = self.model(**inputs, use_cache=True, logits_to_keep=1)
        inner = getattr(out, "language_model_outputs", None)
        language = self.model if inner is None else self.model.language_model  # BLIP-2's takes no text without pixels
        cache = (out if inner is None else inner).past_key_values
        return Prefix(cache, out.logits[:, -1], language).log_likelihoods(labels)

    def _of_encoder(self, inputs: dict[str, Any], labels: Sequence[Sequence[int]]) -> Floats:
        language, start = self.model.language_model, self.model.config.get_text_config().decoder_start_token_id
        first = torch.tensor([[start]], device=self._device)
        states = self.model(**inputs, decoder_input_ids=first).language_model_outputs.encoder_last_hidden_state
        return decoded(language, states, start, labels, attention_mask=inputs["attention_mask"])

    def answers(self, shown: Sequence[tuple[Image.Image, str]], longest: int) -> list[str]:
        """What is answered to each picture and prompt, each token the likeliest, at most `longest` of them.

        Pictures whose inputs have the same shapes are one batch, so that nothing is padded, and no answer depends on
        what it is computed with, but for rounding.
        """
        batches: dict[tuple[Any, ...], list[int]] = {}
        inputs = [self.inputs(image, prompt) for image, prompt in shown]
        for place, one in enumerate(inputs):
            batches.setdefault(tuple((name, tuple(value.shape)) for name, value in one.items()), []).append(place)
        found = [""] * len(shown)
        for places in batches.values():
            joined = {name: torch.cat([inputs[place][name] for place in places]) for name in inputs[places[0]]}
            made = self.model.generate(**joined, do_sample=False, num_beams=1, max_new_tokens=longest)
            given = joined["input_ids"]
            own = made[:, given.shape[1] :] if torch.equal(made[:, : given.shape[1]], given) else made
            for place, ids in zip(places, own.tolist(), strict=True):
                found[place] = self._said(ids)
        return found

    def _said(self, ids: list[int]) -> str:
        """The text up to the token that ends it, which is left out if it is a special one, as the library does."""
        writes = self.model.language_model if self.layout.inner else self.model
        ends = getattr(writes.generation_config, "eos_token_id", None)
        stops = set(ends if isinstance(ends, list) else [ends])
        first = 1 if self._seq2seq else 0  # a decoder of its own starts with a token that may be its padding
        end = next((at + 1 for at, token in enumerate(ids) if at >= first and token in stops), len(ids))
        return str(self.tokenizer.decode(ids[:end], skip_special_tokens=True)).strip()


class LanguageReader(_Continuing):
    """A language model that reads what was said of a picture, and scores the labels that may follow.

    `prompt` is the text before the label, with CAPTION where the caption goes."""

    def __init__(self, model: Any, tokenizer: Any, prompt: str, device: Device, where: str) -> None:
        self.model, self.tokenizer, self.where = model, tokenizer, where
        self._before, self._end = prompt.split(CAPTION)
        self._device = torch.device(device.name)
        self._seq2seq = bool(model.config.is_encoder_decoder)

    def log_likelihoods(self, shown: str, labels: Sequence[Sequence[int]]) -> Floats:
        """Summed log-probabilities of labels, given by their tokens, after the prompt with a caption: (labels,)."""
        ids = self.tokenizer(self._before + shown + self._end, return_tensors="pt")["input_ids"].to(self._device)
        if self._seq2seq:
            states = self.model.get_encoder()(input_ids=ids).last_hidden_state
            return decoded(self.model, states, self.model.config.decoder_start_token_id, labels)
        require_end(ids[0].tolist(), self._read(self._end), self.where)
        out = self.model(input_ids=ids, use_cache=True, logits_to_keep=1)
        return Prefix(out.past_key_values, out.logits[:, -1], self.model).log_likelihoods(labels)


def _decode_plainly(model: Any) -> None:
    """Keep of what the configs say of decoding the tokens that begin, end and pad a text: `generate` takes all that it
    is not told from there, such as forbidden words, penalties, or a method that is code on a hub."""
    for part in model.modules():  # BLIP-2's language model has its own
        if getattr(part, "generation_config", None) is not None:
            written = part.generation_config
            ids = {name: getattr(written, name, None) for name in _TEXT_ENDS}
            part.generation_config = GenerationConfig(**ids)
