"""`detector:FOLDER`: a detector that transformers saved. Local files, safetensors, no code from the folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import DETECTORS, READ_TEXTS, TransformersFolder, code_of, plain_note, split_options
from fairgate.models.classifiers.label_names import class_names, class_number
from fairgate.models.contract import Capability, Request, register
from fairgate.models.detection.judged import JudgedDetector
from fairgate.models.family import FolderFamily
from fairgate.models.input_digests import folder_preprocessing, folder_tokenizer
from fairgate.models.isolated import IsolatedDetector

if TYPE_CHECKING:
    from fairgate.models.detection.engine import DetectorEngine

CODE_VERSION = 2  # raise it when this adapter, or what it calls, gives other boxes for the same files


@register
class DetectorFamily(FolderFamily):
    """Folders that transformers saved: DETR, Conditional and Deformable DETR, RT-DETR, D-FINE, YOLOS, Grounding DINO,
    OWL-ViT."""

    scheme: ClassVar[str] = "detector"
    forms: ClassVar[tuple[str, ...]] = ("detector:FOLDER",)
    capabilities: ClassVar[frozenset[Capability]] = JudgedDetector.capabilities
    ending = "ForObjectDetection"

    def open(self, request: Request) -> DetectorModel:
        """Find and hash a folder. Raises ModelError; loading waits until a box is needed."""
        named, options = split_options(request.uri, request.address, ("processor",))
        return DetectorModel(
            self.found(request, named, options, DETECTORS, use="detect with", tokenizer=False), request
        )


class DetectorModel(JudgedDetector):
    """A judged detector of transformers."""

    def __init__(self, found: TransformersFolder, request: Request) -> None:
        super().__init__(request, "fp32")
        self.fingerprint, self._found = found.fingerprint, found
        self.preparation = f"detector/{code_of(found, CODE_VERSION)}"
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

    def _require(self, what: str) -> None:
        if self._found.kind not in READ_TEXTS:
            where = str(self._found.path / "config.json")
            class_number(class_names(self._found.config, where), what, where)

    def _load(self) -> DetectorEngine | IsolatedDetector:
        if self._found.plain:
            return IsolatedDetector(self._found, self._device)
        from fairgate.models.detection.engine import DetectorEngine

        return DetectorEngine(self._found, self._device)
