"""A folder that transformers saved: what kind of model is in it, which files count, what cannot be trusted; and loading
from it: whole, of the right shape, without code of its own, and quietly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.checkpoints.files import TOKENIZER_FILES, HashedFiles, read_config, require_weights
from fairgate.errors import ModelError, did_you_mean

_WEIGHTS = "model.safetensors"
_SHARDS = "model.safetensors.index.json"
_PICKLED = "pytorch_model.bin"
IMAGE_CONFIGS = ("preprocessor_config.json", "processor_config.json")
_CONFIGS = (*IMAGE_CONFIGS, "tokenizer_config.json")
LOCAL = {"local_files_only": True, "trust_remote_code": False}
_OLD_BUFFERS = ("position_ids",)  # transformers kept it in checkpoints before 4.31


@dataclass(frozen=True, slots=True)
class TransformersFolder:
    """A folder that was found trustworthy, with its files hashed. `kind` is the `model_type` of its config."""

    path: Path
    kind: str
    config: Mapping[str, Any]
    weights: tuple[Path, ...]
    files: HashedFiles

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 over roles and digests of the files."""
        return self.files.fingerprint()


def find_folder(
    folder: Path, kinds: Sequence[str], *, use: str = "score", tokenizer: bool = True, pickled: bool = False
) -> TransformersFolder:
    """Look into a folder, refuse what cannot be trusted, and hash what is left. Nothing is loaded.

    `kinds` are the model types that will do, `use` the verb for messages. With `pickled`, a `pytorch_model.bin` will do
    where there are no safetensors: it is read with `weights_only`. Raises ModelError.
    """
    config = _require_config(folder, kinds, use)
    _require_companions(folder, tokenizer)
    weights = _weights_in(folder, pickled)
    for path in weights:
        require_weights(path)
    counted = TOKENIZER_FILES | {"config.json", _SHARDS, *_CONFIGS}
    others = {path.name: path for path in sorted(folder.iterdir()) if path.name in counted}
    roles = {f"weights/{number}": path for number, path in enumerate(weights)}
    files = HashedFiles.of({**roles, **others})
    return TransformersFolder(folder, str(config["model_type"]), config, tuple(weights), files)


def _require_config(folder: Path, kinds: Sequence[str], use: str) -> dict[str, Any]:
    if not (folder / "config.json").is_file():
        raise ModelError(
            "the folder holds no config.json.",
            where=str(folder),
            remedy="save it with model.save_pretrained(FOLDER); a folder of open_clip is open_clip:local-dir:FOLDER",
        )
    config = read_config(folder / "config.json")
    kind = config.get("model_type")
    if kind not in kinds:
        raise ModelError(
            f"the model is of type '{kind}', which the hf: adapter does not {use}.",
            where=str(folder / "config.json"),
            remedy=did_you_mean(str(kind), kinds) or f"types it knows: {', '.join(kinds)}",
        )
    if (folder / "adapter_config.json").exists() or config.get("transformers_weights"):
        raise ModelError(
            "transformers would load other weights than model.safetensors here (adapter_config.json, or "
            "'transformers_weights' in config.json).",
            where=str(folder),
            remedy="merge the adapter into the model, and save that with save_pretrained",
        )
    return config


def _require_companions(folder: Path, tokenizer: bool) -> None:
    there = [name for name in _CONFIGS if (folder / name).is_file()]
    for name in (*there, "special_tokens_map.json"):
        if (folder / name).is_file():
            read_config(folder / name)  # refuses code of its own, and names that lead elsewhere
    if not {"preprocessor_config.json", "processor_config.json"} & set(there):
        raise ModelError(
            "the folder does not say how images are prepared (preprocessor_config.json).",
            where=str(folder),
            remedy="save the model's processor into it: processor.save_pretrained(FOLDER)",
        )
    vocabularies = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model")
    if tokenizer and not any((folder / name).is_file() for name in vocabularies):
        raise ModelError(
            "the folder holds no tokenizer.",
            where=str(folder),
            remedy="save the model's tokenizer into it: tokenizer.save_pretrained(FOLDER)",
        )


