"""`torchvision:ARCH@FILE?labels=FILE`: weights of a classifier of torchvision. The file says neither the architecture
nor the labels, so the URI does.

`&key=state_dict_ema` reads other weights of a training checkpoint than the usual ones. Pictures are prepared as
torchvision's references evaluate: the short side to `&resize=256`, the middle of `&crop=224`, ImageNet's mean and
standard deviation.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from fairgate.checkpoints import Device, HashedFiles, require_weights, resolve, split_options, versions
from fairgate.errors import ModelError, did_you_mean
from fairgate.hashing import digest
from fairgate.models.classifiers.fixed_labels import FixedLabelFiles, FixedLabelModel, Loaded
from fairgate.models.classifiers.label_files import named_outputs, option_paths
from fairgate.models.contract import Capability, Request, register
from fairgate.models.reading import preprocessing_digest

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other outputs for the same files
LIBRARIES = ("torchvision", "torch", "pillow")
_LARGEST = 2048


@register
class TorchvisionClassifiers:
    """Weights of torchvision's classifiers."""

    scheme: ClassVar[str] = "torchvision"
    forms: ClassVar[tuple[str, ...]] = ("torchvision:ARCH@FILE?labels=FILE",)
    capabilities: ClassVar[frozenset[Capability]] = FixedLabelModel.capabilities

    def local_path(self, address: str) -> Path | None:
        """The file after `@`."""
        file = address.partition("?")[0].partition("@")[2]
        return Path(file) if file else None

    def option_files(self, address: str) -> tuple[Path, ...]:
        """The file of labels."""
        return option_paths(address, "labels")

    def open(self, request: Request) -> FixedLabelModel:
        """Find and hash a checkpoint. Raises ModelError; loading waits until outputs are needed."""
        address, options = split_options(request.uri, request.address, ("labels", "key", "resize", "crop"))
        architecture, _, file = address.partition("@")
        if not file:
            raise ModelError(
                f"'{request.uri}' does not say which weights to load.",
                remedy="write torchvision:ARCH@FILE?labels=FILE, such as torchvision:resnet50@model.safetensors",
            )
        _require_architecture(architecture, request.uri)
        path = resolve(file, request.base)
        require_weights(path, request.allow_pickle)
        names, said = named_outputs(None, options.get("labels"), request.base, request.uri)
        crop = _pixels(options.get("crop", "224"), "crop", request.uri)
        pictures = {"crop_size": crop, "resize_size": _pixels(options.get("resize", "256"), "resize", request.uri)}
        files = HashedFiles.of({"weights": path})
        key = options.get("key")
        load = partial(_load, files, architecture, len(names.own), pictures, request.allow_pickle, key)
        named = {"architecture": architecture, "key": key, "pictures": pictures, **said}
        return FixedLabelModel(
            FixedLabelFiles(
                fingerprint=digest({"files": files.fingerprint(), **named}),
                identity={"adapter": "torchvision", "code": CODE_VERSION, "libraries": versions(*LIBRARIES)},
                heads={"": names},
                load=load,
                preprocessing=preprocessing_digest(adapter="torchvision", pictures=pictures),
            ),
            request,
        )


def _require_architecture(name: str, uri: str) -> None:
    from torchvision import models

    known = models.list_models(module=models)
    if name not in known:
        raise ModelError(
            f"torchvision has no classifier '{name[:80]}'.",
            where=uri,
            remedy=did_you_mean(name, known) or "`torchvision.models.list_models()` lists what it has",
        )


def _pixels(text: str, name: str, uri: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= _LARGEST:
        raise ModelError(f"'{name}' is '{text[:40]}'.", where=uri, remedy=f"give pixels, 1 to {_LARGEST:,}")
    return int(text)


def _load(
    files: HashedFiles,
    architecture: str,
    outputs: int,
    pictures: dict[str, int],
    allow_pickle: bool,
    key: str | None,
    device: Device,
) -> Loaded:
    from torchvision import models
    from torchvision.transforms._presets import ImageClassification

    from fairgate.models.classifiers.bare_weights import loaded_into

    build = partial(models.get_model, architecture, weights=None, num_classes=outputs)
    transform = ImageClassification(**pictures)
    what = f"torchvision's {architecture} with {outputs} outputs"
    return loaded_into(build, files, transform, device, what, allow_pickle=allow_pickle, key=key)
