"""The words of So-B-IT make the paper's captions, and a suite can name them by category."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from fairgate.ground.hashing import digest
from fairgate.probes import PROBES, ranking, taxonomy
from fairgate.suites import Suite, probe_digests

ASSOCIATION = PROBES["association"]


def probe(**settings: Any) -> Any:
    return ASSOCIATION.model_validate({"kind": "association", **settings})


def test_so_b_it_has_the_405_entries_of_table_4_which_are_400_words() -> None:
    so_b_it = taxonomy("so-b-it")
    sizes = {name: len(words) for name, words in so_b_it.categories.items()}
    assert sizes == {
        "appearance": 25,
        "behavioral": 77,
        "education and wealth": 23,
        "criminal justice": 28,
        "healthcare": 14,
        "portrayal in media": 23,
        "political": 24,
        "religion": 25,
        "occupation": 166,
    }
    entries = [word for words in so_b_it.categories.values() for word in words]
    assert len(entries) == 405
    assert set(entries) == set(so_b_it.captions)
    twice = {word for word in entries if entries.count(word) > 1}
    assert twice == {"savage", "aggressive", "lazy", "radical", "primitive"}


def test_the_words_and_captions_are_what_baselines_were_measured_with() -> None:
    """A probe's digest holds the taxonomy's name alone: other words under it need another name."""
    so_b_it = taxonomy("so-b-it")
    categories = {name: list(words) for name, words in so_b_it.categories.items()}
    held = digest({"captions": dict(so_b_it.captions), "categories": categories})
    assert held == "ed9c956c41adda9dcaba19fd2e6d58d81cee5b82ca12b1f58048de6aca5fed12"


def test_words_of_the_taxonomy_that_the_papers_text_calls_negative_are_labelled_so() -> None:
    """Under "stereotypical and negative words" it names `oriental` too, which table 4 lacks."""
    so_b_it = taxonomy("so-b-it")
    named = ["bossy", "psychopath", "felon", "gang-related", "terrorist", "fraud"]
    named += ["ghetto", "immigrant", "barbaric", "tribal"]
    assert [so_b_it.valence.get(word) for word in named] == ["negative"] * len(named)
    assert "oriental" not in so_b_it.captions


@pytest.mark.parametrize(
    ("word", "caption"),
    [
        ("ambitious", "a photo of an ambitious person"),
        ("bossy", "a photo of a bossy person"),
        ("uninsured", "a photo of an uninsured person"),
        ("terrorist", "a photo of a terrorist"),
        ("homemaker", "a photo of a homemaker"),
        ("umpire", "a photo of an umpire"),
        ("drug-seeking", "a photo of a person who is drug-seeking"),
    ],
)
def test_a_word_makes_the_caption_of_its_form(word: str, caption: str) -> None:
    assert taxonomy("so-b-it").captions[word] == caption


def test_a_probe_asks_every_word_of_the_chosen_categories_once() -> None:
    asked = probe(taxonomy="so-b-it", categories=["portrayal in media", "criminal justice"])
    assert list(asked.word_categories) == ["criminal justice", "portrayal in media"]
    assert len(asked.ranked_words) == 28 + 23 - 1, "savage is in both"
    assert "a photo of a savage person" in asked.texts(())
    assert len(probe(taxonomy="so-b-it").ranked_words) == 400


def test_words_of_ones_own_may_have_categories() -> None:
    asked = probe(template="a photo of {a_word}", words={"care": ["nurse"], "food": ["chef", "nurse"]})
    assert asked.word_categories == {"care": ("nurse",), "food": ("chef", "nurse")}
    assert asked.ranked_words == ("nurse", "chef")


def test_a_plain_list_of_words_is_recorded_as_it_was_before_there_were_categories() -> None:
    given = {"kind": "association", "template": "a photo of {a_word}", "words": ["nurse", "chef"]}
    assert probe(**given).model_dump(mode="json") == given


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "has `words` .* or a `taxonomy`, one of them"),
        ({"taxonomy": "so-b-it", "words": ["a"], "template": "{word}"}, "one of them"),
        ({"words": ["nurse"]}, "`words` and `template` go together"),
        ({"taxonomy": "so-b-it", "template": "{word}"}, "`words` and `template` go together"),
        ({"words": ["nurse"], "template": "{word}", "categories": ["religion"]}, "`categories` are those of a"),
        ({"taxonomy": "so-b-it", "categories": ["religon"]}, "no category 'religon'.*religion"),
        ({"taxonomy": "sobit"}, "so-b-it"),
        ({"words": {"care": []}, "template": "{word}"}, "the category 'care' has no word"),
        ({"words": {"care": ["nurse", "nurse"]}, "template": "{word}"}, "words are given twice"),
        ({"words": {}, "template": "{word}"}, "at least 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        probe(**settings)


def digest_of(**settings: Any) -> str:
    return probe_digests(cast(Suite, SimpleNamespace(probes={"words": probe(**settings)})))["words"]


def test_a_release_that_corrects_a_caption_is_not_compared_with_one_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    so_b_it = taxonomy("so-b-it")
    chosen: list[dict[str, Any]] = [
        {"taxonomy": "so-b-it"},
        {"taxonomy": "so-b-it", "categories": ["behavioral"]},
        {"taxonomy": "so-b-it", "categories": ["religion"]},
        {"template": "a photo of {a_word}", "words": ["ambitious"]},
    ]
    before = [digest_of(**settings) for settings in chosen]
    corrected = replace(so_b_it, captions={**so_b_it.captions, "ambitious": "a photo of the ambitious"})
    monkeypatch.setattr(ranking, "taxonomy", lambda _: corrected)
    after = [digest_of(**settings) for settings in chosen]
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, False, True, True]
    moved = {**so_b_it.categories, "religion": so_b_it.categories["religion"][1:]}
    monkeypatch.setattr(ranking, "taxonomy", lambda _: replace(so_b_it, categories=moved))
    assert digest_of(**chosen[2]) != before[2], "a word that left its category"
