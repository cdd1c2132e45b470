"""Pairs of words: which of two is an image taken for that shows neither? (Saravanan et al. 2023, eq. 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import Field, field_validator, model_validator

from fairgate.formulas.metrics import pair_choices
from fairgate.models import Capability, Floats, LabelModel
from fairgate.probes.answers import ProbeScores, Rows
from fairgate.probes.contract import Choice, OpenInstrument, Probe, register
from fairgate.probes.settings import Text, checked_template, filled


@runtime_checkable
class PairModel(Protocol):
    """A model with a way of its own to compare prompts in pairs, such as a diffusion classifier that stops early."""

    def pair_choices(self, first: Sequence[str], second: Sequence[str]) -> Floats:
        """(images, first, second): 1 where an image is taken for the first prompt, 0 for the second, 0.5 for both."""
        ...


@register
class PairAssociationProbe(Probe):
    """Classify images that show neither into pairs of words, one of each list (Saravanan et al. 2023).

    An image's number is the share of its pairs in which it is taken for the first list's word: S(D, A, B) is its mean.
    Decisions can all be alike, and then hide that a model grew more biased; `soft` takes their probabilities. Every
    word of the first list has answers of its own, or, with `each: pair`, every pair.
    """

    needs: ClassVar[Capability] = "log_probabilities"
    answers_as: ClassVar[str] = "pair_association"
    value_names: ClassVar[Mapping[str, str]] = {"pair_association": "share of pairs"}

    kind: Literal["pair_association"]
    template: Text = Field(description="A prompt with `{word}` or `{a_word}` (with its article) in it.")
    first: list[Text] = Field(min_length=1, description="Words of set A: S is the share of pairs that they win.")
    second: list[Text] = Field(min_length=1, description="Words of set B, each compared with each of the first.")
    soft: bool = Field(
        default=False,
        description="Take P(first word | the pair) instead of the decision: it moves where decisions are all alike, "
        "and depends on the model's label temperature.",
    )
    each: Literal["first", "pair"] = Field(
        default="first",
        description="What a check `by: word` is about: a word of the first list, against all of the second, or a pair.",
    )

    @field_validator("template")
    @classmethod
    def _template(cls, value: str) -> str:
        return checked_template(value, "word")

    @model_validator(mode="after")
    def _words(self) -> PairAssociationProbe:
        words = [*self.first, *self.second]
        if len(set(words)) < len(words):
            raise ValueError(f"words are given twice: {sorted({x for x in words if words.count(x) > 1})}")
        return self

    @property
    def ranked_words(self) -> tuple[str, ...]:
        """`first`, or every pair as `mechanic / nurse`."""
        if self.each == "first":
            return tuple(self.first)
        return tuple(f"{name} / {other}" for name in self.first for other in self.second)

    def prompt(self, word: str) -> str:
        """The text that the model sees for a word."""
        return filled(self.template, "word", word)

    def choices(self, subjects: Sequence[str]) -> list[Choice]:
        """All words, whatever an image shows."""
        prompts = {word: self.prompt(word) for word in (*self.first, *self.second)}
        return [Choice(subject, prompts) for subject in subjects]

    def run(self, name: str, model: LabelModel, rows: Rows, open_instrument: OpenInstrument) -> dict[str, ProbeScores]:
        """The share of pairs that each word, or each pair's first one, wins on every image."""
        first, second = ([self.prompt(word) for word in words] for words in (self.first, self.second))
        if isinstance(model, PairModel) and not self.soft:
            choices = model.pair_choices(first, second)
        else:
            log_p = model.log_probabilities([*first, *second])
            choices = pair_choices(-log_p[:, : len(first)], -log_p[:, len(first) :], soft=self.soft)
        columns = choices.mean(axis=2) if self.each == "first" else choices.reshape(len(choices), -1)
        return {
            f"{name}[{word}]": ProbeScores(np.ascontiguousarray(column))
            for word, column in zip(self.ranked_words, columns.T, strict=True)
        }
