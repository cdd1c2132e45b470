"""Judged detectors: boxes by label, computed once and cached; and `detector:FOLDER`, one that transformers saved. Local
files, safetensors, no code from the folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.checkpoints import Checkpoint, Device, TransformersFolder
from fairgate.models.classifiers.label_names import class_names, class_number
from fairgate.models.contract import MOST_BOXES, Capability, Detections, Request, register
from fairgate.models.decoding import decode_rgb
from fairgate.models.family import FolderFamily, JudgedModel, RowParts
from fairgate.models.input_digests import folder_preprocessing, folder_tokenizer
from fairgate.models.isolated import IsolatedDetector
from fairgate.models.known_images import KnownImages, Numbers, numbers_in_pieces

if TYPE_CHECKING:
    from PIL.Image import Image

CODE_VERSION = 2  # raise it when this adapter, or what it calls, gives other boxes for the same files
LIBRARIES = ("transformers", "tokenizers", "torch", "torchvision", "pillow")
_BATCH = 8  # pictures read at once


class FindsBoxes(Protocol):
    """A loaded detector: `boxes` returns rows (MOST_BOXES, 5) of each picture, as `DetectorEngine`'s."""

    def boxes(self, pictures: Sequence[Image], what: str) -> Sequence[Any]: ...


class DetectorModel(JudgedModel[FindsBoxes]):
    """A judged detector. Boxes are computed once a picture and label, cached, and an interrupted run goes on.

    `tokenizer` is a digest of how a label is read: of the names of the classes, or of the tokenizer. A branch that
    renames classes, so that another one is looked for, is seen by it. `names` are its classes by number; None if it
    looks for what a text names.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"detect"})

    def __init__(
        self, checkpoint: Checkpoint, names: Mapping[int, str] | None, request: Request, note: str | None = None
    ) -> None:
        super().__init__(request, "fp32", note)
        self.fingerprint, self.preparation = checkpoint.fingerprint, checkpoint.preparation
        self.tokenizer, self.preprocessing = checkpoint.tokenizer, checkpoint.preprocessing
        self._checkpoint, self._names = checkpoint, names

    def _load(self) -> FindsBoxes:
        found: FindsBoxes = self._checkpoint.load(self._device)
        return found

    def detect(self, what: str) -> Detections:
        """Boxes of a class by its name, or, of a model that reads texts, of what a text names.

        Raises DatasetError for an unreadable picture, ModelError for a class that the model does not have.
        """
        if self._names is not None:
            class_number(self._names, what, self.uri)
        table = self._table(what).reshape(-1, MOST_BOXES, 5).astype(np.float64)
        row, place = np.nonzero(table[:, :, 4] > 0)
        return Detections(row.astype(np.int64), table[row, place, 4], table[row, place, :4])

    def _table(self, what: str) -> Numbers:
        """Boxes by image, (images, MOST_BOXES * 5): the rows of the engine."""
        cache, alike = self._request.cache, self._checkpoint.key(self._device, what=what)
        key = self._checkpoint.key(self._device, dataset=self._request.source.fingerprint, what=what)
        name, known = f"detections/{key}", None
        if cache:
            known = KnownImages(self._request, name, alike, partial(numbers_in_pieces, cache))
        with RowParts(self._request, name, known) as work:
            if known and known.any and not work.has.all():
                work.take_known()
            if not work.has.all():
                source, engine = self._request.source, self._engine()
                for todo in work.batches(_BATCH):
                    pictures = [decode_rgb(data, source, row) for row, data in todo]
                    with checkpoints.scoring(self._device), checkpoints.naming(self.uri, "detect"):
                        found = engine.boxes(pictures, what)
                    work.add(np.array([row for row, _ in todo]), np.stack(found).reshape(len(found), -1))
        if known:
            known.keep()
        return work.merged()


def names_digest(names: Mapping[int, str]) -> str:
    """Digest of how a detector with classes reads a label: by their names."""
    return digest({str(number): name for number, name in sorted(names.items())})


@register
class DetectorFamily(FolderFamily):
    """Folders that transformers saved: DETR, Conditional and Deformable DETR, RT-DETR, D-FINE, YOLOS, Grounding DINO,
    OWL-ViT."""

    scheme: ClassVar[str] = "detector"
    forms: ClassVar[tuple[str, ...]] = ("detector:FOLDER",)
    capabilities: ClassVar[frozenset[Capability]] = DetectorModel.capabilities
    ending = "ForObjectDetection"

    def open(self, request: Request) -> DetectorModel:
        """Find and hash a folder. Raises ModelError; loading waits until a box is needed."""
        named, options = checkpoints.split_options(request.uri, request.address, ("processor",))
        found = self.found(request, named, options, checkpoints.DETECTORS, use="detect with", tokenizer=False)
        names: dict[int, str] | None = None
        if found.kind in checkpoints.READ_TEXTS:
            checkpoints.require_companion(found.path, found.files.paths, checkpoints.VOCABULARIES)
            tokenizer = folder_tokenizer(found)
        else:
            names = class_names(found.config, str(found.path / "config.json"))
            tokenizer = names_digest(names)
        code, libraries = checkpoints.code_of(found, CODE_VERSION), checkpoints.versions(*LIBRARIES, *found.packages)
        checkpoint = Checkpoint(
            fingerprint=found.fingerprint,
            identity={"adapter": "detector", "code": code, "libraries": libraries},
            load=partial(IsolatedDetector if found.plain else _load, found),
            tokenizer=tokenizer,
            preprocessing=folder_preprocessing(found, "detector"),
        )
        return DetectorModel(checkpoint, names, request, checkpoints.plain_note(found))


def _load(found: TransformersFolder, device: Device) -> FindsBoxes:
    from fairgate.models.detection.engine import DetectorEngine

    return DetectorEngine(found, device)
