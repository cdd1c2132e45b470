"""`timm:FOLDER[?labels=FILE]`: a classifier as timm saves it for the hub: config.json (architecture, num_classes,
label_names, pretrained_cfg) and model.safetensors. The architecture is one that the installed timm has.

`timm:FILE?labels=FILE[&key=state_dict_ema]`: a checkpoint of timm's train.py (`model_best.pth.tar`), whose arguments
take the place of config.json. Pictures are prepared as `resolve_data_config(args)` says. `&head=PLACE:LAYERS`: other
layers than the architecture's (own_head.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.ground.hashing import digest
from fairgate.ground.validation_words import fault_words
from fairgate.models import checkpoints
from fairgate.models.cache import EmbeddingCache, remembered
from fairgate.models.classifiers.fixed_labels import FixedLabelModel, Loaded, keyed_note, loaded_into
from fairgate.models.classifiers.label_names import in_order, named_outputs
from fairgate.models.classifiers.own_head import HINT
from fairgate.models.contract import Capability, Request, register
from fairgate.models.family import FolderFamily
from fairgate.models.input_digests import preprocessing_digest

CODE_VERSION = 2  # raise it when this adapter, or what it calls, gives other outputs for the same files
LIBRARIES = ("timm", "torch", "torchvision", "pillow")
CONFIG, WEIGHTS = "config.json", "model.safetensors"
_FILES = (*checkpoints.WEIGHTS, ".tar")
MAX_SIDE, _LARGEST, _LONGEST = 2048, 8192, 16
_BUILT_WITH = {"global_pool": "gp", "bn_eps": "bn_eps"}
"""Arguments of train.py that an architecture is built with, beside its `model_kwargs`."""
_OTHER_PICTURES = ("input_img_mode", "naflex_loader", "in_chans")


def _plain_numbers(value: object) -> object:
    """An argument of an architecture: a text could name a file, a hub or code."""
    numbers = value if isinstance(value, list) else [value]
    if len(numbers) > _LONGEST or not all(
        isinstance(each, int | float) and math.isfinite(each) and abs(each) <= _LARGEST for each in numbers
    ):
        raise ValueError(f"fairgate passes on numbers alone, at most {_LONGEST} of at most {_LARGEST:,}")
    return value


def _in_order(names: object) -> object:
    """`label_names`, also as an object by the number of the output."""
    listed = in_order(names) if isinstance(names, dict) else names
    if listed is None and names is not None:
        raise ValueError("it does not name every output (keys 0, 1, ...)")
    return listed


_TWO_SIDES = BeforeValidator(lambda size: (size, size) if isinstance(size, int | float | str) else size)
_Side = Annotated[int, Field(strict=True, ge=1, le=MAX_SIDE)]
_Three = tuple[float, float, float]


class _Arguments(BaseModel):
    """`model_args`: of any name, since the library knows which it takes."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[Any, AfterValidator(_plain_numbers)]] = Field(init=False)

    img_size: Annotated[tuple[_Side, _Side] | None, _TWO_SIDES] = None
    dynamic_img_size: bool = False
    global_pool: Annotated[str, Field(pattern=r"^[a-z_]{0,20}$")] | None = None


class _Pictures(BaseModel):
    """`pretrained_cfg`: how pictures are prepared. By what is None here, timm would load other weights than those of
    the file, or change them; it would draw a "random" interpolation for each picture."""

    input_size: tuple[Literal[3], _Side, _Side]
    mean: _Three
    std: _Three
    crop_pct: Annotated[float, Field(ge=0.2, le=1)] | None = None
    crop_mode: Literal["center", "squash", "border"] = "center"
    interpolation: Literal["nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"] = "bicubic"
    fixed_input_size: bool = False
    custom_load: Literal[False] | None = None
    label_offset: Literal[0] | None = None
    state_dict: None = None


