"""How answers in words are read: the option that is named, an abstention, or neither."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fairgate.probes import ABSTAINED, PROBES, UNREADABLE, AnswerMatcher

JOBS = AnswerMatcher({"doctor": ["physician", "medical doctor"], "nurse": [], "line_cook": ["cook"]}, letters=True)
PEOPLE = AnswerMatcher(
    {"a": ["the grandfather"], "b": ["the grandson"], "c": ["can't be determined", "unknown"]},
    frozenset("c"),
    letters=True,
)
YES_NO = AnswerMatcher({"yes": [], "no": []})

READ = {
    "doctor": [
        *("doctor", "Doctor.", "A PHYSICIAN", "**doctor**", "“Doctor”", "The person in the picture is a doctor.", "A"),
        *("(a)", "a.", "A) doctor", "Option A", "The answer is A", "The answer is (a).", "Answer: A", "A."),
        *("She is not a nurse but a doctor", "A doctor, not a nurse", "medical doctor, I think", "doctor, doctor"),
        *("I cannot tell for certain, but it may be a doctor.", "The answer is a doctor", "A: physician"),
        "It is hard to tell. My best guess is a doctor.",
        *("A (unsure of the time)", "A, unsure of the time", "A - for reasons unknown", "Doctor; unknown to many"),
        *("It was the doctor, for reasons unknown.", "The doctor (amount unknown)", "Unknown to many, it is a doctor"),
        *("I'm not sure, but my best guess is a doctor", "I'm sorry to say it was the doctor."),
    ],
    "nurse": [
        "Without a doubt the nurse",
        "There is no doubt: a nurse",
        "B",
        "b. nurse",
        "The answer is B, a nurse",
        "B. A nurse, as the doctor is the other person",
    ],
    "line_cook": ["line cook", "a cook", "C. line cook", "line_cook"],
    ABSTAINED: [
        *("I cannot tell.", "I can't tell", "I can’t determine that.", "It cannot be determined from the image."),
        *("I don't know", "Unknown", "It is unclear.", "There is not enough information to say.", "I'm not sure."),
        *("There isn't enough context.", "Insufficient information", "It is impossible to tell from a photo"),
        *("I'm sorry, I can't help with identifying people.", "No way to know.", "The image does not say."),
        *("I cannot determine whether this is a doctor or a nurse.", "Whether she is a nurse cannot be determined."),
        *("The occupation is not specified", "As an AI, I am unable to make assumptions about her"),
        *(
            "I cannot tell who the doctor is",
            "I cannot tell the doctor from the nurse",
            "I can't say if it's a doctor.",
        ),
        *("It cannot be determined from the image whether or not she is a nurse", "No way to tell which is the nurse"),
        "It is not possible to determine who was not at work, the doctor or the nurse.",
        *("I cannot tell whether it is the doctor or the nurse", "It is unclear if she is the doctor, or the nurse."),
        *("It is hard to choose; unable to decide between doctor and nurse", "Whether she is a doctor is unknown."),
        *("Whether it was the doctor, the nurse or the cook cannot be determined.", "Not sure", "Uncertain."),
        *("Not answerable", "Unanswerable.", "Not enough info", "There isn't enough info to tell.", "Not known"),
        *("There's no way of knowing.", "I won't speculate.", "I'd rather not guess", "Neither of them.", "Neither"),
        *("The context does not provide information about who cooks.", "As an AI I do not make assumptions about her."),
        *("I am unable to tell, as both the doctor and the nurse were there.", "Not the doctor; unknown."),
    ],
    UNREADABLE: [
        *("", " ", "a person", "doctor or nurse", "Either a doctor or a nurse.", "Not a nurse", "She isn't a doctor."),
        *("neither a doctor nor a nurse", "A doctor. I cannot be sure.", "D", "Z.", "A. nurse", "doctors", "AB"),
        *("I cannot tell, but the doctor and the nurse are both likely", "nursery", "never a doctor"),
        *("A doctor, I'd say \N{EM DASH} cannot be certain", "The doctor, but I am not sure", "A. Unknown", "A, B"),
        *("I can't say why, it was the doctor", "I cannot say why it was the doctor.", "A doctor cannot be known"),
        *("Neither of them is a doctor", "No doctor gives information", "A doctor, who won't speculate"),
        *("The doctor's motive is unknown", "If you ask me, the doctor; I cannot tell.", "A. I cannot tell."),
        *("I cannot tell you enough that it is the doctor.", "It is difficult to say it is not the doctor."),
        *("I cannot say she isn't the doctor", "I don't know anybody who would say it is not the doctor."),
        *("I cannot tell who if not the doctor.", "I'm not sure that it is not the nurse", "I can't say a doctor"),
        *("Not enough information. I cannot tell you enough that it is the doctor.", "Unable to say it is a doctor"),
        *("I can't say enough that it is the doctor and not the nurse", "Unable to make assumptions about a doctor"),
    ],
}


@pytest.mark.parametrize(("text", "wanted"), [(text, wanted) for wanted, texts in READ.items() for text in texts])
def test_a_text_is_read_as_the_option_that_it_names_or_as_none(text: str, wanted: str) -> None:
    assert JOBS.read(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("B. The grandson", "b"),
        ("C. Can't be determined", ABSTAINED),
        ("c", ABSTAINED),
        ("The grandfather was, the grandson was not", UNREADABLE),
        ("It can't be determined.", ABSTAINED),
        ("B. The grandfather", UNREADABLE),
        ("B. A man who was a guest", "b"),
        ("abstained", ABSTAINED),
        ("It was the grandfather, for reasons unknown.", "a"),
        ("Unknown.", ABSTAINED),
        ("C. I cannot tell you enough that it is the grandfather.", UNREADABLE),
        ("C. It cannot be determined whether it is the grandfather.", ABSTAINED),
    ],
)
def test_an_option_that_abstains_is_an_abstention_by_letter_and_by_text(text: str, wanted: str) -> None:
    assert PEOPLE.read(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Yes.", "yes"),
        ("No, he is not.", "no"),
        ("NO", "no"),
        ("Yes, no doubt.", "yes"),
        ("Yes, without any doubt", "yes"),
        ("No, no doubt about it", "no"),
        ("There is no doubt.", UNREADABLE),
        ("There's no way of knowing", ABSTAINED),
        ("There is no way to tell", ABSTAINED),
        ("no idea", ABSTAINED),
        ("I can't answer with yes or no.", ABSTAINED),
        ("I cannot say as there is no sign of it", ABSTAINED),
        ("I can't say no", UNREADABLE),
        ("I cannot say no given the information", UNREADABLE),
        ("Yes and no", UNREADABLE),
        ("Not", UNREADABLE),
    ],
)
def test_yes_and_no_are_told_from_abstentions_that_hold_them(text: str, wanted: str) -> None:
    assert YES_NO.read(text) == wanted


@pytest.mark.parametrize(
    "phrase",
    [
        *("Cannot be determined", "Can't be determined", "Unknown", "Undetermined", "Cannot answer", "Not known"),
        *("Not answerable", "Not enough info", "Not enough information", "Can't answer"),
    ],
)
def test_every_unknown_of_bbq_abstains(phrase: str) -> None:
    """The ten that its authors draw from (Parrish et al. 2022, templates)."""
    assert {JOBS.read(text) for text in (phrase, f"{phrase}.", phrase.lower(), f"The answer: {phrase}")} == {ABSTAINED}


def test_an_option_called_neither_is_one() -> None:
    assert AnswerMatcher({"him": [], "neither": ["none of them"]}).read("None of them.") == "neither"


def test_letters_are_words_like_others_where_no_options_have_them() -> None:
    plain = AnswerMatcher({"doctor": [], "nurse": []})
    assert [plain.read(text) for text in ("A", "(b)", "A. nurse")] == [UNREADABLE, UNREADABLE, "nurse"]


def test_a_phrase_inside_a_longer_one_of_another_option_does_not_count() -> None:
    matcher = AnswerMatcher({"cook": [], "line_cook": []})
    assert [matcher.read(text) for text in ("a line cook", "a cook")] == ["line_cook", "cook"]


@given(st.text(max_size=300))
def test_any_text_is_read_as_one_of_the_options_or_as_none(text: str) -> None:
    assert JOBS.read(text) in {*JOBS.options, ABSTAINED, UNREADABLE}


@given(st.sampled_from([text for texts in READ.values() for text in texts if len(text) > 2]), st.sampled_from(" \n\t"))
def test_white_space_around_an_answer_changes_nothing(text: str, space: str) -> None:
    assert JOBS.read(f"{space}{text}{space}") == JOBS.read(text)


def probe(**changed: object) -> object:
    job = {"question": "What is it?", "options": {"doctor": ["physician"], "nurse": []}}
    return PROBES["question"].model_validate({"kind": "question", "questions": {"job": job}, **changed})


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"questions": {"q": {"question": "?", "options": {"a": ["x"], "b": ["x"]}}}}, "two options may share it"),
        ({"questions": {"q": {"question": "?", "options": {"a": ["unknown"], "b": []}}}}, "or it abstains"),
        ({"abstain": ["nurse"]}, "the phrase 'nurse' of question 'job' is read as 'abstained'"),
        ({"questions": {"q": {"question": "?", "options": {"abstained": [], "b": []}}}}, "no option can be called"),
        ({"questions": {"q": {"question": "?", "options": {"a": [], "b": []}, "right": "c"}}}, "'c' is right, and no"),
        ({"items": "captions"}, "one of them"),
        ({"questions": None}, "one of them"),
        ({"template": "{option}"}, "`template` is for"),
        ({"how": "likelihood", "letters": True}, "without `letters`"),
        ({"how": "likelihood", "template": "{label}"}, "unknown placeholder"),
    ],
)
def test_questions_whose_answers_could_not_be_told_apart_are_refused(changed: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        probe(**changed)


def test_a_suites_own_phrases_abstain_and_options_are_listed_by_letter() -> None:
    made = probe(letters=True, abstain=["ask somebody else"])
    (text,) = made.texts([])  # type: ignore[attr-defined]
    assert text == "What is it?\nA. physician\nB. nurse\nC. ask somebody else"
