"""`detector:FOLDER`: a detector that transformers saved. Local files, safetensors, no code from the folder."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import (
    DETECTORS,
    READ_TEXTS,
    Device,
    TransformersFolder,
    code_of,
    plain_note,
    split_options,
)
from fairgate.models.classifiers.label_names import class_names
from fairgate.models.contract import Capability, Request, register
from fairgate.models.detection.judged import DetectorFiles, DetectorModel, FindsBoxes, names_digest
from fairgate.models.family import FolderFamily
from fairgate.models.input_digests import folder_preprocessing, folder_tokenizer
from fairgate.models.isolated import IsolatedDetector

if TYPE_CHECKING:
    pass

CODE_VERSION = 2  # raise it when this adapter, or what it calls, gives other boxes for the same files


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
        named, options = split_options(request.uri, request.address, ("processor",))
        found = self.found(request, named, options, DETECTORS, use="detect with", tokenizer=False)
        where, names = str(found.path / "config.json"), None
        if found.kind in READ_TEXTS:
            if not found.named(("tokenizer.json", "vocab.json", "vocab.txt")):
                raise ModelError(
                    "the folder holds no tokenizer.",
                    where=str(found.path),
                    remedy="save the model's processor into it: processor.save_pretrained(FOLDER)",
                )
            tokenizer = folder_tokenizer(found)
        else:
            names = class_names(found.config, where)
            tokenizer = names_digest(names)
        files = DetectorFiles(
            fingerprint=found.fingerprint,
            preparation=f"detector/{code_of(found, CODE_VERSION)}",
            names=names,
            where=where,
            tokenizer=tokenizer,
            preprocessing=folder_preprocessing(found, "detector"),
            load=partial(IsolatedDetector if found.plain else _load, found),
        )
        return DetectorModel(files, request, plain_note(found))


def _load(found: TransformersFolder, device: Device) -> FindsBoxes:
    from fairgate.models.detection.engine import DetectorEngine

    return DetectorEngine(found, device)
