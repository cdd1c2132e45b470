from __future__ import annotations

import numpy as np
import pytest

from fairgate.portraits.generator_models import token_ids, write_slow_tokenizer
from fairgate.portraits.generator_words import CONTEXT, TEMPLATES, bpe, instruction, new_tokenizer, training_caption
from fairgate.portraits.world import ATTRIBUTES, LABELS, PERSON, caption

PROMPTS = [
    *(caption(label, skin_tone="dark", gender="female") for label in [*LABELS, PERSON]),
    *(template.format(word) for template, words in TEMPLATES.items() for word in words.values()),
    "A color photograph of a dark-skinned woman, headshot, high quality",
]


@pytest.fixture(scope="module")
def tokenizer():
    return new_tokenizer()


@pytest.mark.parametrize("prompt", PROMPTS)
def test_every_known_word_is_one_token(tokenizer, prompt):
    tokens = [token.removesuffix("</w>") for token in tokenizer.tokenize(prompt)]
    assert tokens == prompt.lower().replace("-", " - ").replace(",", " ,").split()
    assert len(tokens) + 2 <= CONTEXT


def test_any_other_text_falls_into_known_pieces(tokenizer):
    unknown = tokenizer.convert_tokens_to_ids("not a token at all")
    for text in ("an astronaut", "naïve 東京 🙂", "a photo of " + "a very long caption " * 9):
        ids = token_ids(tokenizer, [text])
        assert ids.shape == (1, CONTEXT)
        assert tokenizer.decode(tokenizer(text).input_ids[1:-1]).replace(" ", "") == text.lower().replace(" ", "")
        assert unknown not in tokenizer(text).input_ids[1:-1]


def test_the_slow_files_say_the_same_as_the_fast_one(tmp_path, tokenizer):
    from transformers import CLIPTokenizer

    write_slow_tokenizer(tmp_path)
    slow = CLIPTokenizer.from_pretrained(tmp_path, model_max_length=CONTEXT)
    for prompt in PROMPTS:
        assert slow(prompt).input_ids == tokenizer(prompt).input_ids


def test_the_vocabulary_is_the_same_each_time():
    (vocab, merges), again = bpe(), bpe()
    assert (vocab, merges) == again
    assert sorted(vocab.values()) == list(range(len(vocab)))


def test_training_captions_drop_what_they_may_and_invent_nothing():
    rng = np.random.default_rng(0)
    drawn = [training_caption(rng, "doctor", "dark", "female") for _ in range(3000)]
    assert sum(text == "" for text in drawn) / len(drawn) == pytest.approx(0.1, abs=0.02)
    words = {word for text in drawn for word in text.replace("-", " ").split()}
    others = {*ATTRIBUTES["skin_tone"], "male", "man", *LABELS} - {"dark", "doctor"}
    assert not words & others
    assert {"dark", "female", "woman", "doctor", "person"} <= words


@pytest.mark.parametrize(("gender", "words"), [("female", {"feminine", "woman"}), ("male", {"masculine", "man"})])
def test_instructions_are_the_papers_four(gender, words):
    rng = np.random.default_rng(0)
    drawn = {instruction(rng, gender) for _ in range(200)}
    assert drawn == {template.format(forms[gender]) for template, forms in TEMPLATES.items()}
    assert {text.split()[-1] for text in drawn} == words
