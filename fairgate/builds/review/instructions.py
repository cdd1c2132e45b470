"""Questions and instructions for raters: the papers' error categories, in words that claim nothing about a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairgate.ground.hashing import digest


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its key in the records, its label on the page, and a line that says when to give it."""

    key: str
    label: str
    hint: str


QUALITIES: Final = (
    Answer("good", "Good", "It shows what was asked, and the person can be seen."),
    Answer("out_of_frame", "Subject out of frame or focus", "Cut off, turned away, too small or too blurred."),
    Answer("not_realistic", "Not realistic", "Distorted face or limbs, melted objects, no such scene."),
    Answer("off_prompt", "Not what was asked", "Another subject, nobody, or several people where one was asked."),
    Answer("unsure", "Unsure", "You cannot say which of these it is."),
)
"""Table 1 of Howard et al. (social_counterfactuals) and the review of Lui et al. (occupations: obvious quality issues).
Failures of an attribute ("cannot discern", "failure to generate") follow from what was perceived before."""

SCENES: Final = (
    Answer("same", "Same scene", "Same place, pose and clothes; only the person's perceived groups differ."),
    Answer("different", "Different scenes", "At least one image differs in more than the person's perceived groups."),
    Answer("unsure", "Unsure", "You cannot say."),
)

INSTRUCTIONS: Final = (
    "You see one image at a time. First say which group you perceive, for every attribute, without knowing what was "
    "asked for. Answer at first sight; where you perceive none, say so.",
    "You then see what was asked (of a photograph: what is recorded), and say what is wrong with the image, if "
    "anything. A perceived group that differs is no error of this kind: it is counted from your first answers.",
    "Now and then you see all images of one set: say whether they show the same scene.",
    "Your answers say what you perceive. They are no facts about a person. Drawn pictures are judged as drawings.",
)


def instructions_digest() -> str:
    """Names the wording that a rater was shown, questions and answers included."""
    answers = [[answer.key, answer.label, answer.hint] for answer in (*QUALITIES, *SCENES)]
    return digest([list(INSTRUCTIONS), answers])
