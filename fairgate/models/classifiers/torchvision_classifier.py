"""`torchvision:ARCH@FILE?labels=FILE`: weights of a classifier of torchvision. The file says neither the architecture
nor the labels, so the URI does.

`&key=model_ema` chooses weights of a training checkpoint that has several, `&head=fc:Dropout,Linear` says which layers
are in the place of the architecture's head. Pictures are prepared as the checkpoint's
arguments say (those of torchvision's references), else as the architecture's published weights are evaluated
(`Weights.transforms()`). If two of these differ, `&weights=IMAGENET1K_V1` names one, or
`&resize=256&crop=224&interpolation=bicubic` give what differs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.cache import remembered
from fairgate.models.classifiers.fixed_labels import FixedLabelModel, Loaded, keyed_note, loaded_into
from fairgate.models.classifiers.label_names import named_outputs
from fairgate.models.classifiers.own_head import HINT
from fairgate.models.contract import Capability, Request, register
from fairgate.models.family import FileFamily
from fairgate.models.input_digests import preprocessing_digest

CODE_VERSION = 2  # raise it when this adapter, or what it calls, gives other outputs for the same files
LIBRARIES = ("torchvision", "torch", "pillow")
_LARGEST = 2048
_INTERPOLATIONS = ("nearest", "nearest-exact", "bilinear", "bicubic", "lanczos")


@register
class TorchvisionClassifiers(FileFamily):
    """Weights of torchvision's classifiers."""

    scheme: ClassVar[str] = "torchvision"
    forms: ClassVar[tuple[str, ...]] = ("torchvision:ARCH@FILE?labels=FILE",)
    capabilities: ClassVar[frozenset[Capability]] = FixedLabelModel.capabilities
    files = ("labels",)

    def local_path(self, address: str) -> Path | None:
        """The file after `@`."""
        file = address.partition("?")[0].partition("@")[2]
        return Path(file) if file else None

    def open(self, request: Request) -> FixedLabelModel:
        """Find and hash a checkpoint. Raises ModelError; loading waits until outputs are needed."""
        address, options = checkpoints.split_options(
            request.uri, request.address, ("labels", "key", "head", *_PICTURES)
        )
        architecture, _, file = address.partition("@")
        if not file:
            raise ModelError(
                f"'{request.uri}' does not say which weights to load.",
                remedy="write torchvision:ARCH@FILE?labels=FILE, such as torchvision:resnet50@model.safetensors",
            )
        path = checkpoints.resolve(file, request.base)
        checkpoints.require_weights(path)
        names, declared = named_outputs(None, options.get("labels"), request.base, request.uri)
        files = checkpoints.HashedFiles.of({"weights": path})
        given = {name: options[name] for name in _PICTURES if name in options}
        code = {"adapter": "torchvision", "code": CODE_VERSION, "libraries": checkpoints.versions(*LIBRARIES)}
        decided_by = {**code, "files": files.fingerprint(), "architecture": architecture, "given": given}
        pictures = remembered(request.cache, decided_by, lambda: _pictures_of(files, architecture, given, request.uri))
        key, head = options.get("key"), options.get("head")
        named = {"architecture": architecture, "key": key, "pictures": pictures, **declared}
        named |= {"head": head} if head else {}
        return FixedLabelModel(
            checkpoints.Checkpoint(
                fingerprint=digest({"files": files.fingerprint(), **named}),
                identity=code,
                load=partial(_load, files, architecture, len(names.own), pictures, key=key, head=head),
                preprocessing=preprocessing_digest(adapter="torchvision", pictures=pictures),
            ),
            names,
            request,
            keyed_note(key),
        )


