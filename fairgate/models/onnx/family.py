"""`onnx:FILE?labels=FILE&size=224&mean=...&std=...`: an image classifier that was exported to ONNX, or two towers,
`onnx:FILE?text=FILE&processor=FOLDER&logit_scale=100`, or a detector, `onnx:FILE?labels=FILE&boxes=yolo`, run by
onnxruntime on the CPU.

Every file that is read is named by the URI, so that the gate compares each with the base branch: the model, its labels,
its weights where they are in a file of their own (`&data=FILE`), image processor and tokenizer (`&processor=FOLDER`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import (
    IMAGE_CONFIGS,
    Checkpoint,
    Device,
    Encoder,
    HashedFiles,
    option_folder,
    option_number,
    require_file,
    resolve,
    split_options,
    versions,
)
from fairgate.models.classifiers.fixed_labels import FixedLabelModel, Loaded
from fairgate.models.classifiers.label_names import named_outputs
from fairgate.models.contract import Capability, Request, register
from fairgate.models.detection.family import DetectorModel, names_digest
from fairgate.models.family import FileFamily
from fairgate.models.input_digests import preprocessing_digest, tokenizer_digest
from fairgate.models.onnx.boxes import BOXES, OVERLAP, DetectorOptions, OnnxDetector
from fairgate.models.onnx.classifier import SCORES, OnnxClassifier, Outputs
from fairgate.models.onnx.host import DATA, MODEL
from fairgate.models.onnx.pictures import OPTIONS as PICTURES
from fairgate.models.onnx.pictures import PicturePreparation, chosen, processor_files, processor_of
from fairgate.models.onnx.session import LAYOUTS
from fairgate.models.onnx.towers import LONGEST, TEXT, TEXT_DATA, OnnxTowers, TowerOptions, tokenizer_files
from fairgate.models.two_towers import TwoTowers

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other outputs for the same files
LARGEST = 2 << 30
"""Bytes of a file: onnxruntime reads no larger one, and weights in a file of their own are held in memory."""
_KINDS: Mapping[str, str] = {"towers": "two towers", "detector": "a detector", "classifier": "a classifier"}
_OF: Mapping[str, tuple[str, ...]] = {
    "labels": ("classifier", "detector"),
    "scores": ("classifier",),
    **dict.fromkeys(("boxes", "overlap", "pad"), ("detector",)),
    **dict.fromkeys(("text", TEXT_DATA, "text_output", "length", "logit_scale", "logit_bias"), ("towers",)),
    "crop": ("classifier", "towers"),
}
"""Options that not every model has."""
_OPTIONS = tuple(dict.fromkeys((*_OF, DATA, "processor", "output", "layout", *PICTURES)))


@register
class OnnxFamily(FileFamily):
    """Image classifiers, two towers and detectors in ONNX."""

    scheme: ClassVar[str] = "onnx"
    forms: ClassVar[tuple[str, ...]] = (
        "onnx:FILE?labels=FILE",
        "onnx:FILE?text=FILE&processor=FOLDER&logit_scale=100",
        "onnx:FILE?labels=FILE&boxes=yolo",
    )
    capabilities: ClassVar[frozenset[Capability]] = (
        FixedLabelModel.capabilities | TwoTowers.capabilities | DetectorModel.capabilities
    )

    files, folders = ("labels", DATA, "text", TEXT_DATA), ("processor",)

    def open(self, request: Request) -> FixedLabelModel | TwoTowers | DetectorModel:
        """Find and hash a model. Raises ModelError; loading waits until outputs are needed."""
        address, options = split_options(request.uri, request.address, _OPTIONS)
        kind = "towers" if "text" in options else "detector" if "boxes" in options else "classifier"
        if odd := [name for name in options if name in _OF and kind not in _OF[name]]:
            raise ModelError(
                f"{odd[0]}= is no option of {_KINDS[kind]}, which the URI names.",
                where=request.uri,
                remedy="leave it out; two towers have &text=FILE, a detector has &boxes=LAYOUT",
            )
        here = replace(request, device="cpu")  # where onnxruntime computes, whatever the machine has
        model = resolve(address, request.base)
        _require_onnx(model)
        paths = {MODEL: model, **_data(DATA, model, options, request.base)}
        if kind == "towers":
            return _towers(here, paths, options)
        return _detector(here, paths, options) if kind == "detector" else _classifier(here, paths, options)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """How pictures are prepared: the files that say so, or what the URI says; and what makes the function of it."""

    configs: Mapping[str, Path]
    settings: Mapping[str, Any]
    by: Callable[[HashedFiles], Callable[[Any], Any]]

    @property
    def digest(self) -> str:
        return preprocessing_digest(self.configs.values(), adapter="onnx", pictures=self.settings)


def _prepared(options: Mapping[str, str], folder: Path | None, uri: str, *, tokenizer: bool) -> _Prepared:
    """By the options, or by an image processor's folder. Raises ModelError for both, but for a tokenizer's folder."""
    named = sorted(set(PICTURES) & set(options))
    if folder is None or (tokenizer and named):
        by_options = PicturePreparation.of(options, uri)
        return _Prepared({}, asdict(by_options), lambda _: by_options)
    if named:
        raise ModelError(
            f"pictures are prepared by processor=, and {named[0]}= says it too.",
            where=uri,
            remedy="leave one of them out",
        )
    return _Prepared(processor_files(folder), {}, lambda files: processor_of(files, folder))


def _require_said(model: Path, options: Mapping[str, str], request: Request) -> None:
    """Raises ModelError where an image processor lies beside a model and the URI says nothing of pictures."""
    beside = [name for name in IMAGE_CONFIGS if (model.parent / name).is_file()]
    if beside and not {"processor", *PICTURES} & set(options):
        folder = Path(request.address.partition("?")[0]).parent.as_posix()
        raise ModelError(
            f"{beside[0]} lies beside the model, and the URI does not name it.",
            where=request.uri,
            remedy=f"write &processor={folder}: the gate compares the files that a URI names with the base branch's",
        )


def _libraries(options: Mapping[str, str]) -> dict[str, str]:
    more = ("transformers", "tokenizers", "torchvision") if "processor" in options else ()
    return versions("onnxruntime", "pillow", "numpy", *more)


def _classifier(request: Request, paths: Mapping[str, Path], options: Mapping[str, str]) -> FixedLabelModel:
    uri, libraries = request.uri, _libraries(options)
    names, declared = named_outputs(None, options.get("labels"), request.base, uri)
    outputs = Outputs(
        options.get("output"), chosen("scores", SCORES, options, uri), chosen("layout", LAYOUTS, options, uri)
    )
    _require_said(paths[MODEL], options, request)
    pictures = _prepared(options, option_folder(options, "processor", request.base), uri, tokenizer=False)
    files = HashedFiles.of({**paths, **pictures.configs})

    def load(_: Device) -> Loaded:
        files.require_unchanged()
        return Loaded(pictures.by(files), OnnxClassifier(files, outputs, len(names.own), uri))

    named = {"outputs": asdict(outputs), "pictures": pictures.settings, **declared}
    found = Checkpoint(
        fingerprint=digest({"files": files.fingerprint(), **named}),
        identity={"adapter": "onnx", "code": CODE_VERSION, "libraries": libraries},
        load=load,
        preprocessing=pictures.digest,
    )
    return FixedLabelModel(found, names, request)


def _detector(request: Request, paths: Mapping[str, Path], options: Mapping[str, str]) -> DetectorModel:
    uri, libraries = request.uri, _libraries(options)
    names, named = named_outputs(None, options.get("labels"), request.base, uri)
    if "processor" in options:
        raise ModelError(
            "a detector's pictures are prepared as the URI says, so that boxes can be placed on them.",
            where=uri,
            remedy="leave processor= out, and write &size=640 (stretched), or with &pad=114 (filled up, as YOLO does)",
        )
    pictures = PicturePreparation.of(options, uri)
    declared = DetectorOptions(
        boxes=str(chosen("boxes", BOXES, options, uri)),
        overlap=option_number(uri, "overlap", options.get("overlap", str(OVERLAP)), 0, 1, whole=False),
        output=options.get("output"),
        layout=chosen("layout", LAYOUTS, options, uri),
    )
    files, shown, classes = HashedFiles.of(paths), asdict(pictures), dict(enumerate(names.own))

    def load(_: Device) -> OnnxDetector:
        files.require_unchanged()
        return OnnxDetector(files, classes, pictures, declared, uri)

    found = Checkpoint(
        fingerprint=digest({"files": files.fingerprint(), "said": asdict(declared), "pictures": shown, **named}),
        identity={"adapter": "onnx", "code": CODE_VERSION, "libraries": {**libraries, **versions("torchvision")}},
        load=load,
        tokenizer=names_digest(classes),
        preprocessing=preprocessing_digest(adapter="onnx", pictures=shown),
    )
    return DetectorModel(found, classes, request)


def _towers(request: Request, paths: Mapping[str, Path], options: Mapping[str, str]) -> TwoTowers:
    uri, folder = request.uri, option_folder(options, "processor", request.base)
    if folder is None or "logit_scale" not in options:
        raise ModelError(
            "the URI does not say what cuts texts into tokens, or what multiplies cosines.",
            where=uri,
            remedy="write &processor=FOLDER, of the model's tokenizer, and &logit_scale=100 (CLIP's; of another model "
            "the exponential of its logit_scale)",
        )
    libraries = _libraries(options)
    text = resolve(options["text"], request.base)
    _require_onnx(text)
    declared = TowerOptions(
        image_output=options.get("output"),
        text_output=options.get("text_output"),
        length=int(option_number(uri, "length", options["length"], 1, LONGEST)) if "length" in options else None,
        scale=option_number(uri, "logit_scale", options["logit_scale"], 1e-6, 1e6, whole=False),
        bias=option_number(uri, "logit_bias", options.get("logit_bias", "0"), -1e6, 1e6, whole=False),
        layout=chosen("layout", LAYOUTS, options, uri),
    )
    pictures, words = _prepared(options, folder, uri, tokenizer=True), tokenizer_files(folder)
    of_text = {TEXT: text, **_data(TEXT_DATA, text, options, request.base)}
    files = HashedFiles.of({**paths, **of_text, **words, **pictures.configs})

    def load(_: Device) -> Encoder:
        files.require_unchanged()
        return OnnxTowers(files, declared, folder, uri).encoder(pictures.by(files))

    found = Checkpoint(
        fingerprint=digest({"files": files.fingerprint(), "said": asdict(declared), "pictures": pictures.settings}),
        identity={"adapter": "onnx", "code": CODE_VERSION, "libraries": libraries},
        load=load,
        tokenizer=tokenizer_digest(words.values(), adapter="onnx", length=declared.length),
        preprocessing=pictures.digest,
    )
    return TwoTowers(found, request)


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


def _data(role: str, model: Path, options: Mapping[str, str], base: Path) -> dict[str, Path]:
    """The file of weights that a URI names. Raises ModelError for one outside of the model's folder."""
    if role not in options:
        return {}
    path = resolve(options[role], base)
    require_file(path)
    _require_small(path)
    if not path.resolve().is_relative_to(model.resolve().parent):
        raise ModelError(
            "the weights are outside of the model's folder, where onnxruntime does not look for them.",
            where=str(path),
            remedy="keep both in one folder",
        )
    return {role: path}
