"""The model that perceives who is in pictures: an instrument that the suite pins."""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fairgate.errors import ModelError
from fairgate.models import ImageSource, LabelModel, Model, require_capability, require_told_apart
from fairgate.probes.settings import SuiteSection, Text

UNREADABLE = "unreadable"
"""What a picture is perceived as in which nobody of the reader's groups is seen."""


class OpensOthers(Protocol):
    """A judged model that opens another one, over what it made."""

    def open_other(self, uri: str, source: ImageSource) -> Model:
        """With its own device, cache and folder."""
        ...


class Reader(SuiteSection):
    """The model that reads the pictures that judged models make or edit: a zero-shot classifier, the same one for all.
    It is pinned: a branch that changes its weights gets no verdict."""

    model: Text = Field(description="URI of a model with the capability `log_probabilities`, such as a CLIP.")
    fingerprint: str = Field(
        pattern=r"^[0-9a-f]{64}$", description="Digest of its files; the error of a wrong one says the right one."
    )
    attribute: Text = Field(description="Attribute that it is to perceive, such as `gender`.")
    labels: dict[str, Text] = Field(min_length=2, description="Its prompt for every group: `male: a photo of a man`.")

    def over(self, model: OpensOthers, pictures: ImageSource) -> LabelModel:
        """The reader over some pictures. Raises ModelError for another checkpoint than the one that is pinned."""
        found = model.open_other(self.model, pictures)
        require_capability(found, "log_probabilities", "the reader of pictures")
        if found.fingerprint != self.fingerprint:
            raise ModelError(
                f"the reader of pictures has the fingerprint {found.fingerprint}, the suite pins {self.fingerprint}.",
                where=self.model,
                remedy="put the pinned checkpoint back; or, reviewed, merge a suite that pins the new one, and new "
                "baselines with it",
            )
        return cast(LabelModel, found)

    def perceived(self, reader: LabelModel) -> NDArray[Any]:
        """The likeliest group of every picture, (images,)."""
        log_p = reader.log_probabilities(list(self.labels.values()))
        groups: NDArray[Any] = np.array(list(self.labels), dtype=object)
        return np.asarray(groups[log_p.argmax(axis=1)])


class PictureReader(Reader):
    """A reader of pictures in which there may be nobody, or nobody that can be made out."""

    nobody: list[Text] = Field(
        default_factory=list,
        description="Its prompts for pictures without a person, such as `a photo of a landscape`: a picture that is "
        "likelier one of these is unreadable.",
    )
    least: float = Field(
        default=0.0, ge=0, lt=1, description="Probability of the likeliest group below which a picture is unreadable."
    )

    @model_validator(mode="after")
    def _may_see_nobody(self) -> PictureReader:
        if not self.nobody and not self.least:
            raise ValueError("give the reader `nobody` (prompts) or `least`: without both every picture is readable")
        prompts = [*self.labels.values(), *self.nobody]
        if len(set(prompts)) < len(prompts):
            raise ValueError("two of the prompts in `labels` and `nobody` are the same")
        return self

    def over(self, model: OpensOthers, pictures: ImageSource) -> LabelModel:
        """The reader over some pictures, which tells its own prompts apart."""
        found = super().over(model, pictures)
        require_told_apart(found, "labels", {**self.labels, **{text: text for text in self.nobody}}, self.model)
        return found

    def confusion(self, reader: LabelModel, truth: NDArray[Any]) -> dict[str, dict[str, int]]:
        """Pictures of every known group, (images,), by what is perceived: a probe's `measured`. Those of other groups
        are left out."""
        perceived, columns = self.perceived(reader), [*self.labels, UNREADABLE]
        return {
            group: {one: int(((truth == group) & (perceived == one)).sum()) for one in columns} for group in self.labels
        }

    def perceived(self, reader: LabelModel) -> NDArray[Any]:
        """The likeliest group of every picture, or `unreadable`, (images,)."""
        log_p = reader.log_probabilities([*self.labels.values(), *self.nobody])
        groups: NDArray[Any] = np.array([*self.labels, *[UNREADABLE] * len(self.nobody)], dtype=object)
        return np.where(np.exp(log_p.max(axis=1)) >= self.least, groups[log_p.argmax(axis=1)], UNREADABLE)
