"""An image-text-to-text model of any type that transformers opens, with its processor and chat template. For the
isolated process."""

from __future__ import annotations

import faulthandler
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import (
    LOCAL,
    VISION_LANGUAGE,
    Device,
    TransformersFolder,
    class_of_task,
    load_parts,
    loading,
)
from fairgate.models.contract import Floats
from fairgate.models.vlm.asking import IMAGE, Asking, require_one_context
from fairgate.models.vlm.engine import ContinuedPrompt, Inputs, Tokens, decode_plainly, require_end

_PATIENCE = 20  # seconds for a chat template
_LONGEST = 100_000  # characters of what it writes
_MOST_IMAGE_TOKENS = 16_384  # of one picture: attention needs memory by their square
_CHECKED = 2  # last tokens of a prompt that have to be those of its text
_NEAR = 1e-3
"""Nats by which a label's log-likelihood may differ from that of the library's forward pass, in float32: the order of
sums. A probability changes by a thousandth of itself."""
_TRIED_SIDES = ((64, 64), (64, 64), (768, 1024))  # height and width: two of one shape, and what is cut into tiles
_TRIED_LABEL = "an engineer who repairs the brakes of old trains near the harbour, and a doctor's assistant"
"""Its first two tokens are the other label: labels of two lengths, in one batch."""
_LIMITS = ("sliding_window", "attention_chunk_size", "max_position_embeddings", "original_max_position_embeddings")
"""Settings of a text's length from which on a network may compute in another way, with its cache and without."""


def open_seeing(found: TransformersFolder, asking: Asking, device: Device, seed: int) -> VisionLanguage:
    """A folder's model, loaded. Labels share a prompt unasked in the types of VISION_LANGUAGE, which the tests compare
    with the library. Raises ModelError, also for a type that the library's list does not have."""
    import transformers

    name, listed = class_of_task(found, "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING"), found.kind in VISION_LANGUAGE
    model, _, _ = load_parts(name, found, device, images=False, texts=False, casting=listed)
    require_one_context(model.config, str(found.path))
    # SmolVLM's own processor writes the same text for a picture, and needs num2words for videos
    reader = transformers.Idefics3Processor if found.kind == "smolvlm" else transformers.AutoProcessor
    with loading(found) as folder:
        processor = reader.from_pretrained(folder, **LOCAL)
    if asking.whole:
        processor.chat_template = None
    if getattr(processor, "num_query_tokens", 0) is None:  # a BLIP-2 that older versions saved: it would not see
        processor.num_query_tokens = model.config.num_query_tokens
    return VisionLanguage(model, processor, asking.prompt, device, str(found.path), None if listed else seed)


