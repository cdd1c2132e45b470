"""A folder that transformers saved: what kind of model is in it, which files count, what cannot be trusted; and loading
from it: whole, of the right shape, without code of its own, and quietly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints.adapters import Adapter, merge_adapter, taken_adapter
from fairgate.models.checkpoints.advice import JUDGING, home_of, is_of_another, no_config, no_weights, other_type
from fairgate.models.checkpoints.closed import require_closed, require_known_parts
from fairgate.models.checkpoints.device import Device
from fairgate.models.checkpoints.encoder import naming
from fairgate.models.checkpoints.files import (
    IMAGE_CONFIGS,
    READING_FILES,
    TOKENIZER_FILES,
    HashedFiles,
    files_named,
    read_config,
    require_weights,
)

_WEIGHTS = "model.safetensors"
SHARDS = "model.safetensors.index.json"
GENERATION_CONFIG = "generation_config.json"
CONFIGS = (*IMAGE_CONFIGS, "tokenizer_config.json", "special_tokens_map.json")
VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model")
LOCAL = {"local_files_only": True, "trust_remote_code": False}


@dataclass(frozen=True, slots=True)
class TransformersFolder:
    """A folder that was found trustworthy, with its files hashed. `kind` is the `model_type` of its config. A `plain`
    one (`find_plain`) is opened by the library alone, in an isolated process."""

    path: Path
    kind: str
    config: Mapping[str, Any]
    weights: tuple[Path, ...]
    files: HashedFiles
    adapter: Adapter | None = None
    plain: bool = False

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 over roles and digests of the files, and of the adapter's where there is one."""
        return self.files.fingerprint(**({"adapter": self.adapter.files.fingerprint()} if self.adapter else {}))

    @property
    def packages(self) -> tuple[str, ...]:
        """What its adapter needs beside the libraries of its family."""
        return ("peft",) if self.adapter else ()

    @property
    def tokenizer_files(self) -> list[Path]:
        """Those that decide how text is cut; of a plain folder all that may, whatever they are called."""
        if not self.plain:
            return self.named(TOKENIZER_FILES)
        others = {"config.json", SHARDS, *IMAGE_CONFIGS}
        return [path for role, path in self.files.paths.items() if role not in others and path not in self.weights]

    def reading_as(self, other: TransformersFolder, *, tokenizer: bool, images: bool) -> TransformersFolder:
        """This folder's model with another plain one's tokenizer files, chat template and ends of texts, its image
        configs, or both."""
        swapped = set(IMAGE_CONFIGS) if images else set[str]()
        if tokenizer:
            swapped |= {GENERATION_CONFIG, *(path.name for folder in (self, other) for path in folder.tokenizer_files)}
        return replace(self, files=self.files.with_others(swapped, other.files))

    def named(self, names: Collection[str]) -> list[Path]:
        """Those of the files that have one of the names, such as TOKENIZER_FILES or IMAGE_CONFIGS."""
        return [path for name, path in self.files.paths.items() if name in names]


def find_folder(
    folder: Path,
    kinds: Sequence[str],
    *,
    use: str = "score",
    tokenizer: bool = True,
    images: bool = True,
    pickled: bool = False,
    scheme: str = "hf",
    processor: Path | None = None,
) -> TransformersFolder:
    """Look into a folder, refuse what cannot be trusted, and hash what is left. Nothing is loaded.

    Inside of `adapters.adapting`, an adapter goes with it, whose own tokenizer and image configs take the place of the
    folder's, as do those of `processor`, a folder that `judged_folder` has accepted. `kinds` are the model types that
    will do, `use` the verb for messages; `tokenizer` and `images` say whether it reads texts and pictures. With
    `pickled`, a `pytorch_model.bin` will do where there are no safetensors: it is read with `weights_only`. Raises
    ModelError.
    """
    config = require_type(folder, kinds, use, scheme)
    require_known_parts(config, str(folder / "config.json"))
    refuse_other_weights(folder, config)
    adapter = taken_adapter(folder)
    companions = companions_in(folder, adapter, processor)
    elsewhere = f"{scheme}:FOLDER?processor=FOLDER" if use in JUDGING else ""
    for path in (companions[name] for name in CONFIGS if name in companions):
        read_config(path)  # refuses code of its own, and names that lead elsewhere
    if images:
        require_companion(folder, companions, IMAGE_CONFIGS, elsewhere)
    if tokenizer:
        require_companion(folder, companions, VOCABULARIES, elsewhere)
    weights = weights_in(folder, pickled, scheme)
    own = files_named(folder, ("config.json", SHARDS))
    roles = {f"weights/{number}": path for number, path in enumerate(weights)}
    files = HashedFiles.of({**roles, **dict(sorted({**own, **companions}.items()))})
    return TransformersFolder(folder, str(config["model_type"]), config, tuple(weights), files, adapter)