def _of_training(path: Path, architecture: str) -> dict[str, str]:
    """Options of how torchvision's references evaluated, by the arguments in a checkpoint of theirs; none of other
    files. Raises ModelError for arguments of another architecture."""
    args: dict[str, Any] = {}
    with contextlib.suppress(ModelError):  # told when it is loaded
        args = checkpoints.training_args(path)
    if "val_crop_size" not in args:
        return {}
    if args.get("model") != architecture:
        raise ModelError(
            f"the checkpoint is of a training of {str(args.get('model'))[:80]}, and the URI names {architecture}.",
            where=str(path),
            remedy="name the architecture that was trained, torchvision:ARCH@FILE",
        )
    ways = {"crop": "val_crop_size", "resize": "val_resize_size", "interpolation": "interpolation"}
    return {option: str(args[name]) for option, name in ways.items() if args.get(name) is not None}


_PICTURES = ("weights", "resize", "crop", "interpolation")


def _pictures_of(
    files: checkpoints.HashedFiles, architecture: str, options: Mapping[str, str], uri: str
) -> dict[str, Any]:
    """How pictures are prepared: as all published weights of the architecture are, or those that the URI names, but for
    what its other options give; without options, for what the file says of its training. Raises ModelError for what is
    open."""
    from torchvision import models

    known = models.list_models(module=models)
    if architecture not in known:
        raise ModelError(
            f"torchvision has no classifier '{architecture[:80]}'.",
            where=uri,
            remedy=did_you_mean(architecture, known) or "`torchvision.models.list_models()` lists what it has",
        )
    options = options or _of_training(files.paths["weights"], architecture)
    files.require_unchanged()
    published = {weights.name: weights.transforms() for weights in models.get_model_weights(architecture)}
    names = list(published)
    if (named := options.get("weights")) is not None:
        if named not in names:
            problem = f"torchvision has no weights '{named[:80]}' of {architecture}."
            raise ModelError(problem, where=uri, remedy=did_you_mean(named, names) or f"it has: {', '.join(names)}")
        published = {named: published[named]}
    given: dict[str, Any] = {
        f"{option}_size": int(checkpoints.option_number(uri, option, options[option], 1, _LARGEST))
        for option in ("crop", "resize")
        if option in options
    }
    if (interpolation := options.get("interpolation")) is not None:
        if interpolation not in _INTERPOLATIONS:
            problem = f"'interpolation' is '{interpolation[:40]}'."
            raise ModelError(problem, where=uri, remedy=f"one of: {', '.join(_INTERPOLATIONS)}")
        given["interpolation"] = interpolation
    first, *others = (_settings(transform) | given for transform in published.values())
    if differing := [name for name in first if any(other[name] != first[name] for other in others)]:
        raise ModelError(
            f"the published weights of {architecture} take pictures of different {' and '.join(differing)}.",
            where=uri,
            remedy=f"name those that yours were trained as, &weights={names[-1]} (it has: {', '.join(names)}); or give "
            "&resize=, &crop= and &interpolation=",
        )
    return first


def _settings(transform: Any) -> dict[str, Any]:
    """What torchvision's transform of published weights is made by, as plain data."""
    return {
        "crop_size": transform.crop_size[0],
        "resize_size": transform.resize_size[0],
        "interpolation": transform.interpolation.value,
        "mean": list(transform.mean),
        "std": list(transform.std),
        "antialias": transform.antialias,
    }


def _load(
    files: checkpoints.HashedFiles,
    architecture: str,
    outputs: int,
    pictures: Mapping[str, Any],
    device: checkpoints.Device,
    **how: Any,
) -> Loaded:
    import torch
    from torchvision import models
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms._presets import ImageClassification

    def build() -> Any:
        # a RegNet computes its widths with tensors, which the meta device does not have
        with torch.device("cpu") if architecture.startswith("regnet") else contextlib.nullcontext():
            return models.get_model(architecture, weights=None, num_classes=outputs)

    interpolation = InterpolationMode(pictures["interpolation"])
    transform = ImageClassification(**{**pictures, "interpolation": interpolation})
    what = f"torchvision's {architecture} with an output for each of {outputs} labels{'' if how['head'] else HINT}"
    return loaded_into(build, files, transform, device, what, **how)
