"""Gender that captions name: against the authors' code where it is right, and where it errs."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairgate.builds.steps.caption_gender import (
    OF_THE_CODE,
    TABLE_4,
    WIDER_WORDS,
    WORDS,
    image_gender,
    named_gender,
    neutralise,
    with_gender,
)

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "captions.json").read_text())
CODES = {"none": -1, None: -1, "male": 0, "female": 1, "both": 2}

# Every output of the authors' code (oxai/debias-gensynth) that fairgate means to differ from, and why. Labels are
# -1 none, 0 male, 1 female, 2 both. Its neutral texts were made from lower case, or with capitals left standing.
PUNCTUATION = {  # words are split at blanks there: "woman." and "man's" are no words of its list
    "The man's dog is barking": 0,
    "Portrait of a woman.": 1,
    "Some people with a dog near a man.": 0,
    "Some people looking at him, outside": 0,
    "Some people near the wives, outside": 1,
    "a nephew wearing hers!": 2,
    "a male skier and a woman!": 2,
    "Two girls looking at him, outside": 2,
    "Two girls looking at him.": 2,
    "He and a woman.": 2,
    "a nephew and his wife.": 2,
    "the boy near the wives, outside": 2,
    "She with her umbrella near a man.": 2,
}
TABLE_4_HAS_IT = {"boyfriend kissing his girlfriend": 2}  # the paper lists them, the code does not
LABELS = PUNCTUATION | TABLE_4_HAS_IT
CAPITALS = {  # "as is", it replaces words in lower case alone
    "Men playing frisbee": "People playing frisbee",
    "He is tall. SHE is not.": "They is tall. THEY is not.",
    "A Woman holding hers , his hat !": "A Person holding theirs , their hat !",
    "He with her umbrella near a man.": "They with their umbrella near a person.",
    "She and a woman .": "They and a person .",
    "He and a woman.": "They and a person.",
    "He near the wives .": "They near the partners .",
    "She with her umbrella near a man.": "They with their umbrella near a person.",
    "She holding his phone near a man.": "They holding their phone near a person.",
}
NEUTRAL = CAPITALS | {"boyfriend kissing his girlfriend": "partner kissing their partner"}
FEMININE = {  # him becomes her there only where hers is written; wife's plural is not wifes
    "A man sleeping with his cat next to him .": "a woman sleeping with her cat next to her .",
    "wives and husbands dancing": "wives and wives dancing",
    "boyfriend kissing his girlfriend": "girlfriend kissing her girlfriend",
    "Some people looking at him, outside": "some people looking at her, outside",
    "the aunt looking at him": "the aunt looking at her",
    "Two girls looking at him, outside": "two girls looking at her, outside",
    "Two girls looking at him.": "two girls looking at her.",
}
MASCULINE = {  # what is hers is his, not him
    "hers is the blue one": "his is the blue one",
    "A Woman holding hers , his hat !": "a man holding his , his hat !",
    "boyfriend kissing his girlfriend": "boyfriend kissing his boyfriend",
    "a nephew wearing hers!": "a nephew wearing his!",
    "the lady wearing hers .": "the gentleman wearing his .",
    "A female chef wearing hers.": "a male chef wearing his.",
    "the lady wearing hers!": "the gentleman wearing his!",
    "a male skier wearing hers near a man.": "a male skier wearing his near a man.",
    "Some people wearing hers .": "some people wearing his .",
}


def close_up(text: str) -> str:
    """The authors' code takes blanks before . , ! away; fairgate leaves text that names no gender to the byte."""
    return re.sub(r"\s+([.,!])", r"\1", text)