def companions_in(folder: Path, adapter: Adapter | None, processor: Path | None) -> dict[str, Path]:
    """Tokenizer files and image configs by name: an adapter's own, all of a kind together, else the processor's, else
    the folder's. Raises ModelError for a processor's folder with neither."""
    found, places = dict[str, Path](), [adapter.path if adapter else None, processor, folder]
    if processor and not files_named(processor, READING_FILES):
        raise ModelError(
            "the folder after processor= holds no tokenizer and does not say how images are prepared.",
            where=str(processor),
            remedy="name the folder of the model that training began with, or save a processor into one: "
            "processor.save_pretrained(FOLDER)",
        )
    for names in (TOKENIZER_FILES, IMAGE_CONFIGS):
        found |= next(filter(None, (files_named(place, names) for place in places if place)), {})
    return found


def require_type(
    folder: Path,
    kinds: Sequence[str],
    use: str,
    scheme: str,
    closed: Callable[[Any, str, Collection[str]], None] = require_closed,
) -> dict[str, Any]:
    """The config of a folder, of one of these types of model. Raises ModelError for another type, also of another
    family, and as `read_config` does."""
    path = folder / "config.json"
    if not path.is_file():
        raise no_config(folder, scheme)
    home = home_of(folder)
    if home is not None and home.scheme == "timm" != scheme:
        raise other_type(folder, scheme, kinds, use)
    config = read_config(path, closed=closed)
    if config.get("model_type") not in kinds or (use in JUDGING and is_of_another(config, scheme)):
        raise other_type(folder, scheme, kinds, use)
    return config


def refuse_other_weights(folder: Path, config: Mapping[str, Any]) -> None:
    """Raises ModelError for a folder from which a library would load other weights than the model's own."""
    if (folder / "adapter_config.json").exists() or config.get("transformers_weights"):
        raise ModelError(
            "other weights than the model's own would be loaded (adapter_config.json, or 'transformers_weights' in "
            "config.json).",
            where=str(folder),
            remedy="an adapter is named by peft:ADAPTER?base=hf:MODEL; or merge it, and save that with save_pretrained",
        )


def require_companion(folder: Path, companions: Mapping[str, Path], names: Sequence[str], elsewhere: str = "") -> None:
    """Raises ModelError unless one of the names, IMAGE_CONFIGS or VOCABULARIES, is a companion of the folder's.
    `elsewhere` is a URI that names another folder for it."""
    if not set(names) & set(companions):
        lack = "holds no tokenizer" if names == VOCABULARIES else f"does not say how images are prepared ({names[0]})"
        instead = f"; or name a folder that has it: {elsewhere}" if elsewhere else ""
        raise ModelError(
            f"the folder {lack}.",
            where=str(companions.get("tokenizer_config.json", folder / "config.json").parent),
            remedy=f"save the model's processor or tokenizer into it: processor.save_pretrained(FOLDER){instead}",
        )


def weights_in(folder: Path, pickled: bool, scheme: str) -> list[Path]:
    """A folder's files of weights: safetensors, else, if `pickled` will do, `pytorch_model.bin`. Raises ModelError for
    none, and for one that is damaged."""
    found = []
    if (folder / _WEIGHTS).is_file():
        found = [folder / _WEIGHTS]
    elif (folder / SHARDS).is_file():
        found = shards_of(folder / SHARDS)
    elif pickled and (folder / "pytorch_model.bin").is_file():
        found = [folder / "pytorch_model.bin"]
    if not found:
        remedy = "save the model with transformers' save_pretrained, which writes safetensors"
        raise no_weights(folder, _WEIGHTS, remedy, scheme)
    for path in found:
        require_weights(path)
    return found


