"""What a reader looks for in edits that no prompt named, such as glasses or the colour of clothes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fairgate import models
from fairgate.ground.errors import SuiteError, listed
from fairgate.probes.contract import DatasetFacts, dataset_has
from fairgate.probes.reader import KnownCounts, PictureReader, Reader, require_confusion
from fairgate.probes.settings import SuiteSection, Text


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

    def require(self, dataset: DatasetFacts, asker: str, where: str) -> None:
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
