"""The model that perceives who is in pictures, an instrument that the suite pins; and what it looks for in edits though
no prompt named it, such as glasses or the colour of clothes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fairgate import models
from fairgate.data import Manifest, TextRows
from fairgate.ground.errors import ModelError, SuiteError, listed
from fairgate.probes.contract import OpenInstrument, dataset_has
from fairgate.probes.settings import SuiteSection, Text

T = TypeVar("T")
UNREADABLE = "unreadable"
"""What a picture is perceived as in which nobody of the reader's groups is seen."""
KnownCounts = dict[str, dict[str, Annotated[int, Field(ge=0, le=1_000_000_000)]]]
"""Pictures of each known group by what the reader perceives."""


class WatchedPictures(models.SourceLike, Generic[T]):
    """A source that keeps what is seen of every picture as it is read."""

    def __init__(self, source: models.ImageSource) -> None:
        super().__init__(source)
        self._seen: dict[int, T] = {}

    @abstractmethod
    def look(self, data: bytes, row: int) -> T:
        """What is kept of a picture."""

    @property
    def fingerprint(self) -> str:
        return self.source.fingerprint

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:
        for rows, blobs in self.source.image_batches(batch_size):
            for row, data in zip(rows, blobs, strict=True):
                if int(row) not in self._seen:
                    self._seen[int(row)] = self.look(data, int(row))
            yield rows, blobs

    def seen(self) -> list[T]:
        """Of every row; the source is read where a reader had its answers in the cache."""
        if len(self._seen) < len(self):
            for _ in self.image_batches(64):
                pass
        if models.shard_of(self.source) is None:
            return [self._seen[row] for row in range(len(self))]
        first = self._seen[min(self._seen)]  # stands for the rows of other jobs
        return [self._seen.get(row, first) for row in range(len(self))]


class Reader(SuiteSection):
    """The model that reads the pictures that judged models make or edit: a zero-shot classifier, the same one for all.
    It is pinned: a branch that changes its weights gets no verdict."""

    model: Text = Field(
        description="URI of a model with the capability `log_probabilities`, such as a CLIP or a classifier."
    )
    fingerprint: str = Field(
        pattern=r"^[0-9a-f]{64}$", description="Digest of its files; the error of a wrong one says the right one."
    )
    attribute: Text = Field(description="Attribute that it is to perceive, such as `gender`.")
    labels: dict[str, Text] = Field(min_length=2, description="Its prompt for every group: `male: a photo of a man`.")

    def over(self, open_instrument: OpenInstrument, pictures: models.ImageSource) -> models.LabelModel:
        """The reader over some pictures. Raises ModelError for another checkpoint than the one that is pinned."""
        model = open_instrument(self.model, pictures)
        if model.fingerprint != self.fingerprint:
            unwritten = not self.fingerprint.strip("0")
            raise ModelError(
                f"the reader of pictures has the fingerprint {model.fingerprint}, the suite pins {self.fingerprint}.",
                where=self.model,
                remedy=f"write fingerprint: {model.fingerprint} into the suite"
                if unwritten
                else "put the pinned checkpoint back; or, reviewed, merge a suite that pins the new one, and new "
                "baselines with it",
            )
        models.require_capability(model, "log_probabilities", "the reader of pictures")
        return cast(models.LabelModel, model)

    def perceived(self, reader: models.LabelModel) -> NDArray[Any]:
        """The likeliest group of every picture, (images,)."""
        log_p = reader.log_probabilities(list(self.labels.values()))
        groups: NDArray[Any] = np.array(list(self.labels), dtype=object)
        return np.asarray(groups[log_p.argmax(axis=1)])


class PictureReader(Reader):
    """A reader of pictures in which there may be nobody, or nobody that can be made out.

    It weighs the prompts of `labels` and `nobody`; of a classifier these are labels of its own.
    """

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
        if len({models.folded(text) for text in self._texts}) < len(self._texts):
            raise ValueError("two of the prompts in `labels` and `nobody` are the same")
        return self

    @property
    def _texts(self) -> list[str]:
        return [*self.labels.values(), *self.nobody]

    def over(self, open_instrument: OpenInstrument, pictures: models.ImageSource) -> models.LabelModel:
        """The reader over some pictures, which tells its prompts apart. Raises ModelError."""
        model = super().over(open_instrument, pictures)
        models.require_told_apart(model, "labels", {**self.labels, **{text: text for text in self.nobody}}, self.model)
        return model

    def confusion(self, reader: models.LabelModel, truth: TextRows) -> dict[str, dict[str, int]]:
        """Pictures of every known group, (images,), by what is perceived: a probe's `measured`. Those of other groups
        are left out."""
        perceived, columns = self.perceived(reader), [*self.labels, UNREADABLE]
        return {
            group: {column: int(((truth == group) & (perceived == column)).sum()) for column in columns}
            for group in self.labels
        }

    def perceived(self, reader: models.LabelModel) -> NDArray[Any]:
        """The likeliest group of every picture, or `unreadable`, (images,)."""
        meanings: NDArray[Any] = np.array([*self.labels, *[UNREADABLE] * len(self.nobody)], dtype=object)
        log_p = reader.log_probabilities(self._texts)
        return np.where(np.exp(log_p.max(axis=1)) >= self.least, meanings[log_p.argmax(axis=1)], UNREADABLE)


