"""`timm:FOLDER[?labels=FILE]`: a classifier as timm saves it for the hub: config.json (architecture, num_classes,
label_names, pretrained_cfg) and model.safetensors. The architecture is one that the installed timm has.

`timm:FILE?labels=FILE[&key=state_dict_ema]`: a checkpoint of timm's train.py (`model_best.pth.tar`), whose arguments
take the place of config.json. Pictures are prepared as `resolve_data_config(args)` says. `&head=PLACE:LAYERS`: other
layers than the architecture's (own_head.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.cache import EmbeddingCache, remembered
from fairgate.models.classifiers.fixed_labels import FixedLabelFiles, FixedLabelModel, Loaded, keyed_note, loaded_into
from fairgate.models.classifiers.label_names import in_order, named_outputs
from fairgate.models.classifiers.own_head import OwnHead
from fairgate.models.contract import Capability, Request, register
from fairgate.models.family import FolderFamily
from fairgate.models.input_digests import preprocessing_digest

CODE_VERSION = 2  # raise it when this adapter, or what it calls, gives other outputs for the same files
LIBRARIES = ("timm", "torch", "torchvision", "pillow")
CONFIG, WEIGHTS = "config.json", "model.safetensors"
_SIZES = frozenset(
    {
        *("img_size", "in_chans", "patch_size", "embed_dim", "depth", "depths", "dims", "num_heads", "mlp_ratio"),
        *("window_size", "init_values", "class_token", "reg_tokens", "qkv_bias", "dynamic_img_size"),
        *("no_embed_class", "drop_rate", "drop_path_rate", "output_stride", "embed_dims", "channels", "layers"),
        *("stem_width", "base_width", "bn_eps"),
    }
)
"""Arguments of architectures that are numbers: others could name a file, a hub or code."""
_FILES = (*checkpoints.WEIGHTS, ".tar")
MAX_SIDE, _LARGEST, _LONGEST = 2048, 8192, 16
_POOLING = re.compile(r"[a-z_]{0,20}")
_NO_WEIGHTS_OF_ITS_OWN = ("custom_load", "label_offset", "state_dict")
"""Settings of `pretrained_cfg` by which timm would load other weights than those of the file, or change them."""
_BUILT_WITH = {"global_pool": "gp", "bn_eps": "bn_eps"}
"""Arguments of train.py that an architecture is built with, beside its `model_kwargs`."""
_OTHER_PICTURES = ("input_img_mode", "naflex_loader", "in_chans")
_INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos")
_PICTURES = ("input_size", "interpolation", "mean", "std", "crop_pct", "crop_mode")


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
        config, files = (_of_training if trained else _of_folder)(path, request.cache)
        where = str(files.paths.get(CONFIG, path))
        architecture = config["architecture"].partition(".")[0]
        arguments = {**_arguments(config, where), "num_classes": config.get("num_classes")}
        names, said = named_outputs(_labels(config, where), options.get("labels"), request.base, where)
        if config.get("num_classes") != len(names.own):
            raise ModelError(
                f"{len(names.own)} labels are named, and the model has {str(config.get('num_classes'))[:40]} outputs.",
                where=where,
                remedy="name all outputs, in their order: `label_names` in config.json, or ?labels=FILE",
            )
        adapter = checkpoints.taken_weights(path)
        added = {"adapter": adapter.files.fingerprint()} if adapter else {}
        libraries = checkpoints.versions(*LIBRARIES, *(adapter.packages if adapter else ()))
        pictures = _pictures(config, where)
        cfg, named = (
            (None, config["architecture"]) if trained else (_pretrained_cfg(config, where, request.cache), architecture)
        )
        build = partial(_built, named, arguments, cfg, config.get("global_pool"), where)
        key, head = options.get("key"), OwnHead.of(options.get("head"), request.uri)
        said |= {name: options[name] for name in ("key", "head") if name in options}
        return FixedLabelModel(
            FixedLabelFiles(
                fingerprint=digest({"files": files.fingerprint(**added), **said}),
                identity={"adapter": "timm", "code": CODE_VERSION, "libraries": libraries},
                heads={"": names},
                load=partial(_load, files, named, build, pictures, adapter=adapter, key=key, head=head),
                preprocessing=preprocessing_digest(adapter="timm", architecture=architecture, **pictures),
            ),
            request,
            keyed_note(key),
        )


def _of_folder(folder: Path, cache: EmbeddingCache | None) -> tuple[dict[str, Any], checkpoints.HashedFiles]:
    """The config of a folder, and its files."""
    where = folder / CONFIG
    if not where.is_file():
        raise checkpoints.no_config(folder, "timm")
    config = checkpoints.read_config(where, named=("architecture", "model_args"))
    named = {**_code(), "architecture": config.get("architecture")}
    remembered(cache, named, lambda: _architecture(config, str(where)))  # a folder of another family is told first
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
    named = {**_code(), "files": files.fingerprint()}
    return remembered(cache, named, lambda: _config_of_training(file, files)), files


def _code() -> dict[str, Any]:
    return {"adapter": "timm", "code": CODE_VERSION, "libraries": checkpoints.versions(*LIBRARIES)}


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
    given = args.get("model_kwargs") or {}
    given = dict(given) if isinstance(given, dict) else {"model_kwargs": given}
    given |= {name: args[key] for name, key in _BUILT_WITH.items() if args.get(key) is not None}
    config = {"architecture": args["model"], "num_classes": args.get("num_classes"), "model_args": given}
    return {**config, "pretrained_cfg": _pictures_of_training(args, str(file))}


def _pictures_of_training(args: Mapping[str, Any], where: str) -> dict[str, Any]:
    from timm.data import config
    from timm.models import get_pretrained_cfg

    _architecture({"architecture": args["model"]}, where)
    resolve: Any = cast(Any, config).resolve_data_config
    try:
        made = resolve(args, pretrained_cfg=cast(Any, get_pretrained_cfg(args["model"])).to_dict())
        return {name: list(value) if isinstance(value, tuple) else value for name, value in made.items()}
    except (AssertionError, AttributeError, RuntimeError, TypeError) as error:  # of an unknown tag, and odd arguments
        raise ModelError(
            f"timm knows no pictures of '{args['model'][:80]}' with the training's arguments.",
            where=where,
            remedy="save the model with timm.models.save_for_hf, and name the folder",
        ) from error


def _architecture(config: Mapping[str, Any], where: str) -> str:
    """The name of an architecture of the installed timm, without the tag of its weights. Raises ModelError."""
    said = config.get("architecture")
    if not isinstance(said, str) or not re.fullmatch(r"[a-z0-9_]{1,80}(\.[\w-]{1,80})?", said):
        raise ModelError(
            f"the config names no architecture of timm ('{str(said)[:80]}').",
            where=where,
            remedy=checkpoints.right_uri(Path(where).parent, "timm")
            or "save the model with timm.models.push_to_hf_hub's save_for_hf",
        )
    import timm

    name = said.partition(".")[0]
    if not timm.is_model(name):
        raise ModelError(
            f"the installed timm ({timm.__version__}) has no architecture '{name}'.",
            where=where,
            remedy=did_you_mean(name, timm.list_models()) or "`timm.list_models()` lists what it has",
        )
    return name


def _arguments(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`model_args`, of known names and plain numbers, and the pooling. Raises ModelError for any other."""
    said = config.get("model_args") or {}
    found = dict(said) if isinstance(said, dict) else {"model_args": said}
    found.pop("num_classes", None)
    pooling = found.pop("global_pool", None)
    for name, value in found.items():
        numbers = value if isinstance(value, list) else [value]
        if name == "img_size" and any(isinstance(one, int | float) and one > MAX_SIDE for one in numbers):
            raise ModelError(
                f"img_size is {str(value)[:40]}; pictures of at most {MAX_SIDE:,} pixels a side are read.",
                where=where,
                remedy="check model_args in the config: no known model is that large",
            )
        if name not in _SIZES or not _plain_numbers(numbers):
            raise ModelError(
                f"the config gives the architecture '{name}' as {str(value)[:80]!r}, which fairgate does not pass on.",
                where=where,
                remedy=f"arguments that it passes on, as at most {_LONGEST} numbers of at most {_LARGEST:,}: "
                f"global_pool, {', '.join(sorted(_SIZES))}",
            )
    if pooling is None:
        return found
    if not isinstance(pooling, str) or not _POOLING.fullmatch(pooling):
        raise ModelError(f"global_pool is {str(pooling)[:40]!r}.", where=where, remedy="name a pooling, such as avg")
    return {**found, "global_pool": pooling}


