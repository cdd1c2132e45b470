"""The captions of `social_counterfactuals` are the authors', to the byte."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from fairgate.builds.recipes import open_recipe
from fairgate.builds.recipes.social_counterfactuals import (
    ATTRIBUTES,
    PREFIXES,
    TEMPLATES,
    caption_set,
    different,
    set_name,
    subjects_of,
    with_article,
)

PAIRS = {
    "occupations": (
        ("race", "gender"),
        ("gender", "religion"),
        ("race", "religion"),
        ("physical_trait", "gender"),
        ("physical_trait", "race"),
        ("physical_trait", "religion"),
    ),
    "traits": (("race", "gender"), ("religion", "gender"), ("race", "religion")),
}
"""Table 5: the pairs that the authors made, in the order in which captions name them (table 9)."""
REAL = Path(__file__).parents[3].parent / "shared" / "real"
needs_real_data = pytest.mark.skipif(not REAL.is_dir(), reason="the real data lie beside the checkout only")


def captions(prefix: str, subject: str, pair: tuple[str, str], of: str = "occupations") -> list[str]:
    words = {name: ATTRIBUTES[name] for name in pair}
    return [member["caption"] for member in caption_set(prefix, subject, words, TEMPLATES[of])]  # type: ignore[index]


@needs_real_data
def test_every_line_of_the_authors_file_comes_out_in_its_order() -> None:
    lines = (REAL / "socialcounterfactuals_race_gender.jsonl").read_text("utf-8").splitlines()
    made = []
    for subject in subjects_of("occupations"):
        for prefix in PREFIXES:
            base, *others = captions(prefix, subject, ("race", "gender"))
            line = {"caption": base, **{f"output_{number}": other for number, other in enumerate(others, 1)}}
            made.append(json.dumps({**line, "filename": set_name(prefix, ("race", "gender"), subject)}))
    assert made == lines


@needs_real_data
def test_what_the_authors_drew_lies_in_the_published_ranges_and_fills_them() -> None:
    with gzip.open(REAL / "socialcounterfactuals_generation_metadata.csv.gz", "rt") as file:
        drawn = list(csv.DictReader(file))
    options = open_recipe("social_counterfactuals", {}).settings
    for column, (low, high) in {"p2p_threshold": options.shares, "cfg_scale": options.guidances}.items():  # type: ignore[attr-defined]
        values = [float(row[column]) for row in drawn]
        assert low <= min(values) < low + 0.02 * (high - low)
        assert high - 0.02 * (high - low) < max(values) <= high
    assert all(0 <= int(row["rank"]) < 100 for row in drawn)


def test_sets_are_as_large_as_table_5_says() -> None:
    sizes = {pair: len(captions("", "pilot", pair)) for pair in PAIRS["occupations"]}
    assert list(sizes.values()) == [12, 8, 24, 28, 84, 56]
    assert [len(captions("", "able", pair, "traits")) for pair in PAIRS["traits"]] == [12, 8, 24]
    occupations, traits = (len(PREFIXES) * len(subjects_of(kind)) for kind in ("occupations", "traits"))
    assert (occupations, traits) == (1044, 252)
    assert occupations * 212 + traits * 44 == 232_416  # the paper's "232k captions"


def test_every_pair_reads_as_table_9() -> None:
    assert "male Christian pilot" in captions("", "pilot", ("gender", "religion"))[0]
    assert captions("A photo of", "electrician", ("race", "gender"))[0] == "A photo of a White male electrician"
    assert "A picture of a friendly Muslim female" in captions(
        "A picture of", "friendly", ("religion", "gender"), "traits"
    )
    assert "An image of a sympathetic Indian Hindu" in captions(
        "An image of", "sympathetic", ("race", "religion"), "traits"
    )
    assert captions("", "cook", ("physical_trait", "gender"))[:2] == [
        "an attractive male cook",
        "an attractive female cook",
    ]


@pytest.mark.parametrize("pair", PAIRS["occupations"])
def test_no_two_captions_of_a_set_are_the_same_and_articles_are_spoken_right(pair: tuple[str, str]) -> None:
    made = captions("An image of", "umpire", pair)
    assert len(set(made)) == len(made)
    for caption in made:
        article, word = caption.removeprefix("An image of ").split(" ")[:2]
        assert article == ("an" if word[0].lower() in "aeiou" else "a")


def test_articles_follow_the_sound() -> None:
    said = [
        "an honest clerk",
        "a helpful clerk",
        "an umpire",
        "a uniformed guard",
        "an understanding clerk",
        "a European",
    ]
    assert [with_article(phrase.split(" ", 1)[1]) for phrase in said] == said


def test_occupations_that_differ_in_case_alone_are_built_once() -> None:
    published = subjects_of("occupations")
    once = different(published)
    assert len(published) == 261
    assert len(once) == len({set_name("", (), subject) for subject in published}) == 181
    assert open_recipe("social_counterfactuals", {}).subjects() == once
    assert len(open_recipe("social_counterfactuals", {"of": "traits"}).subjects()) == 63
