"""`detector:FOLDER`: a detector that transformers saved. Local files, safetensors, no code from the folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import (
    IMAGE_CONFIGS,
    TOKENIZER_FILES,
    Device,
    TransformersFolder,
    find_device,
    find_folder,
    judged_folder,
    local_folder,
    naming,
    option_folder,
    split_options,
    versions,
)
from fairgate.models.classifiers.label_files import option_paths
from fairgate.models.contract import MOST_BOXES, Capability, Detections, Request, register
from fairgate.models.decoding import decode_rgb
from fairgate.models.detection.layouts import DETECTORS, class_names, class_number
from fairgate.models.reading import preprocessing_digest, tokenizer_class, tokenizer_digest
from fairgate.models.row_parts import RowParts

if TYPE_CHECKING:
    from fairgate.models.detection.engine import DetectorEngine

CODE_VERSION = 2  # raise it when this adapter, or what it calls, gives other boxes for the same files
_BATCH = 8  # pictures read at once

BoxTable = NDArray[np.float32]
"""(images, MOST_BOXES * 5): a row of the engine's per image."""


@register
class DetectorFamily:
    """Folders that transformers saved: DETR, Conditional and Deformable DETR, RT-DETR, D-FINE, YOLOS, Grounding DINO,
    OWL-ViT."""

    scheme: ClassVar[str] = "detector"
    forms: ClassVar[tuple[str, ...]] = ("detector:FOLDER",)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"detect"})

    def local_path(self, address: str) -> Path | None:
        """The folder, unless it is a model of the hub."""
        return local_folder(address)

    def option_files(self, address: str) -> tuple[Path, ...]:
        """The folder of tokenizer and image processor."""
        return option_paths(address, folders=("processor",))

    def open(self, request: Request) -> DetectorModel:
        """Find and hash a folder. Raises ModelError; loading waits until a box is needed."""
        named, options = split_options(request.uri, request.address, ("processor",))
        folder = judged_folder(named, request.base)
        found = find_folder(
            folder,
            tuple(DETECTORS),
            use="detect with",
            tokenizer=False,
            scheme="detector",
            processor=option_folder(options, "processor", request.base),
        )
        return DetectorModel(found, request)


class DetectorModel:
    """A judged detector. Boxes are computed once a picture and label, cached, and an interrupted run goes on.

    `tokenizer` is a digest of how a label is read: of the names of the classes, or of the tokenizer. A branch that
    renames classes, so that another one is looked for, is seen by it.
    """

    capabilities: ClassVar[frozenset[Capability]] = DetectorFamily.capabilities
    precision = "fp32"
    preparation = f"detector/{CODE_VERSION}"

    def __init__(self, found: TransformersFolder, request: Request) -> None:
        self.uri, self.fingerprint = request.uri, found.fingerprint
        self._found, self._request = found, request
        self._device = Device(find_device(request.device).name, "fp32")
        self.device = self._device.name
        self._engine_: DetectorEngine | None = None
        files = found.files.paths
        pictures = [path for name, path in files.items() if name in IMAGE_CONFIGS]
        self.preprocessing = preprocessing_digest(pictures, adapter="detector", kind=found.kind)
        if DETECTORS[found.kind].reads_text:
            texts = [path for name, path in files.items() if name in TOKENIZER_FILES]
            if not {"tokenizer.json", "vocab.json", "vocab.txt"} & {path.name for path in texts}:
                raise ModelError(
                    "the folder holds no tokenizer.",
                    where=str(found.path),
                    remedy="save the model's processor into it: processor.save_pretrained(FOLDER)",
                )
            decided = {name: value for name, value in tokenizer_class(found.config).items() if name != "model_type"}
            self.tokenizer = tokenizer_digest(texts, kind=found.kind, **decided)
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
        request, source = self._request, self._request.source
        identity = {
            "fingerprint": self.fingerprint,
            "adapter": self.preparation,
            "libraries": versions("transformers", "tokenizers", "torch", "torchvision", "pillow"),
            "dataset": source.fingerprint,
            "what": what,
        }
        work = RowParts(request.cache, f"detections/{digest(identity)}", len(source))
        if request.progress:
            request.progress(work.done, len(source))
        try:
            if not work.has.all():
                self._fill(work, what)
        finally:  # also after Ctrl-C or an unreadable picture: what is done stays in the cache
            work.flush()
        return work.merged(source)

    def _fill(self, work: RowParts, what: str) -> None:
        from fairgate.models.checkpoints import scoring

        source, engine = self._request.source, self._engine()
        for rows, blobs in source.image_batches(_BATCH):
            todo = [(int(row), data) for row, data in zip(rows, blobs, strict=True) if not work.has[row]]
            if not todo:
                continue
            pictures = [decode_rgb(data, source, row) for row, data in todo]
            with scoring(self._device), naming(self.uri, "detect"):
                found = engine.boxes(pictures, what)
            work.add(np.array([row for row, _ in todo]), np.stack(found).reshape(len(found), -1))
            if self._request.progress:
                self._request.progress(work.done, len(source))

    def _engine(self) -> DetectorEngine:
        if self._engine_ is None:
            from fairgate.models.checkpoints import require_device
            from fairgate.models.detection.engine import DetectorEngine

            require_device(self._device)
            with naming(self.uri, "be loaded"):
                self._engine_ = DetectorEngine(self._found, self._device)
        return self._engine_
