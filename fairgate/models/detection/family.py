"""`detector:FOLDER`: a detector that transformers saved. Local files, safetensors, no code from the folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import DETECTORS, READ_TEXTS, TransformersFolder, naming, plain_note, split_options
from fairgate.models.classifiers.label_names import class_names, class_number
from fairgate.models.contract import MOST_BOXES, Capability, Detections, Request, register
from fairgate.models.decoding import decode_rgb
from fairgate.models.family import FolderFamily, JudgedModel, Numbers, RowParts
from fairgate.models.input_digests import folder_preprocessing, folder_tokenizer
from fairgate.models.isolated import IsolatedDetector

if TYPE_CHECKING:
    from fairgate.models.detection.engine import DetectorEngine

CODE_VERSION = 2  # raise it when this adapter, or what it calls, gives other boxes for the same files
_BATCH = 8  # pictures read at once


@register
class DetectorFamily(FolderFamily):
    """Folders that transformers saved: DETR, Conditional and Deformable DETR, RT-DETR, D-FINE, YOLOS, Grounding DINO,
    OWL-ViT."""

    scheme: ClassVar[str] = "detector"
    forms: ClassVar[tuple[str, ...]] = ("detector:FOLDER",)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"detect"})
    ending = "ForObjectDetection"

    def open(self, request: Request) -> DetectorModel:
        """Find and hash a folder. Raises ModelError; loading waits until a box is needed."""
        named, options = split_options(request.uri, request.address, ("processor",))
        return DetectorModel(
            self.found(request, named, options, DETECTORS, use="detect with", tokenizer=False), request
        )


class DetectorModel(JudgedModel["DetectorEngine | IsolatedDetector"]):
    """A judged detector. Boxes are computed once a picture and label, cached, and an interrupted run goes on.

    `tokenizer` is a digest of how a label is read: of the names of the classes, or of the tokenizer. A branch that
    renames classes, so that another one is looked for, is seen by it.
    """

    capabilities: ClassVar[frozenset[Capability]] = DetectorFamily.capabilities
    preparation = f"detector/{CODE_VERSION}"

    def __init__(self, found: TransformersFolder, request: Request) -> None:
        super().__init__(request, "fp32")
        self.fingerprint, self._found = found.fingerprint, found
        self.note = plain_note(found)
        self.preprocessing = folder_preprocessing(found, "detector")
        if found.kind in READ_TEXTS:
            if not found.named(("tokenizer.json", "vocab.json", "vocab.txt")):
                raise ModelError(
                    "the folder holds no tokenizer.",
                    where=str(found.path),
                    remedy="save the model's processor into it: processor.save_pretrained(FOLDER)",
                )
            self.tokenizer = folder_tokenizer(found)
        else:
            names = class_names(found.config, str(found.path / "config.json"))
            self.tokenizer = digest({str(number): name for number, name in sorted(names.items())})

    def detect(self, what: str) -> Detections:
        """Boxes of a class by its name, or, of a model that reads texts, of what a text names.

        Raises DatasetError for an unreadable picture, ModelError for a class that the model does not have.
        """
        if self._found.kind not in READ_TEXTS:
            where = str(self._found.path / "config.json")
            class_number(class_names(self._found.config, where), what, where)
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

    def _load(self) -> DetectorEngine | IsolatedDetector:
        if self._found.plain:
            return IsolatedDetector(self._found, self._device)
        from fairgate.models.detection.engine import DetectorEngine

        return DetectorEngine(self._found, self._device)
