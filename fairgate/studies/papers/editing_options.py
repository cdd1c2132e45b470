"""Options of the study of edits, read from what is typed. Each raises SettingsError for what is none."""

from __future__ import annotations

from collections.abc import Sequence

from fairgate.ground.errors import SettingsError
from fairgate.probes import WatchedAttribute
from fairgate.studies.papers.contract import named_texts


def classes(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Words by class, from CLASS=WORD,WORD."""
    texts = named_texts(given, "--words", "high-paid=doctor,CEO")
    return {name: tuple(text.split(",")) for name, text in texts.items()}


def watched(given: Sequence[str]) -> dict[str, WatchedAttribute]:
    """Attributes by name, from NAME=PROMPT | PROMPT."""
    example = "glasses=a person with glasses | a person"
    attributes = {}
    for name, text in named_texts(given, "--watched", example).items():
        prompts = [part.strip() for part in text.split("|")]
        try:
            attributes[name] = WatchedAttribute(labels=dict(zip(("with", "without"), prompts, strict=True)))
        except ValueError as error:
            problem = f"'{text}' is not two different prompts."
            raise SettingsError(problem, where="--watched", remedy=f'--watched "{example}"') from error
    return attributes


def shares(text: str) -> tuple[float, ...]:
    """A part of a picture, from left,top,right,bottom. Raises SettingsError."""
    try:
        left, top, right, bottom = (float(side) for side in text.split(","))
        fits = 0 <= left < right <= 1 and 0 <= top < bottom <= 1
    except ValueError:
        fits = False
    if not fits:
        raise SettingsError(f"'{text}' is no part of a picture.", where="--crop", remedy="--crop 0.3,0.2,0.7,0.7")
    return left, top, right, bottom