def _plain_numbers(numbers: Sequence[Any]) -> bool:
    """Whether they are few, and each is a finite number that is no larger than published models have."""
    return len(numbers) <= _LONGEST and all(
        isinstance(one, int | float) and math.isfinite(one) and abs(one) <= _LARGEST for one in numbers
    )


def _labels(config: Mapping[str, Any], where: str) -> list[str] | None:
    """`label_names`, a list or an object by the number of the output. Raises ModelError for a gap."""
    said = config.get("label_names")
    if isinstance(said, dict):
        said = in_order(said)
        if said is None:
            raise ModelError(
                "`label_names` does not name every output (keys 0, 1, ...).", where=where, remedy="name all outputs"
            )
    if said is not None and not isinstance(said, list):
        raise ModelError("`label_names` is no list of labels.", where=where, remedy="name all outputs, in their order")
    return said


def _pictures(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """How pictures are prepared, from `pretrained_cfg` alone. Raises ModelError where it does not say all of it."""
    said = config.get("pretrained_cfg")
    found = {name: said[name] for name in _PICTURES if name in said} if isinstance(said, dict) else {}
    size, means = found.get("input_size"), (found.get("mean"), found.get("std"))
    triples = all(
        isinstance(one, list) and len(one) == 3 and all(isinstance(x, int | float) for x in one) for one in means
    )
    sides = size[1:] if isinstance(size, list) and len(size) == 3 else []
    if not triples or not sides or not all(isinstance(side, int) and 1 <= side <= 2048 for side in sides):
        raise ModelError(
            "`pretrained_cfg` does not say how pictures are prepared: input_size (of at most 2,048), mean and std.",
            where=where,
            remedy="save the model with timm's save_for_hf",
        )
    scale = found.get("crop_pct", 1.0)
    if not isinstance(scale, int | float) or not 0.2 <= scale <= 1.0:
        raise ModelError(f"crop_pct is {str(scale)[:40]!r}.", where=where, remedy="give a share from 0.2 to 1")
    pictures = {"crop_mode": "center", "interpolation": "bicubic", **found, "input_size": list(_side(config))}
    if pictures["interpolation"] not in _INTERPOLATIONS:  # timm would draw a "random" one for each picture
        raise ModelError(
            f"pictures are resized by {str(pictures['interpolation'])[:40]!r}.",
            where=where,
            remedy=f"name one of: {', '.join(_INTERPOLATIONS)}",
        )
    return pictures


def _pretrained_cfg(config: Mapping[str, Any], where: str, cache: EmbeddingCache | None) -> dict[str, Any]:
    """What timm takes defaults of the architecture from. Raises ModelError for keys that timm does not know, and for
    those by which it would load other weights."""
    cfg, known = config["pretrained_cfg"], remembered(cache, {**_code(), "names": "pretrained_cfg"}, _names_of_timm)
    refused = [name for name in cfg if name not in known or (name in _NO_WEIGHTS_OF_ITS_OWN and cfg[name])]
    size = _side(config)
    if refused or size[0] != 3:
        raise ModelError(
            f"`pretrained_cfg` sets what is not loaded as timm would: {', '.join(refused)[:200] or 'input_size'}.",
            where=where,
            remedy="remove these keys, or save the model again with timm's save_for_hf",
        )
    return {"input_size": size, "fixed_input_size": _is_fixed(config), "num_classes": config.get("num_classes")}


def _names_of_timm() -> list[str]:
    import dataclasses

    from timm.models import PretrainedCfg

    return [field.name for field in dataclasses.fields(PretrainedCfg)]


def _is_fixed(config: Mapping[str, Any]) -> bool:
    """Whether the architecture takes pictures of the size alone that it is built for."""
    arguments = config.get("model_args") or {}
    return bool(config["pretrained_cfg"].get("fixed_input_size")) and not arguments.get("dynamic_img_size")


def _side(config: Mapping[str, Any]) -> tuple[int, ...]:
    """Channels, height and width of a picture, as timm finds them: where the size is fixed, `img_size` decides."""
    size = (config.get("model_args") or {}).get("img_size")
    if size is None or not _is_fixed(config):
        return tuple(config["pretrained_cfg"]["input_size"])
    return (3, *(size if isinstance(size, list) else [size, size]))


def _built(
    architecture: str, arguments: Mapping[str, Any], cfg: Mapping[str, Any] | None, pooling: Any, where: str
) -> Any:
    """An architecture as `timm.create_model("local-dir:FOLDER")` builds it. `pooling` is what the config's top level
    notes of it: timm writes that and does not read it, so that it may not be another one. Without a `cfg`, as train.py
    builds it: with that of the architecture and its tag."""
    import timm
    from timm.models._input import _get_global_pool

    own = None if cfg is None else {"architecture": architecture, **cfg}
    model = timm.create_model(architecture, pretrained=False, pretrained_cfg=own, **arguments)
    if pooling and pooling != _get_global_pool(model):
        raise ModelError(
            f"the config notes global_pool {str(pooling)[:40]!r}, and timm, which reads model_args alone, builds "
            f"{_get_global_pool(model)!r}.",
            where=where,
            remedy='write "model_args": {"global_pool": ...}, or remove the note',
        )
    return model


def _load(
    files: checkpoints.HashedFiles,
    architecture: str,
    build: Callable[[], Any],
    pictures: Mapping[str, Any],
    device: checkpoints.Device,
    **how: Any,
) -> Loaded:
    from timm.data.transforms_factory import create_transform

    transform = create_transform(**{**pictures, "input_size": tuple(pictures["input_size"])}, is_training=False)
    return loaded_into(build, files, transform, device, f"timm's {architecture}", **how)