class _Config(BaseModel):
    """What is read of config.json, or of a training's arguments."""

    architecture: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,80}(\.[\w-]{1,80})?$")]
    num_classes: int
    label_names: Annotated[list[str] | None, BeforeValidator(_in_order)] = None
    model_args: _Arguments = _Arguments()
    pretrained_cfg: _Pictures

    @classmethod
    def of(cls, config: Mapping[str, Any], where: str) -> _Config:
        """Raises ModelError for what is missing, and for what is not passed on to timm."""
        try:
            return cls.model_validate({name: value for name, value in config.items() if value is not None})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ModelError(
                f"{'.'.join(map(str, first['loc']))} in the config: {fault_words(first)}.",
                where=where,
                remedy=checkpoints.right_uri(Path(where).parent, "timm")
                or "save the model with timm.models.save_for_hf, and name the folder; or judge a table of its answers, "
                "labels:FILE",
            ) from error

    @property
    def size(self) -> tuple[int, ...]:
        """Channels, height and width of a picture, as timm finds them: if the size is fixed, `img_size` decides."""
        side = self.model_args.img_size
        if side is None or not self.pretrained_cfg.fixed_input_size or self.model_args.dynamic_img_size:
            return self.pretrained_cfg.input_size
        return (3, *side)

    @property
    def pictures(self) -> dict[str, Any]:
        """What timm's transform is made by."""
        settings = self.pretrained_cfg.model_dump(
            include={"mean", "std", "crop_pct", "crop_mode", "interpolation"}, exclude_none=True
        )
        return {**settings, "input_size": self.size}


@register
class TimmClassifiers(FolderFamily):
    """Folders, and checkpoints of a training, that timm saved."""

    scheme: ClassVar[str] = "timm"
    forms: ClassVar[tuple[str, ...]] = ("timm:FOLDER", "timm:FILE?labels=FILE")
    capabilities: ClassVar[frozenset[Capability]] = FixedLabelModel.capabilities
    files, folders = ("labels",), ()

    def open(self, request: Request) -> FixedLabelModel:
        """Find and hash a folder or file. Raises ModelError; loading waits until outputs are needed."""
        address, options = checkpoints.split_options(request.uri, request.address, ("labels", "key", "head"))
        path = checkpoints.resolve(address, request.base)
        trained = path.is_file() or (path.suffix in _FILES and not path.is_dir())
        path = path if trained else checkpoints.judged_folder(address, request.base)
        read, files = _of_training(path, request.cache) if trained else _of_folder(path)
        where = str(files.paths.get(CONFIG, path))
        config = _Config.of(read, where)
        architecture = config.architecture.partition(".")[0]
        arguments = {**(read.get("model_args") or {}), "num_classes": config.num_classes}
        names, declared = named_outputs(
            config.label_names, options.get("labels"), request.base, where, config.num_classes
        )
        adapter = checkpoints.taken_weights(path)
        added = {"adapter": adapter.files.fingerprint()} if adapter else {}
        libraries = checkpoints.versions(*LIBRARIES, *(["peft"] if adapter else []))
        # of a training, timm has the settings of the architecture's tag
        named, cfg = (config.architecture, None) if trained else (architecture, dict(read["pretrained_cfg"]))
        chosen: dict[str, Any] = {name: options.get(name) for name in ("key", "head")}
        declared |= {name: text for name, text in chosen.items() if text}
        return FixedLabelModel(
            checkpoints.Checkpoint(
                fingerprint=digest({"files": files.fingerprint(**added), **declared}),
                identity={"adapter": "timm", "code": CODE_VERSION, "libraries": libraries},
                load=partial(_load, files, named, arguments, cfg, config.pictures, adapter=adapter, **chosen),
                preprocessing=preprocessing_digest(adapter="timm", architecture=architecture, **config.pictures),
            ),
            names,
            request,
            keyed_note(chosen["key"]),
        )