class VisionLanguage(ContinuedPrompt):
    """`prompt` is the user's message, with IMAGE where the picture goes; a processor without a chat template is given
    it as it is. `seed` draws what `shares` tries; without one, it is known that they do."""

    def __init__(
        self, model: Any, processor: Any, prompt: str, device: Device, where: str, seed: int | None = 0
    ) -> None:
        self.model, self.processor, self.prompt, self.where = model, processor, prompt, where
        self.unused = decode_plainly(model)
        self._device, self._dtype = torch.device(device.name), torch.bfloat16 if device.precision == "bf16" else None
        self._seed = seed
        inner = model.language_model if model.config.model_type == "blip-2" else None  # which writes, by its own config
        self.tokenizer, self._writer = processor.tokenizer, model if inner is None else inner
        self._seq2seq = bool(model.config.get_text_config().is_encoder_decoder or model.config.is_encoder_decoder)

    @property
    def _end(self) -> str:  # type: ignore[override] # the whole text, which a chat template writes
        return "" if self._line_ends else self._text(self.prompt)

    @cached_property
    def shares(self) -> bool:
        """Whether all labels may continue one pass over pictures and prompt, of several pictures at once: whether that
        gives the numbers of the library's forward pass, a picture and a label at a time. Tried on noise, for texts as
        long as these or up to the config's limits."""
        if self._seed is None:
            return True
        draw = np.random.default_rng(self._seed)
        noise = [draw.integers(0, 256, (*sides, 3), dtype=np.uint8) for sides in _TRIED_SIDES]
        try:
            shown = [self.inputs(Image.fromarray(levels)) for levels in noise]
            words = self._read(" ".join(draw.permutation(_TRIED_LABEL.split())))
            labels = [words[:2], words]
            limits = _limits(self.model.config.get_text_config(decoder=True).to_dict())
            self._longest = max(_length(shown, labels), min(limits, default=_MOST_IMAGE_TOKENS + 2 * _LONGEST))
            with torch.inference_mode(), torch.autocast(self._device.type, enabled=False):
                at_once = len(shown) * _length(shown, labels)  # all: answers are given to more than labels are scored
                differ = self._shared(shown, labels, at_once) - self._plainly(shown, labels)
        except Exception:  # of any type: each model refuses in its own way what it does not take
            return False
        return bool(np.abs(differ).max() <= _NEAR)

    def log_likelihoods(self, shown: Sequence[Inputs], labels: Sequence[Tokens]) -> Floats:
        """Summed log-probabilities of labels, given by their tokens, on pictures, given as `inputs`: (pictures, labels)
        float64."""
        whole = all(bool(each["attention_mask"].all()) for each in shown if "attention_mask" in each)
        alike = self.shares and whole and (self._seed is None or _length(shown, labels) <= self._longest)
        return super().log_likelihoods(shown, labels) if alike else self._plainly(shown, labels)

    def answers(self, shown: Sequence[Inputs], longest: int) -> list[str]:
        """What is answered to pictures and messages, given as `inputs`, each token the likeliest, at most `longest`."""
        if self.shares:
            return super().answers(shown, longest)
        return [reply for each in shown for reply in super(VisionLanguage, self).answers([each], longest)]

    def _plainly(self, shown: Sequence[Inputs], labels: Sequence[Tokens]) -> Floats:
        """A forward pass for each picture and label."""
        return np.array([[self._log_likelihood(each, label) for label in labels] for each in shown], dtype=np.float64)

    def _log_likelihood(self, inputs: Inputs, label: Tokens) -> float:
        target = torch.tensor([list(label)], device=self._device)
        if self._seq2seq:
            logits = self.model(**inputs, labels=target).logits
        else:
            length = inputs["input_ids"].shape[1]
            logits = self.model(**_continued(inputs, target)).logits[:, length - 1 : -1]
        chosen = torch.log_softmax(logits.double(), dim=-1).gather(2, target[:, :, None])
        return float(chosen.sum())

    def inputs(self, picture: Any, message: str | None = None) -> dict[str, Any]:
        """A picture and a message (None: the prompt) as the model takes them. Raises ModelError where a label could not
        follow, and for very many tokens."""
        text = self._text(self.prompt if message is None else message)
        begins = str(self.tokenizer.bos_token or "")
        more = {"add_special_tokens": False} if begins and text.startswith(begins) else {}
        made = self._made(picture, text, **more)
        mark = getattr(self.model.config, "image_token_id", None)
        if isinstance(mark, int) and not bool((made["input_ids"] == mark).any()):
            raise ModelError(
                "the tokenizer's prompt has no token for the picture, so that the model would not see it.",
                where=self.where,
                remedy="check image_token_id in config.json, and the image token of the tokenizer",
            )
        if made["input_ids"].shape[1] > _MOST_IMAGE_TOKENS + _LONGEST:
            raise ModelError("the processor makes a picture into very many tokens.", where=self.where)
        if message is None and not self._seq2seq and not self._line_ends:
            require_end(made["input_ids"][0].tolist(), self._read(text)[-_CHECKED:], self.where)
        return {
            name: value.to(self._device, self._dtype if value.is_floating_point() else None)
            for name, value in made.items()
            if isinstance(value, torch.Tensor) and name != "labels"  # which PaliGemma's are to be learned by
        }

    def _text(self, message: str) -> str:
        """The whole text before an answer. Raises ModelError for a template that fails, or is long or slow."""
        before, after = message.split(IMAGE)
        if not getattr(self.processor, "chat_template", None):
            if before and self._marks_itself:
                raise ModelError(
                    "the prompt has text before the picture, and this model takes the picture first.",
                    where=self.where,
                    remedy=f"begin the prompt with {IMAGE}",
                )
            return before + ("" if self._marks_itself else self._mark) + after
        words = [{"type": "text", "text": part} if part else None for part in (before, after)]
        content = [part for part in (words[0], {"type": "image"}, words[1]) if part]
        faulthandler.dump_traceback_later(_PATIENCE, exit=True, file=2)  # 9**9**9 hears nothing else
        try:
            text = self.processor.apply_chat_template(
                [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
            )
        finally:
            faulthandler.cancel_dump_traceback_later()
        if len(text) > _LONGEST:
            raise ModelError(
                f"the folder's chat template writes {len(text):,} characters.",
                where=self.where,
                remedy="save the template of the model that was tuned",
            )
        return str(text)

    @property
    def _mark(self) -> str:
        """What marks a picture in a text."""
        return str(getattr(self.processor, "image_token", None) or "")

    @property
    def _marks_itself(self) -> bool:
        """Whether the processor marks the picture in a text that has no mark."""
        return not self._mark or self.tokenizer.convert_tokens_to_ids(self._mark) in self._unmarked

    @property
    def _line_ends(self) -> bool:
        """Whether the processor ends a text with a line break: a label is then read by itself."""
        return bool(self._unmarked) and self._unmarked[-1:] == self._read("\n")[-1:]

    @cached_property
    def _unmarked(self) -> list[int]:
        """The tokens of a picture with a text that has no mark for it; none if the processor takes no such text."""
        try:
            made = self._made(Image.new("RGB", (64, 64)), "a")
        except ValueError:  # pictures without a mark are none of a text's
            return []
        return [int(token) for token in made["input_ids"][0]]

    def _made(self, picture: Any, text: str, **more: bool) -> Any:
        with warnings.catch_warnings():  # PaliGemma's reads a tensor in a way that numpy 2 warns of
            warnings.simplefilter("ignore", DeprecationWarning)
            return self.processor(images=[picture], text=[text], return_tensors="pt", **more)


def _length(shown: Sequence[Inputs], labels: Sequence[Tokens]) -> int:
    """Tokens of the longest prompt with the longest label."""
    return max(each["input_ids"].shape[1] for each in shown) + max(map(len, labels))


def _limits(settings: Mapping[str, Any]) -> Iterator[int]:
    """The _LIMITS of a config, and of the groups in it."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _limits(value)
        elif name in _LIMITS and isinstance(value, int) and value > 0:
            yield value


def _continued(inputs: Inputs, label: torch.Tensor) -> dict[str, Any]:
    """Inputs with a label after the prompt: what is said of each token of the prompt, such as a mask, is said of the
    label's as of one that is there, and is text."""
    ids = inputs["input_ids"]
    given = dict(inputs, input_ids=torch.cat([ids, label], dim=1))
    for name, value in inputs.items():
        if name != "input_ids" and value.shape == ids.shape:
            filled = torch.full_like(label, 1 if name == "attention_mask" else 0, dtype=value.dtype)
            given[name] = torch.cat([value, filled], dim=1)
    return given
