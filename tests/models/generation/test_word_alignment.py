"""A caption's tokens take over the maps of the base caption's words that they stand for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairgate.ground.errors import ModelError
from fairgate.models.generation.attention_sharing import align_tokens, word_pairs, words_of

LENGTH = 24
PHRASES = ["Middle Eastern", "White"]


def tokenizer(text: str, add_special_tokens: bool = True) -> SimpleNamespace:
    """Words break into pieces of at most four letters, as a BPE would break rare ones."""
    pieces = [word[start : start + 4] for word in text.split() for start in range(0, len(word), 4)]
    ids = [100 + hash(piece) % 1000 for piece in pieces]
    return SimpleNamespace(input_ids=[0, *ids, 1] if add_special_tokens else ids)


def aligned(base: str, caption: str) -> tuple[np.ndarray, np.ndarray]:
    found = align_tokens(base, caption, tokenizer, LENGTH, PHRASES)
    return found.weights, found.own


def test_a_caption_stands_for_itself_token_by_token() -> None:
    weights, own = aligned("a White male doctor", "a White male doctor")
    assert np.array_equal(weights, np.eye(LENGTH, dtype=np.float32))
    assert not own.any()


def test_an_attribute_of_two_words_takes_the_place_of_one() -> None:
    base = words_of("a White male doctor", PHRASES)
    words = words_of("a Middle Eastern female doctor", PHRASES)
    assert words == ["a", "Middle Eastern", "female", "doctor"]
    assert [(list(theirs), list(ours)) for theirs, ours in word_pairs(base, words)] == [([n], [n]) for n in range(4)]


def test_a_replaced_words_map_is_shared_by_the_tokens_that_replace_it() -> None:
    # a | Whit e | male | doct or      a | Midd le East ern | fema le | doct or
    weights, own = aligned("a White male doctor", "a Middle Eastern female doctor")
    assert not own.any()
    assert weights[2, 2:6].tolist() == weights[3, 2:6].tolist() == [0.25] * 4
    assert weights[4, 6:8].tolist() == [0.5, 0.5]
    assert weights[5, 8] == weights[6, 9] == weights[7, 10] == 1.0


def test_a_new_word_keeps_its_own_map_and_a_missing_one_is_lost() -> None:
    weights, own = aligned("a doctor", "a kind doctor")
    assert own.nonzero()[0].tolist() == [2]
    assert not weights[:, 2].any()
    weights, own = aligned("a kind doctor", "a doctor")
    assert not own.any()
    assert weights.sum(axis=1).tolist() == [1, 1, 0, *[1] * (LENGTH - 3)]  # the attention to "kind" is dropped


@given(
    base=st.lists(st.sampled_from("abcdef"), min_size=3, max_size=3),
    words=st.lists(st.sampled_from(["a", "bb", "ccccc", "dddddddddd"]), min_size=3, max_size=3),
)
def test_none_of_the_bases_attention_is_lost_where_words_replace_words(base: list[str], words: list[str]) -> None:
    weights, own = aligned(" ".join(base), " ".join(words))
    if not own.any() and weights.any(axis=1).all():
        assert np.allclose(weights.sum(axis=1), 1.0)
    assert (weights.any(axis=0) | (own > 0)).all()


def test_words_that_do_not_end_with_their_tokens_are_refused() -> None:
    def merging(text: str, add_special_tokens: bool = True) -> SimpleNamespace:
        return tokenizer(text.replace(" ", ""), add_special_tokens)

    with pytest.raises(ModelError) as caught:
        align_tokens("a tall doctor", "a small doctor", merging, LENGTH)
    assert "mode 'self'" in str(caught.value.remedy)