@pytest.mark.parametrize(
    ("output", "ours", "meant"),
    [
        ("neutralise(as is)", neutralise, NEUTRAL),
        ("swap_to_feminine(dict FEMALE_TO_MALE)", lambda text: with_gender(text, "female").lower(), FEMININE),
        ("swap_to_masculine(dict MALE_TO_FEMALE)", lambda text: with_gender(text, "male").lower(), MASCULINE),
    ],
)
def test_texts_are_the_authors_except_where_their_code_errs(
    output: str, ours: Callable[[str], str], meant: dict[str, str]
) -> None:
    differ = {}
    for case in GOLDEN["cases"]:
        text, theirs = case["caption"], case["outputs"][output]
        if close_up(ours(text)) != close_up(theirs):
            differ[text] = ours(text)

    assert differ == meant


def test_in_lower_case_neutral_texts_are_the_authors_except_for_words_that_their_code_lacks() -> None:
    differ = {
        case["caption"]
        for case in GOLDEN["cases"]
        if close_up(neutralise(case["caption"].lower())) != case["outputs"]["neutralise(lower)"]
    }

    assert differ == set(TABLE_4_HAS_IT)


def test_labels_are_the_authors_except_where_a_word_stands_beside_punctuation() -> None:
    differ = {}
    for case in GOLDEN["cases"]:
        if (ours := CODES[named_gender(case["caption"])]) != case["outputs"]["assign_gender_label"]:
            differ[case["caption"]] = ours

    assert differ == LABELS


def test_images_are_labelled_as_by_the_authors_code() -> None:
    captions = defaultdict(list)
    for annotation in GOLDEN["annotations"]:
        captions[str(annotation["image_id"])].append(annotation["caption"])

    assert {image: CODES[image_gender(captions[image])] for image in GOLDEN["image_labels"]} == GOLDEN["image_labels"]


@pytest.mark.parametrize(
    ("caption", "neutral"),
    [
        ("The woman brushes her teeth in the bathroom.", "The person brushes their teeth in the bathroom."),
        ("A man sleeping with his cat next to him .", "A person sleeping with their cat next to them ."),
        (
            "Two women and two girls in makeup and one is talking on a cellphone.",
            "Two people and two children in makeup and one is talking on a cellphone.",
        ),
    ],
)
def test_captions_of_table_5_become_neutral_as_the_paper_prints_them(caption: str, neutral: str) -> None:
    assert neutralise(caption) == neutral  # but for the paper's own "car", which was a cat


@pytest.mark.parametrize(
    ("caption", "neutral"),
    [
        ("Student shows her a mobile phone", "Student shows them a mobile phone"),
        ("things hanging behind her on the land", "things hanging behind them on the land"),
        ("a date of hers, a friend of his.", "a date of theirs, a friend of theirs."),
        ("the bike is his and the cat is with her", "the bike is theirs and the cat is with them"),
        ('She is doing her "best" serve', 'They is doing their "best" serve'),
        ("in her off-white dress, his/her bag", "in their off-white dress, their/their bag"),
        ("An uncle and AN AUNT", "A relative and A RELATIVE"),
        ("He's almost there, she’s not", "They're almost there, they’re not"),
        ("A girls' softball game; the women's team", "A children's softball game; the people's team"),
        ("the 'two boys' playing, it's the boys' game", "the 'two children' playing, it's the children's game"),
        ("‘Boys’ on a sign", "‘Children’ on a sign"),
        ("A man-made lake, a mother-daughter trip", "A man-made lake, a parent-child trip"),
        ("a human shepherd in Manhattan, womanly, boyish", "a human shepherd in Manhattan, womanly, boyish"),
    ],
)
def test_pronouns_articles_and_endings_are_put_right(caption: str, neutral: str) -> None:
    assert neutralise(caption) == neutral


def test_her_becomes_his_or_him_and_his_becomes_her_or_hers() -> None:
    assert with_gender("Her cat sees her. The ball is hers.", "male") == "His cat sees him. The ball is his."
    assert with_gender("His cat sees him. The ball is his.", "female") == "Her cat sees her. The ball is hers."


def test_a_plural_owns_with_an_apostrophe_alone() -> None:
    assert with_gender("The gentlemen's club, THE MEN’S ROOM", "female") == "The ladies' club, THE WOMEN’S ROOM"
    assert neutralise("The policemen's car", WIDER_WORDS) == "The police officers' car"
    assert with_gender("The waiter's tray", "female", WIDER_WORDS) == "The waitress's tray"


