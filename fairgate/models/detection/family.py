"""`detector:FOLDER`: a detector that transformers saved. Local files, safetensors, no code from the folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError, did_you_mean, listed
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import TransformersFolder, naming, split_options, versions
from fairgate.models.contract import MOST_BOXES, Capability, Detections, Request, register
from fairgate.models.decoding import decode_rgb
from fairgate.models.family import FolderFamily, JudgedModel, RowParts
from fairgate.models.reading import folder_preprocessing, folder_tokenizer

if TYPE_CHECKING:
    from fairgate.models.detection.engine import DetectorEngine

CODE_VERSION = 2  # raise it when this adapter, or what it calls, gives other boxes for the same files
_BATCH = 8  # pictures read at once

BoxTable = NDArray[np.float32]
"""(images, MOST_BOXES * 5): a row of the engine's per image."""


@dataclass(frozen=True, slots=True)
class DetectorLayout:
    """A class of transformers. `reads_text`: what is looked for is a text, and not one of the model's own classes."""

    model: str
    reads_text: bool = False


DETECTORS: Mapping[str, DetectorLayout] = {
    "detr": DetectorLayout("DetrForObjectDetection"),
    "conditional_detr": DetectorLayout("ConditionalDetrForObjectDetection"),
    "deformable_detr": DetectorLayout("DeformableDetrForObjectDetection"),
    "rt_detr": DetectorLayout("RTDetrForObjectDetection"),
    "rt_detr_v2": DetectorLayout("RTDetrV2ForObjectDetection"),
    "d_fine": DetectorLayout("DFineForObjectDetection"),
    "yolos": DetectorLayout("YolosForObjectDetection"),
    "grounding-dino": DetectorLayout("GroundingDinoForObjectDetection", reads_text=True),
    "owlvit": DetectorLayout("OwlViTForObjectDetection", reads_text=True),
    "owlv2": DetectorLayout("Owlv2ForObjectDetection", reads_text=True),
}
"""By `model_type`."""


@register
class DetectorFamily(FolderFamily):
    """Folders that transformers saved: DETR, Conditional and Deformable DETR, RT-DETR, D-FINE, YOLOS, Grounding DINO,
    OWL-ViT."""

    scheme: ClassVar[str] = "detector"
    forms: ClassVar[tuple[str, ...]] = ("detector:FOLDER",)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"detect"})

    def open(self, request: Request) -> DetectorModel:
        """Find and hash a folder. Raises ModelError; loading waits until a box is needed."""
        named, options = split_options(request.uri, request.address, ("processor",))
        return DetectorModel(
            self.found(request, named, options, DETECTORS, use="detect with", tokenizer=False), request
        )


class DetectorModel(JudgedModel["DetectorEngine"]):
    """A judged detector. Boxes are computed once a picture and label, cached, and an interrupted run goes on.

    `tokenizer` is a digest of how a label is read: of the names of the classes, or of the tokenizer. A branch that
    renames classes, so that another one is looked for, is seen by it.
    """

    capabilities: ClassVar[frozenset[Capability]] = DetectorFamily.capabilities
    preparation = f"detector/{CODE_VERSION}"

    def __init__(self, found: TransformersFolder, request: Request) -> None:
        super().__init__(request, "fp32")
        self.fingerprint, self._found = found.fingerprint, found
        self.preprocessing = folder_preprocessing(found, "detector")
        if DETECTORS[found.kind].reads_text:
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
        if not DETECTORS[self._found.kind].reads_text:
            where = str(self._found.path / "config.json")
            class_number(class_names(self._found.config, where), what, where)
        table = self._table(what).reshape(-1, MOST_BOXES, 5).astype(np.float64)
        row, place = np.nonzero(table[:, :, 4] > 0)
        return Detections(row.astype(np.int64), table[row, place, 4], table[row, place, :4])

    def _table(self, what: str) -> BoxTable:
        """Boxes by image, (images, MOST_BOXES * 5) float32."""
        source = self._request.source
        identity = {
            "fingerprint": self.fingerprint,
            "adapter": self.preparation,
            "libraries": versions("transformers", "tokenizers", "torch", "torchvision", "pillow"),
            "dataset": source.fingerprint,
            "what": what,
        }
        with RowParts(self._request, f"detections/{digest(identity)}") as work:
            if not work.has.all():
                self._fill(work, what)
        return work.merged()

    def _fill(self, work: RowParts, what: str) -> None:
        from fairgate.models.checkpoints import scoring

        source, engine = self._request.source, self._engine()
        for todo in work.batches(_BATCH):
            pictures = [decode_rgb(data, source, row) for row, data in todo]
            with scoring(self._device), naming(self.uri, "detect"):
                found = engine.boxes(pictures, what)
            work.add(np.array([row for row, _ in todo]), np.stack(found).reshape(len(found), -1))

    def _load(self) -> DetectorEngine:
        from fairgate.models.detection.engine import DetectorEngine

        return DetectorEngine(self._found, self._device)


def class_names(config: Mapping[str, Any], where: str) -> dict[int, str]:
    """The names of a model's classes, by number, as its config gives them. Raises ModelError for one without."""
    given = config.get("id2label")
    try:
        found = {int(number): str(name) for number, name in given.items()} if isinstance(given, dict) else {}
    except ValueError:
        found = {}
    if not found:
        raise ModelError(
            "the config does not name the classes that the model detects (id2label).",
            where=where,
            remedy="save the model with its labels: config.id2label = {0: 'person', ...}",
        )
    return found


def class_number(names: Mapping[int, str], what: str, where: str) -> int:
    """The number of a class by its name. Raises ModelError where no class, or more than one, is called so."""
    found = [number for number, name in names.items() if name == what]
    if len(found) != 1:
        raise ModelError(
            f"{'no class' if not found else f'{len(found)} classes'} of the model {'are' if found else 'is'} called "
            f"'{what}'.",
            where=where,
            remedy=did_you_mean(what, names.values()) or f"its classes: {listed(list(names.values()), 8)}",
        )
    return found[0]
