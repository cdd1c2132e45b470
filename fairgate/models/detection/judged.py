"""What judged detectors share: boxes by label, computed once and cached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import naming
from fairgate.models.contract import MOST_BOXES, Capability, Detections
from fairgate.models.decoding import decode_rgb
from fairgate.models.family import JudgedModel, Numbers, RowParts

if TYPE_CHECKING:
    from PIL.Image import Image

_BATCH = 8  # pictures read at once


class FindsBoxes(Protocol):
    """A loaded detector: `boxes` returns rows (MOST_BOXES, 5) of each picture, as `DetectorEngine`'s."""

    def boxes(self, pictures: Sequence[Image], what: str) -> Sequence[Any]: ...


class JudgedDetector(JudgedModel[FindsBoxes]):
    """A base of judged detectors. Boxes are computed once a picture and label, cached, and an interrupted run goes on.

    `tokenizer` is a digest of how a label is read: of the names of the classes, or of the tokenizer. A branch that
    renames classes, so that another one is looked for, is seen by it.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"detect"})

    def _require(self, what: str) -> None:
        """Raises ModelError for a class that the model does not have."""

    def detect(self, what: str) -> Detections:
        """Boxes of a class by its name, or, of a model that reads texts, of what a text names.

        Raises DatasetError for an unreadable picture, ModelError for a class that the model does not have.
        """
        self._require(what)
        table = self._table(what).reshape(-1, MOST_BOXES, 5).astype(np.float64)
        row, place = np.nonzero(table[:, :, 4] > 0)
        return Detections(row.astype(np.int64), table[row, place, 4], table[row, place, :4])

    def _table(self, what: str) -> Numbers:
        """Boxes by image, (images, MOST_BOXES * 5): the rows of the engine."""
        identity = {**self._ways("torchvision"), "dataset": self._request.source.fingerprint, "what": what}
        with RowParts(self._request, f"detections/{digest(identity)}") as work:
            if not work.has.all():
                from fairgate.models.checkpoints import scoring

                source, engine = self._request.source, self._engine()
                for todo in work.batches(_BATCH):
                    pictures = [decode_rgb(data, source, row) for row, data in todo]
                    with scoring(self._device), naming(self.uri, "detect"):
                        found = engine.boxes(pictures, what)
                    work.add(np.array([row for row, _ in todo]), np.stack(found).reshape(len(found), -1))
        return work.merged()