@pytest.mark.parametrize(
    "caption", ["GİRL on a bike", "A dog with hıs toy", "ſhe smiles", "ñman", "Hıſ ball", "MeN\u017f"]
)
def test_letters_that_only_fold_into_ascii_name_nobody(caption: str) -> None:
    assert named_gender(caption, WIDER_WORDS) == "none"
    assert neutralise(caption) == with_gender(caption, "male") == with_gender(caption, "female") == caption


def test_the_published_rows_are_table_4() -> None:
    assert [row[:2] for row in TABLE_4] == [
        *(("man", "woman"), ("men", "women"), ("male", "female"), ("boy", "girl"), ("boys", "girls")),
        *(("gentleman", "lady"), ("father", "mother"), ("husband", "wife"), ("boyfriend", "girlfriend")),
        *(("brother", "sister"), ("son", "daughter"), ("he", "she"), ("his", "hers"), ("him", "her")),
    ]
    listed = {*GOLDEN["word_lists"]["male"], *GOLDEN["word_lists"]["female"]}
    assert listed <= {word for row in TABLE_4 + OF_THE_CODE for word in row[:2]}


def test_wider_words_are_asked_for() -> None:
    assert named_gender("a guy helps himself") == "none"
    assert named_gender("a guy helps himself", WIDER_WORDS) == "male"
    assert neutralise("A guy helps himself", WIDER_WORDS) == "A person helps themselves"


def test_grooming_a_horse_is_no_wedding() -> None:
    assert named_gender("A woman grooms her horse", WIDER_WORDS) == "female"


GENDERED = st.sampled_from(sorted(WORDS.gender))
PLAIN = st.sampled_from(["a", "an", "dog", "of", "person", "sees", "two", "manly", "shepherd", "it's", "\t", "é", "in"])
ENDS = st.sampled_from([" ", ". ", ", ", "  ", "'s ", " !", "-", "\n"])
CASES = st.sampled_from([str.lower, str.upper, str.capitalize])
texts = st.lists(st.builds(lambda word, case, end: case(word) + end, GENDERED | PLAIN, CASES, ENDS)).map("".join)


@given(texts)
def test_a_neutral_caption_names_no_gender_and_stays_as_it_is(text: str) -> None:
    neutral = neutralise(text)

    assert named_gender(neutral) == "none"
    assert neutralise(neutral) == neutral


@given(texts | st.text())
def test_a_caption_without_gendered_words_stays_as_it_is_to_the_byte(text: str) -> None:
    if named_gender(text) == "none":
        assert [neutralise(text), with_gender(text, "male"), with_gender(text, "female")] == [text] * 3


@given(texts)
def test_what_is_no_gendered_word_stays_in_its_place_and_words_keep_their_case(text: str) -> None:
    plain = text.replace("'", " ")  # endings belong to their words
    words, neutral = re.findall(r"\w+", plain), re.findall(r"\w+", neutralise(plain))

    assert re.split(r"\w+", neutralise(plain)) == re.split(r"\w+", plain)
    for old, new in zip(words, neutral, strict=True):
        if old.lower() in WORDS.gender:
            assert (new.isupper(), new[0].isupper()) == (old.isupper(), old[0].isupper())
        else:
            assert new == old or old.lower() == "an"


@given(texts, st.sampled_from(["male", "female"]))
def test_a_caption_put_into_a_gender_names_no_other(text: str, gender: str) -> None:
    swapped = with_gender(text, gender)  # type: ignore[arg-type]

    assert named_gender(swapped) in ("none", gender)
    assert with_gender(swapped, gender) == swapped  # type: ignore[arg-type]


@given(texts)
def test_case_does_not_change_what_is_named(text: str) -> None:
    assert named_gender(text.upper()) == named_gender(text.lower()) == named_gender(text)
