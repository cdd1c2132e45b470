"""The generator's words: captions, the editor's instructions, and a BPE tokenizer that holds their words whole."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np

from fairgate.portraits.world import PERSON, vocabulary, with_article

CONTEXT = 24
"""Tokens of a caption, start and end among them. What is longer is cut."""

NAMED = 0.7
"""Share of the captions that name skin tone, and of those that name gender presentation."""

NOUNS = {"male": "man", "female": "woman"}
"""The noun of a caption that names gender and no occupation, half of the time; else `male person`."""

TEMPLATES: dict[str, dict[str, str]] = {
    "Make this person more {}": {"female": "feminine", "male": "masculine"},
    "Make this person look like a {}": {"female": "woman", "male": "man"},
    "Turn this person into a {}": {"female": "woman", "male": "man"},
    "Convert this into a {}": {"female": "woman", "male": "man"},
}
"""Instructions of the editor and their words (Smith et al. 2023, table 7)."""

_FRAMES = ("{}", "a photo of {}", "a photo of {}", "a picture of {}", "an image of {}", "a portrait of {}")
_MORE_WORDS = (
    "portrait photograph color face headshot high quality man woman men women feminine masculine this make more look "
    "like turn into convert in the with and not real fake"
)
_START, _END = "<|startoftext|>", "<|endoftext|>"


def training_caption(rng: np.random.Generator, label: str, skin_tone: str, gender: str) -> str:
    """A caption of a portrait that drops each of its attributes at random, or all of them: 1 in 10 is empty."""
    if rng.random() < 0.1:
        return ""
    noun = PERSON if rng.random() < 0.15 else label
    words = [f"{skin_tone}-skinned"] if rng.random() < NAMED else []
    if rng.random() < NAMED:
        if noun == PERSON and rng.random() < 0.5:
            noun = NOUNS[gender]
        else:
            words.append(gender)
    if rng.random() < 0.2:
        words.reverse()
    text = " ".join([*words, noun])
    frame = _FRAMES[int(rng.integers(len(_FRAMES)))]
    if frame == "{}" and rng.random() < 0.5:
        return text
    return frame.format(f"a {text}" if rng.random() < 0.3 else with_article(text))


def instruction(rng: np.random.Generator, gender: str) -> str:
    """One of the four instructions towards a gender presentation."""
    templates = list(TEMPLATES)
    template = templates[int(rng.integers(len(templates)))]
    return template.format(TEMPLATES[template][gender])


def bpe() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges of a byte-level BPE in which every known word is one token.

    The most frequent pair is merged first, ties in alphabetical order, until no known word is in pieces. Any other
    text falls into pieces of words, down to bytes.
    """
    words = sorted({part for word in [*vocabulary(), *_MORE_WORDS.split()] for part in word.split("-")})
    pieces = [[*word[:-1], f"{word[-1]}</w>"] for word in words]
    merges: list[tuple[str, str]] = []
    while counts := Counter(pair for word in pieces for pair in pairwise(word)):
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        pieces = [_merged(word, best) for word in pieces]
    letters = _bytes_as_letters()
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), *("".join(pair) for pair in merges), _START, _END]
    return {token: index for index, token in enumerate(tokens)}, merges


def _merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    out: list[str] = []
    for piece in word:
        if out and (out[-1], piece) == pair:
            out[-1] += piece
        else:
            out.append(piece)
    return out


def _bytes_as_letters() -> list[str]:
    """The printable letter that byte-level BPE writes for each byte: itself, or one past 255."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def new_tokenizer() -> Any:
    """The tokenizer as transformers' CLIPTokenizer."""
    from transformers import CLIPTokenizer

    vocab, merges = bpe()
    return CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=CONTEXT)
