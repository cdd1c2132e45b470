"""Alignment of a caption's words with those of the base caption, and of the tokens that share an attention map.

Prompt-to-Prompt's word swap and refinement (Hertz et al. 2022): an unchanged word keeps its map, a replaced word takes
over the map of the word that it replaces, a word that is new keeps the map of its own. An attribute of several words
("Middle Eastern") is one word here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.errors import ModelError


@dataclass(frozen=True, slots=True)
class Alignment:
    """`weights` (base tokens, tokens) and `own` (tokens,): see `shared_attention.attention.Words`."""

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