def _of_folder(folder: Path) -> tuple[dict[str, Any], checkpoints.HashedFiles]:
    """The config of a folder, and its files."""
    where = folder / CONFIG
    if not where.is_file():
        raise checkpoints.no_config(folder, "timm")
    config = checkpoints.read_config(where, named=("architecture", "model_args"))
    _Config.of(config, str(where))  # a folder of another family is told first
    if not (folder / WEIGHTS).is_file():
        raise checkpoints.no_weights(
            folder, WEIGHTS, "save it with timm's save_for_hf, which writes one safetensors file"
        )
    checkpoints.require_weights(folder / WEIGHTS)
    return config, checkpoints.HashedFiles.of({"weights": folder / WEIGHTS, CONFIG: where})


def _of_training(file: Path, cache: EmbeddingCache | None) -> tuple[dict[str, Any], checkpoints.HashedFiles]:
    """What train.py builds and prepares, as a config, and the file. Raises ModelError for a file without its
    arguments, and for arguments by which a picture is read otherwise."""
    checkpoints.require_weights(file)
    files = checkpoints.HashedFiles.of({"weights": file})
    code = {"adapter": "timm", "code": CODE_VERSION, "libraries": checkpoints.versions(*LIBRARIES)}
    decided_by = {**code, "files": files.fingerprint()}
    return remembered(cache, decided_by, lambda: _config_of_training(file, files)), files


def _config_of_training(file: Path, files: checkpoints.HashedFiles) -> dict[str, Any]:
    args = checkpoints.training_args(file)
    files.require_unchanged()
    other = [name for name in _OTHER_PICTURES if args.get(name) not in (None, False, "", "RGB", 3)]
    if other or not isinstance(args.get("model"), str):
        raise ModelError(
            f"the training took pictures that are not prepared here ({', '.join(other)})."
            if other
            else "the file has no arguments of timm's train.py, which name the architecture.",
            where=str(file),
            remedy=checkpoints.converted(file) or "save the model with timm.models.save_for_hf, and name the folder",
        )
    architecture, where = args["model"], str(file)
    _require_known(architecture, where)
    from timm.data import config
    from timm.models import get_pretrained_cfg

    resolve: Any = cast(Any, config).resolve_data_config
    with checkpoints.naming(where, "be built with the training's arguments"):  # an unknown tag, an odd size
        given = {**(args.get("model_kwargs") or {})}
        given |= {name: args[key] for name, key in _BUILT_WITH.items() if args.get(key) is not None}
        pictures = resolve(args, pretrained_cfg=cast(Any, get_pretrained_cfg(architecture)).to_dict())
    named = {"architecture": architecture, "num_classes": args.get("num_classes")}
    return {**named, "model_args": given, "pretrained_cfg": pictures}


def _require_known(architecture: str, where: str) -> None:
    """Raises ModelError for an architecture that the installed timm does not have."""
    import timm

    name = architecture.partition(".")[0]
    if not timm.is_model(name):
        raise ModelError(
            f"the installed timm ({timm.__version__}) has no architecture '{name}'.",
            where=where,
            remedy=did_you_mean(name, timm.list_models()) or "`timm.list_models()` lists what it has",
        )


def _load(
    files: checkpoints.HashedFiles,
    architecture: str,
    arguments: Mapping[str, Any],
    cfg: Mapping[str, Any] | None,
    pictures: Mapping[str, Any],
    device: checkpoints.Device,
    **how: Any,
) -> Loaded:
    """As `timm.create_model("local-dir:FOLDER")` builds it; without a `cfg`, as train.py does: with that of
    the architecture and its tag."""
    import timm
    from timm.data.transforms_factory import create_transform

    _require_known(architecture, str(files.paths.get(CONFIG, files.paths["weights"])))
    own = None if cfg is None else {"architecture": architecture, **cfg}
    build = partial(timm.create_model, architecture, pretrained=False, pretrained_cfg=own, **arguments)
    transform = create_transform(**pictures, is_training=False)
    return loaded_into(build, files, transform, device, f"timm's {architecture}{'' if how['head'] else HINT}", **how)
