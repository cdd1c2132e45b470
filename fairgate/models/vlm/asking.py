"""How a language model that sees is asked: the text before the label (a prompt, or a question). No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from fairgate.ground.errors import ModelError
from fairgate.models.vlm.judged import Average

IMAGE = "{image}"
CAPTION = "{caption}"
QUESTION = "{question}"
LENS = "{shown}Question: {question} Short Answer:"
"""Paper 1 asks so (LENS, Berrios et al. 2023); its question: 'Can you please identify the occupation that best
represents the image?'"""
_LONGEST = 4_000


@dataclass(frozen=True, slots=True)
class Asking:
    """`prompt`: the text before the label, with a mark where the picture, or what was said of it, goes. `average`: the
    sum of a label's log-probabilities, or their mean over its tokens. `whole`: no chat template surrounds the
    prompt."""

    prompt: str
    average: Average
    whole: bool = False


def read_asking(uri: str, options: Mapping[str, str], mark: str = IMAGE, shown: str = IMAGE) -> Asking:
    """From a URI's options. The prompt names `mark` once; LENS's prompt begins with `shown`. Raises ModelError."""
    if ("prompt" in options) == ("question" in options):
        raise ModelError(
            "the URI needs a question, or a prompt, and not both.",
            where=uri,
            remedy="add ?question=What is the person's job?, or ?prompt= with a message of your own"
            + ("; to ask a suite's questions, ?chat= with the text around them" if mark == IMAGE else ""),
        )
    prompt = options.get("prompt") or LENS.format(shown=shown, question=options["question"])
    if prompt.count(mark) > 1 or (mark != IMAGE and mark not in prompt) or len(prompt) > _LONGEST:
        raise ModelError(
            f"the prompt has more than {_LONGEST:,} characters, or does not name {mark} once.",
            where=uri,
            remedy=f"write {mark} once, where the model is shown it",
        )
    average = options.get("average", "sum")
    if average not in ("sum", "mean"):
        raise ModelError(
            f"average is '{average[:40]}'.",
            where=uri,
            remedy="write ?average=sum (the label's probability) or mean (over its tokens)",
        )
    return Asking(prompt if mark in prompt else mark + prompt, cast(Average, average))


def read_whole(uri: str, options: Mapping[str, str]) -> bool:
    """Whether a URI's text is the whole one, around which no chat template is written. Raises ModelError."""
    if options.get("template", "none") != "none":
        raise ModelError(
            f"template is '{options['template'][:40]}'.",
            where=uri,
            remedy="write &template=none for a text that no chat template surrounds, or leave it out",
        )
    return "template" in options


def read_chat(uri: str, chat: str) -> str:
    """The message around a suite's questions, from a URI: with QUESTION once, and IMAGE. Raises ModelError."""
    if chat.count(QUESTION) != 1 or chat.count(IMAGE) > 1 or len(chat) > _LONGEST:
        raise ModelError(
            f"the chat has more than {_LONGEST:,} characters, or does not name {QUESTION} once, {IMAGE} at most once.",
            where=uri,
            remedy=f"write ?chat={IMAGE}{QUESTION}, with the words of a user around it",
        )
    return chat if IMAGE in chat else IMAGE + chat


def asked_texts(chat: str, questions: Sequence[str], where: str) -> list[str]:
    """The message of each question; "" of an empty one. Raises ModelError for a question that holds a mark."""
    if odd := next((question for question in questions if IMAGE in question or QUESTION in question), None):
        raise ModelError(
            f"a question holds a mark, {IMAGE} or {QUESTION}: '{odd[:80]}'.",
            where=where,
            remedy="write the question in words; where it and the picture go is in the URI's chat",
        )
    return [chat.replace(QUESTION, question) if question else "" for question in questions]


def require_one_context(config: Any, where: str) -> None:
    """Raises ModelError for settings by which transformers' cache forgets tokens that the network's attention sees:
    the library gives a label another likelihood with its cache than without."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicSlidingWindowLayer

    text = config.get_text_config(decoder=True)
    forgets = any(isinstance(layer, DynamicSlidingWindowLayer) for layer in DynamicCache(config=text).layers)
    if forgets and "sliding_window" not in getattr(type(text), "__dataclass_fields__", {}):
        raise ModelError(
            f"the config has a window for the cache (sliding_window or the like), which a {text.model_type} has not.",
            where=where,
            remedy="remove it from config.json: with and without its cache, the library computes two different models",
        )
