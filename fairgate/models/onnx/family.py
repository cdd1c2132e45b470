"""`onnx:FILE?labels=FILE&size=224&mean=...&std=...`: an image classifier that was exported to ONNX, run by onnxruntime
on the CPU.

Every file that is read is named by the URI, so that the gate compares each with the base branch: the model, its labels,
its weights where they are in a file of their own (`&data=FILE`), the image processor (`&processor=FOLDER`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import (
    Device,
    HashedFiles,
    option_folder,
    require_file,
    resolve,
    split_options,
    versions,
)
from fairgate.models.classifiers.fixed_labels import FixedLabelFiles, FixedLabelModel, Loaded
from fairgate.models.classifiers.label_names import named_outputs
from fairgate.models.contract import Capability, Request, register
from fairgate.models.family import option_paths
from fairgate.models.input_digests import preprocessing_digest
from fairgate.models.onnx.pictures import OPTIONS as PICTURES
from fairgate.models.onnx.pictures import PicturePreparation, processor_files, processor_of
from fairgate.models.onnx.session import DATA, LAYOUTS, MODEL, SCORES, OnnxClassifier, Outputs

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other outputs for the same files
LIBRARIES = ("onnxruntime", "pillow", "numpy")
LARGEST = 2 << 30
"""Bytes of a file: onnxruntime reads no larger one, and weights in a file of their own are held in memory."""
_OPTIONS = ("labels", "data", "processor", "output", "scores", "layout", *PICTURES)


@register
class OnnxFamily:
    """Image classifiers in ONNX."""

    scheme: ClassVar[str] = "onnx"
    forms: ClassVar[tuple[str, ...]] = ("onnx:FILE?labels=FILE",)
    capabilities: ClassVar[frozenset[Capability]] = FixedLabelModel.capabilities

    def local_path(self, address: str) -> Path | None:
        """The file."""
        return Path(address.partition("?")[0])

    def option_files(self, address: str) -> tuple[Path, ...]:
        """The files of labels and weights, and the folder of the image processor."""
        return option_paths(address, ("labels", "data"), ("processor",))

    def open(self, request: Request) -> FixedLabelModel:
        """Find and hash a model. Raises ModelError; loading waits until outputs are needed."""
        address, options = split_options(request.uri, request.address, _OPTIONS)
        libraries = versions(*LIBRARIES, *(["transformers", "torchvision"] if "processor" in options else []))
        model = resolve(address, request.base)
        _require_onnx(model)
        paths = {MODEL: model, **_data(model, options, request.base)}
        names, said = named_outputs(None, options.get("labels"), request.base, request.uri)
        outputs = Outputs(
            options.get("output"), _chosen("scores", SCORES, options), _chosen("layout", LAYOUTS, options)
        )
        folder = option_folder(options, "processor", request.base)
        if folder is not None and (both := sorted(set(PICTURES) & set(options))):
            raise ModelError(
                f"pictures are prepared by processor=, and {both[0]}= says it too.",
                where=request.uri,
                remedy="leave one of them out",
            )
        configs = processor_files(folder) if folder is not None else {}
        files = HashedFiles.of({**paths, **configs})
        prepare: Callable[[], Any]
        if folder is not None:
            pictures, prepare = {}, partial(processor_of, files, folder)
        else:
            by_options = PicturePreparation.of(options, request.uri)
            pictures, prepare = asdict(by_options), lambda: by_options
        named: dict[str, Any] = {"outputs": asdict(outputs), "pictures": pictures, **said}
        return FixedLabelModel(
            FixedLabelFiles(
                fingerprint=digest({"files": files.fingerprint(), **named}),
                identity={"adapter": "onnx", "code": CODE_VERSION, "libraries": libraries},
                heads={"": names},
                load=partial(_load, files, prepare, outputs, len(names.own), request.uri),
                preprocessing=preprocessing_digest(configs.values(), adapter="onnx", pictures=pictures),
            ),
            replace(request, device="cpu"),  # where onnxruntime computes, whatever the machine has
        )


def _require_onnx(path: Path) -> None:
    """Raises ModelError for what is missing, of another kind or too large."""
    require_file(path)
    if path.suffix != ".onnx":
        raise ModelError(
            f"'{path.suffix or path.name}' is not the ending of an ONNX model.",
            where=str(path),
            remedy="name a file that ends in .onnx; one of onnxruntime's own format (.ort) is not read",
        )
    _require_small(path)


def _require_small(path: Path) -> None:
    if path.stat().st_size > LARGEST:
        raise ModelError(
            f"the file has {path.stat().st_size >> 20:,} MB, and at most {LARGEST >> 20:,} MB are read.",
            where=str(path),
            remedy="judge a table of its answers instead: labels:FILE or scores:FILE",
        )


def _data(model: Path, options: Mapping[str, str], base: Path) -> dict[str, Path]:
    """The file of weights that a URI names. Raises ModelError for one outside of the model's folder."""
    if DATA not in options:
        return {}
    path = resolve(options[DATA], base)
    require_file(path)
    _require_small(path)
    if not path.resolve().is_relative_to(model.resolve().parent):
        raise ModelError(
            "the weights are outside of the model's folder, where onnxruntime does not look for them.",
            where=str(path),
            remedy="keep both in one folder",
        )
    return {DATA: path}


def _chosen(name: str, known: tuple[str, ...], options: Mapping[str, str]) -> str | None:
    value = options.get(name)
    if value is not None and value not in known:
        raise ModelError(f"'{name}' is '{value[:40]}'.", where=f"&{name}=", remedy=f"one of: {', '.join(known)}")
    return value


def _load(files: HashedFiles, prepare: Callable[[], Any], outputs: Outputs, width: int, uri: str, _: Device) -> Loaded:
    files.require_unchanged()
    return Loaded(prepare(), OnnxClassifier(files, outputs, width, uri))