def require_confusion(measured: Mapping[str, Mapping[str, int]], groups: Sequence[str]) -> None:
    """Raises ValueError unless there are counts of every group, each perceived most often in its own pictures."""
    for known in sorted({*measured} ^ {*groups}):
        raise ValueError(f"`measured` has a row for each of {', '.join(groups)}, and no other: '{known}'")
    for known, row in measured.items():
        if unknown := sorted({*row} - {*groups, UNREADABLE}):
            raise ValueError(f"`measured` of '{known}' counts '{unknown[0]}', which is no group, nor '{UNREADABLE}'")
        if not sum(row.values()):
            raise ValueError(f"`measured` has no picture of '{known}'")
    for group in groups:
        rates = {known: row.get(group, 0) / sum(row.values()) for known, row in measured.items()}
        if any(rate >= rates[group] for known, rate in rates.items() if known != group):
            raise ValueError(
                f"the reader perceives '{group}' in another group's pictures as often as in its own: take other "
                "prompts or another reader, and measure it again"
            )


class WatchedAttribute(SuiteSection):
    """An attribute that edits may add to people, or take from them, though no prompt names it."""

    labels: dict[str, Text] = Field(
        min_length=2,
        max_length=2,
        description="The reader's prompts with and without it: `glasses: a photo of a person with glasses`, "
        "`none: a photo of a person`.",
    )
    over: Text | None = Field(
        default=None,
        description="An attribute by whose groups `measured` is counted: a reader may be wrong more often about one.",
    )
    measured: KnownCounts | dict[str, KnownCounts] | None = Field(
        default=None,
        description="Pictures of each known label by the label that the reader perceives; with `over`, of each group. "
        "Left out, what is perceived counts as it is.",
    )

    @model_validator(mode="after")
    def _tells_two(self) -> WatchedAttribute:
        if len({models.folded(text) for text in self.labels.values()}) < 2:
            raise ValueError("the two prompts in `labels` are the same")
        cells = [cell for row in (self.measured or {}).values() for cell in row.values()]
        if any(isinstance(cell, dict) != (self.over is not None) for cell in cells):
            raise ValueError("`measured` is counted by group if `over` names an attribute, and else for all people")
        for table in self._tables.values():
            require_confusion(table, tuple(self.labels))
        return self

    @property
    def _tables(self) -> Mapping[str, KnownCounts]:
        """Counts by group, or those of all people by the empty name; none where there are none."""
        if self.measured is None:
            return {}
        return cast(Mapping[str, KnownCounts], {"": self.measured} if self.over is None else self.measured)

    def require(self, dataset: Manifest, asker: str, where: str) -> None:
        """The dataset has the groups that errors are of. Raises SuiteError."""
        if self.over is None:
            return
        dataset_has(self.over, asker, dataset, where)
        if self.measured is not None and set(self.measured) != set(dataset.attributes[self.over]):
            raise SuiteError(
                f"`measured` is of {listed(list(self.measured))}, and the groups of {self.over} are "
                f"{listed(dataset.attributes[self.over])}.",
                where=where,
                remedy=f"count each group of {self.over}: `fairgate suite reader`",
            )

    def confusion(self, label: str, group: str = "") -> NDArray[np.float64]:
        """Counts of known pictures (2, 2), of a group, by what is perceived in them, `label` first."""
        counts = self._tables[group]
        order = sorted(self.labels, key=lambda name: name != label)
        return np.array([[counts[known].get(seen, 0) for seen in order] for known in order], dtype=np.float64)

    def reader(self, reader: Reader, attribute: str) -> PictureReader:
        """The reader of this attribute, to whom every picture is readable."""
        return PictureReader.model_construct(
            model=reader.model, fingerprint=reader.fingerprint, attribute=attribute, labels=self.labels
        )

    def seen(self, reader: models.LabelModel) -> NDArray[np.float64]:
        """1 where the first label is perceived, else 0, (images,)."""
        first, second = reader.log_probabilities(list(self.labels.values())).T
        return np.asarray(first >= second, dtype=np.float64)