def shards_of(index: Path) -> list[Path]:
    """The safetensors files that an index names. Raises ModelError for files of another kind or folder."""
    shards = read_config(index).get("weight_map")
    named = sorted({str(name) for name in shards.values()}) if isinstance(shards, dict) else []
    if not named or not all(Path(name).name == name and name.endswith(".safetensors") for name in named):
        raise ModelError(
            "the index does not name safetensors shards of this folder.",
            where=str(index),
            remedy="save the model again with save_pretrained",
        )
    return [index.parent / name for name in named]


@contextlib.contextmanager
def loading(found: TransformersFolder) -> Iterator[Path]:
    """The folder to load from, which shows the hashed files alone.

    Quietly, and what transformers raises inside becomes a ModelError that names the model's own folder.
    """
    from transformers.utils import logging

    with found.files.closed() as folder, naming(str(found.path), "be loaded", folder), silenced(logging):
        yield folder


def load_model(model_class: Any, found: TransformersFolder, *, unused: tuple[str, ...] = (), **parts: Any) -> Any:
    """The model in float32 on the CPU, in evaluation mode. Raises ModelError: wrong or missing tensors, NaN, misfits.

    `parts` go to the model's constructor (`add_pooling_layer=False`); weights whose names start with one of `unused`
    may be there.
    """
    import torch

    from fairgate.models.checkpoints.weights import read_state_dict, require_finite, require_loaded, require_stored

    with loading(found) as folder, torch.random.fork_rng(devices=[]):
        with torch.device("meta"):
            described = model_class(model_class.config_class.from_pretrained(folder, **LOCAL), **parts)
        require_stored(described, found.weights, str(found.path))
        options: dict[str, Any] = {"ignore_mismatched_sizes": True, "output_loading_info": True, **parts}
        if found.weights[0].suffix == ".safetensors":
            model, report = model_class.from_pretrained(folder, use_safetensors=True, **options, **LOCAL)
        else:
            config = model_class.config_class.from_pretrained(folder, **LOCAL)
            state = read_state_dict(found.weights[0])
            model, report = model_class.from_pretrained(None, config=config, state_dict=state, **options)
    require_loaded(report, str(found.path), f"the {found.kind} of its config.json", unused)
    require_finite(model.state_dict(), str(found.path))
    model = model.float().eval()
    if found.adapter:
        merge_adapter(model, found.adapter)
    return model


def load_parts(
    class_name: str,
    found: TransformersFolder,
    device: Device,
    *,
    images: bool = True,
    texts: bool = True,
    unused: tuple[str, ...] = (),
    casting: bool = False,
    **parts: Any,
) -> tuple[Any, Any, Any]:
    """The model of a class of transformers on a device, as `load_model` loads it, its image processor and its
    tokenizer; None for one that it does without. With `casting`, it runs in the device's precision alone, and its
    weights are cast once. Raises ModelError."""
    import transformers

    from fairgate.models.checkpoints.torch_runtime import cast_once

    model_class = getattr(transformers, class_name, None)
    if model_class is None:
        raise ModelError(
            f"the installed transformers ({transformers.__version__}) does not know a {found.kind}.",
            where=str(found.path),
            remedy="install a newer one: `pip install --upgrade transformers`",
        )
    found.files.require_unchanged()
    model = load_model(model_class, found, unused=unused, **parts)
    model = (cast_once(model, device) if casting else model).to(device.name)
    with loading(found) as folder:
        processor = transformers.AutoImageProcessor.from_pretrained(folder, **LOCAL) if images else None
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **LOCAL) if texts else None
    return model, processor, tokenizer


@contextlib.contextmanager
def silenced(*libraries: Any) -> Iterator[None]:
    """No progress bars and no loading reports on standard error: what a report says is raised as an error.

    `libraries` are the `utils.logging` modules of transformers and diffusers.
    """
    before = [(library, library.get_verbosity(), library.is_progress_bar_enabled()) for library in libraries]
    for library in libraries:
        library.set_verbosity_error()
        library.disable_progress_bar()
    try:
        yield
    finally:
        for library, level, bars in before:
            library.set_verbosity(level)
            if bars:
                library.enable_progress_bar()
