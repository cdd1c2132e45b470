"""`classifier:FOLDER[?labels=FILE]`: an image classifier that transformers saved. Local files, safetensors, no code
from the folder. Its labels are those of config.json (`id2label`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import (
    CLASSIFIERS,
    Checkpoint,
    Device,
    TransformersFolder,
    class_of_task,
    code_of,
    load_parts,
    plain_note,
    split_options,
    versions,
)
from fairgate.models.classifiers.fixed_labels import FixedLabelModel, Loaded
from fairgate.models.classifiers.label_names import in_order, named_outputs
from fairgate.models.contract import Capability, Request, register
from fairgate.models.family import FolderFamily
from fairgate.models.input_digests import folder_preprocessing
from fairgate.models.isolated import isolated

if TYPE_CHECKING:
    import torch

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other outputs for the same files
LIBRARIES = ("transformers", "torch", "torchvision", "pillow")


@register
class TransformersClassifiers(FolderFamily):
    """Folders of transformers' ...ForImageClassification."""

    scheme: ClassVar[str] = "classifier"
    forms: ClassVar[tuple[str, ...]] = ("classifier:FOLDER",)
    capabilities: ClassVar[frozenset[Capability]] = FixedLabelModel.capabilities
    files = ("labels",)
    ending = "ForImageClassification"

    def open(self, request: Request) -> FixedLabelModel:
        """Find and hash a folder. Raises ModelError; loading waits until outputs are needed."""
        address, options = split_options(request.uri, request.address, ("labels", "processor"))
        found = self.found(request, address, options, CLASSIFIERS, tokenizer=False)
        where, trained_for = str(found.path / "config.json"), found.config.get("problem_type")
        if trained_for not in (None, "single_label_classification", "multi_label_classification"):
            raise ModelError(
                f"the model was trained for '{str(trained_for)[:80]}', and its outputs are no labels.",
                where=where,
                remedy="judge a model that was trained for single_label_classification or multi_label_classification",
            )
        own = found.config.get("id2label")
        libraries = versions(*LIBRARIES, *found.packages)
        names, declared = named_outputs(
            in_order(own) if isinstance(own, dict) else None, options.get("labels"), request.base, where
        )
        checkpoint = Checkpoint(
            fingerprint=digest({"files": found.fingerprint, **declared}) if declared else found.fingerprint,
            identity={"adapter": "classifier", "code": code_of(found, CODE_VERSION), "libraries": libraries},
            load=partial(isolated, load, found) if found.plain else partial(load, found),
            preprocessing=folder_preprocessing(found, "classifier"),
        )
        return FixedLabelModel(checkpoint, names, request, plain_note(found))


def load(folder: TransformersFolder, device: Device) -> Loaded:
    """The library's own class and image processor; a plain folder's only in the process that is for it. Raises
    ModelError."""
    import torch

    name = class_of_task(folder, "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING")
    model, processor, _ = load_parts(name, folder, device, texts=False)

    def prepare(image: Any) -> dict[str, torch.Tensor]:
        made = processor(images=image, return_tensors="pt")
        return {name: made[name][0] for name in made}

    def outputs(prepared: Any) -> Any:
        if len({tuple(value.shape for value in one.values()) for one in prepared}) > 1:  # pictures keep their sides
            return np.concatenate([outputs([one]) for one in prepared])
        given = {name: torch.stack([one[name] for one in prepared]).to(device.name) for name in prepared[0]}
        return model(**given).logits.float().cpu().numpy()

    return Loaded(prepare, outputs)
