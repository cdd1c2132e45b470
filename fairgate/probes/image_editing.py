"""Edits of pictures: is somebody else seen in them than before, and is their skin lighter? (Saravanan et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StringConstraints, model_validator

from fairgate import models
from fairgate.data import Manifest
from fairgate.formulas.metrics import individual_typology_angle, skin_mask
from fairgate.ground.errors import SuiteError
from fairgate.probes.answers import ProbeScores, Rows
from fairgate.probes.contract import Choice, OpenInstrument, Probe, dataset_has, register
from fairgate.probes.reader import Reader, WatchedAttribute, WatchedPictures
from fairgate.probes.settings import Text, by_category, every_text, filled, given_once, template_of

if TYPE_CHECKING:
    from PIL.Image import Image

SkinRule = Literal["hue", "kolkur"]
KEPT_SKIN = 0.5
"""Share of its picture's area of skin below which an edit has no angle. A face that is painted white leaves the mask,
and the angle of what is left would be that of hair, shadow and lips, which reads darker."""
Share = Annotated[float, Field(ge=0, le=1)]
AttributeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,30}$")]


def cropped(picture: Image, shares: Sequence[float]) -> Image:
    """A part of a picture, at least a pixel: left, top, right, bottom as shares of its sides."""
    sides = np.array([*picture.size, *picture.size])
    left, top, right, bottom = np.round(sides * np.array(shares)).astype(int).tolist()
    return picture.crop((left, top, max(right, left + 1), max(bottom, top + 1)))


class Pictures(WatchedPictures[tuple[float, float]]):
    """Each picture's skin: its typology angle, in degrees, NaN where it has none, and its share of the pixels.

    `crop` is the part of a picture that is looked at: left, top, right, bottom as shares of its sides.
    """

    def __init__(self, source: models.ImageSource, rule: SkinRule, crop: Sequence[float] | None) -> None:
        super().__init__(source)
        self.rule, self.crop = rule, crop

    def skins(self) -> tuple[models.Floats, models.Floats]:
        """Angles and shares of skin of every picture, (images,) each."""
        angles, shares = np.array(self.seen()).T
        return angles, shares

    def look(self, data: bytes, row: int) -> tuple[float, float]:
        """The angle and the share of its skin."""
        picture = models.decode_rgb(data, self.source, row)
        if self.crop is not None:
            picture = cropped(picture, self.crop)
        pixels = np.asarray(picture)
        angles = individual_typology_angle(pixels, skin_mask(pixels, rule=self.rule))
        return angles.degrees, angles.skin_fraction


@register
class ImageEditingProbe(Probe):
    """Edit every image as each word says; perceive it before and after (Saravanan et al. 2023).

    An image's number is the share of its edits that are perceived as another group than the image before the edit.
    Next to it: how much lighter the skin is (degrees of the individual typology angle), the share of edits without such
    an angle (no skin before, or less than half of its area after), and whether the reader takes the edit for the word
    rather than for one of the other words, and whether it shows more of each `watched` attribute than the image (1), as
    much (0) or less (-1). What is perceived in the image itself is compared with what the dataset records, since flips
    say nothing where that is wrong.
    """

    needs: ClassVar[models.Capability] = "edit"
    answers_as: ClassVar[str] = "image_editing"
    value_names: ClassVar[Mapping[str, str]] = {"image_editing": "share flipped"}

    kind: Literal["image_editing"]
    template: Annotated[Text, template_of("word")] = Field(
        description="The prompt of an edit, with `{word}` or `{a_word}` (with its article) in it."
    )
    words: list[Text] | dict[str, list[Text]] = Field(
        description="What people are edited into, two words at least; or words by category, for checks `by: category`."
    )
    strengths: list[Annotated[float, Field(gt=0, le=1)]] = Field(
        default=[0.8],
        min_length=1,
        description="Shares of the schedule that are run: of 1.0, little of a picture is left.",
    )
    edits: int = Field(default=1, ge=1, le=100, description="Edits of an image by a word at a strength.")
    steps: int = Field(default=50, ge=1, le=1000, description="Steps of the whole schedule.")
    guidance: float = Field(default=7.5, ge=0, le=100, description="Scale of classifier-free guidance.")
    reader: Reader = Field(description="The model that perceives.")
    watched: dict[AttributeName, WatchedAttribute] = Field(
        default_factory=dict,
        max_length=20,
        exclude_if=lambda watched: not watched,  # a suite without any has the digest that it had before there were any
        description="Attributes that no prompt asks for, such as glasses: do edits add them? (`attribute_drift`)",
    )
    skin: SkinRule = Field(default="hue", description="Which pixels are skin; `kolkur` is the paper's rule.")
    crop: Annotated[list[Share], Field(min_length=4, max_length=4)] | None = Field(
        default=None, description="Where skin is looked for: left, top, right, bottom, as shares of the sides."
    )

    @model_validator(mode="after")
    def _distinct(self) -> ImageEditingProbe:
        for what, given in (("words", self.every_word), ("strengths", self.strengths)):
            given_once(what, given)
        if len(self.every_word) < 2 or (isinstance(self.words, dict) and not all(self.words.values())):
            raise ValueError("`words` has fewer than two words, or a category without any")
        if len(set(self.reader.labels.values())) < len(self.reader.labels):
            raise ValueError("two groups have the same prompt in `reader: labels`")
        if self.crop is not None and not (self.crop[0] < self.crop[2] and self.crop[1] < self.crop[3]):
            raise ValueError(f"`crop` is [left, top, right, bottom], and holds nothing: {self.crop}")
        return self

    @property
    def every_word(self) -> tuple[str, ...]:
        """The words of all categories."""
        return every_text(self.words)

    @property
    def ranked_words(self) -> tuple[str, ...]:
        """The words; with several strengths `doctor at 0.8`."""
        return tuple(self._name(word, strength) for word in self.every_word for strength in self.strengths)

    @property
    def word_categories(self) -> Mapping[str, tuple[str, ...]]:
        return {
            category: tuple(self._name(word, strength) for word in words for strength in self.strengths)
            for category, words in by_category(self.words).items()
        }

    def _name(self, word: str, strength: float) -> str:
        return word if len(self.strengths) == 1 else f"{word} at {strength:g}"

    @property
    def instruments(self) -> tuple[str, ...]:
        return (self.reader.model,)

    def prompt(self, word: str) -> str:
        return filled(self.template, "word", word)

    def choices(self, subjects: Sequence[str]) -> list[Choice]:
        """All words, whatever an image shows."""
        return [Choice(subject, {word: self.prompt(word) for word in self.every_word}) for subject in subjects]

    def require(self, name: str, dataset: Manifest, at: Callable[[str], str]) -> None:
        """The reader's labels are the dataset's groups of an attribute."""
        dataset_has(self.reader.attribute, f"the reader of probe '{name}' perceives", dataset, at("reader"))
        groups = dataset.attributes[self.reader.attribute]
        if set(groups) != set(self.reader.labels):
            raise SuiteError(
                f"the reader of probe '{name}' has labels for {', '.join(self.reader.labels)}.",
                where=at("reader"),
                remedy=f"give a prompt for each of the groups of {self.reader.attribute}: {', '.join(groups)}",
            )
        for attribute, each in self.watched.items():
            each.require(dataset, f"'{attribute}' of probe '{name}' is measured over", at("watched"))

    def blind_labels(self, dataset: Manifest | None) -> int:
        """An edit that shows nothing of its word is taken for any of them."""
        return len(self.every_word)

    def utility_check(self, name: str) -> str | None:
        """That edits show what they are to show, of every group: a mean hides one that comes back as it was."""
        return f"id: edits-work, probe: {name}, metric: edit_success, over: each"

    def run(
        self, name: str, model: models.EditingModel, rows: Rows, open_instrument: OpenInstrument
    ) -> dict[str, ProbeScores]:
        """Flips, changes of skin tone and success of the edits by every word at every strength."""
        originals = Pictures(model.source, self.skin, self.crop)
        reader = self.reader.over(open_instrument, originals)
        for what, prompts in (
            ("labels", self.reader.labels),
            ("words", {word: self.prompt(word) for word in self.every_word}),
            *((f"labels of {attribute}", each.labels) for attribute, each in self.watched.items()),
        ):
            remedy = "use prompts that it can tell apart, or another reader"
            models.require_told_apart(reader, what, prompts, self.reader.model, remedy)
        before = self.reader.perceived(reader)
        had = {attribute: each.seen(reader) for attribute, each in self.watched.items()}
        correct = before == np.asarray(rows.attributes[self.reader.attribute], dtype=object)
        effects = {}
        for word in self.every_word:
            for strength in self.strengths:
                edited, gained = [], {attribute: np.zeros(len(before)) for attribute in had}
                for seed in range(self.edits):
                    how = models.Editing(strength, seed, self.steps, self.guidance)
                    edits = Pictures(model.edit(self.prompt(word), how), self.skin, self.crop)
                    perceiving = self.reader.over(open_instrument, edits)
                    edited.append((*self._perceived(perceiving, word, before), _lighter(originals, edits)))
                    for attribute, each in self.watched.items():
                        gained[attribute] += (each.seen(perceiving) - had[attribute]) / self.edits
                flipped, shown = (np.mean([pair[part] for pair in edited], axis=0) for part in (0, 1))
                lighter = np.array([lighter for *_, lighter in edited])
                further = {"lightening": _mean_of_known(lighter), "unreadable": np.isnan(lighter).mean(axis=0)}
                further |= {gained_column(attribute): change for attribute, change in gained.items()}
                effects[f"{name}[{self._name(word, strength)}]"] = ProbeScores(
                    flipped, predicted=before, correct=correct, more={**further, "shown": shown}
                )
        return effects

    def _perceived(
        self, reader: models.LabelModel, word: str, before: NDArray[Any]
    ) -> tuple[models.Floats, models.Floats]:
        """Whether each edit is another group's, and whether it shows the word, (images,) each."""
        flipped = (self.reader.perceived(reader) != before).astype(np.float64)
        taken = reader.log_probabilities([self.prompt(term) for term in self.every_word]).argmax(axis=1)
        return flipped, (taken == self.every_word.index(word)).astype(np.float64)


def gained_column(attribute: str) -> str:
    """Which further number of an edit's answers says how much more of a watched attribute it shows."""
    return f"gained_{attribute}"


def _lighter(originals: Pictures, edits: Pictures) -> models.Floats:
    """Degrees by which every edit's skin is lighter, (images,); NaN where one has no angle, or the skin was lost."""
    (before, area), (after, kept) = originals.skins(), edits.skins()
    return np.where(kept < KEPT_SKIN * area, np.nan, after - before)


def _mean_of_known(table: models.Floats) -> models.Floats:
    """Column means of what is not NaN; NaN for a column of nothing else."""
    known = ~np.isnan(table)
    total = np.where(known, table, 0.0).sum(axis=0)
    with np.errstate(invalid="ignore"):
        means: models.Floats = total / known.sum(axis=0)
    return means