def _weights_in(folder: Path, pickled: bool) -> list[Path]:
    if (folder / _WEIGHTS).is_file():
        return [folder / _WEIGHTS]
    if (folder / _SHARDS).is_file():
        shards = read_config(folder / _SHARDS).get("weight_map")
        named = sorted({str(name) for name in shards.values()}) if isinstance(shards, dict) else []
        if named and all(Path(name).name == name and name.endswith(".safetensors") for name in named):
            return [folder / name for name in named]
        raise ModelError(
            "the index does not name safetensors shards of this folder.",
            where=str(folder / _SHARDS),
            remedy="save the model again with save_pretrained",
        )
    if pickled and (folder / _PICKLED).is_file():
        return [folder / _PICKLED]
    others = [path.name for path in folder.glob("*.bin")]
    raise ModelError(
        f"the folder holds no {_WEIGHTS}" + (f", only pickled weights ({', '.join(others)})." if others else "."),
        where=str(folder),
        remedy="save the model with transformers' save_pretrained, which writes safetensors",
    )


@contextlib.contextmanager
def loading(found: TransformersFolder) -> Iterator[Path]:
    """The folder to load from, which shows the hashed files alone.

    Quietly, and what transformers raises inside becomes a ModelError that names the model's own folder.
    """
    from huggingface_hub import errors as hub_errors

    unfit = (  # what transformers raises for files that do not fit together
        *(OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ImportError),
        *(ArithmeticError, AssertionError, getattr(hub_errors, "StrictDataclassError", OSError)),  # since hub 0.33
    )
    with found.files.closed() as folder:
        try:
            with _quiet():
                yield folder
        except unfit as error:
            raise _unloadable(
                found, f"{type(error).__name__}: {error}".replace(str(folder), str(found.path))
            ) from error


def _unloadable(found: TransformersFolder, reason: str) -> ModelError:
    return ModelError(
        f"transformers could not load the folder ({reason}).",
        where=str(found.path),
        remedy="save model, processor and tokenizer into it again with save_pretrained",
    )


def load_model(model_class: Any, found: TransformersFolder, *, unused: tuple[str, ...] = (), **parts: Any) -> Any:
    """The model in float32 on the CPU, in evaluation mode. Raises ModelError: wrong or missing tensors, NaN, misfits.

    `parts` go to the model's constructor (`add_pooling_layer=False`); weights whose names start with one of `unused`
    may be there.
    """
    import torch

    from fairgate.checkpoints.weights import read_state_dict, require_finite

    with loading(found) as folder, torch.random.fork_rng(devices=[]):
        _require_stored(model_class, found, folder, parts)
        options: dict[str, Any] = {"ignore_mismatched_sizes": True, "output_loading_info": True, **parts}
        if found.weights[0].suffix == ".safetensors":
            model, report = model_class.from_pretrained(folder, use_safetensors=True, **options, **LOCAL)
        else:
            config = model_class.config_class.from_pretrained(folder, **LOCAL)
            state = read_state_dict(found.weights[0])
            model, report = model_class.from_pretrained(None, config=config, state_dict=state, **options)
    _require_fit(report, str(found.path), f"the {found.kind} of its config.json", unused)
    require_finite(model.state_dict(), str(found.path))
    return model.float().eval()


def _require_stored(model_class: Any, found: TransformersFolder, folder: Path, parts: dict[str, Any]) -> None:
    """Raises ModelError for a config that describes more parameters than the folder's weights have bytes.

    transformers would make them up, at any size, before it says that they were missing.
    """
    import torch

    from fairgate.checkpoints.weights import misfit

    with torch.device("meta"):
        model = model_class(model_class.config_class.from_pretrained(folder, **LOCAL), **parts)
    described = sum(parameter.numel() for parameter in model.parameters())
    stored = sum(path.stat().st_size for path in found.weights)
    if described > stored:
        raise misfit(
            f"it has {described:,} parameters, and the weights {stored:,} bytes", str(found.path), "its config.json"
        )


def _require_fit(report: dict[str, Any], where: str, architecture: str, unused: tuple[str, ...]) -> None:
    """transformers fills what is missing or misshapen with random numbers and goes on; a gate must not."""
    from fairgate.checkpoints.weights import misfit, some

    shapes = [
        f"{name} (expected {tuple(expected)}, found {tuple(found)})"
        for name, found, expected in sorted(report["mismatched_keys"])
    ]
    if shapes:
        raise misfit(f"{len(shapes)} tensors have other shapes: {some(shapes, '; ')}", where, architecture)
    for kind in ("missing", "unexpected"):
        extra = unused if kind == "unexpected" else ()
        keys = sorted(report[f"{kind}_keys"])
        names = [name for name in keys if not (name.endswith(_OLD_BUFFERS) or (extra and name.startswith(extra)))]
        if names:
            raise misfit(f"{len(names)} tensors are {kind}: {some(names)}", where, architecture)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no loading report on standard error: what the report says is raised as an error."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
