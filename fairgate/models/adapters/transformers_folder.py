"""A folder that transformers saved: what kind of model is in it, which files count, and what cannot be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.errors import ModelError, did_you_mean
from fairgate.models.files import (
    TOKENIZER_FILES,
    HashedFiles,
    read_config,
    require_weights,
)

_WEIGHTS = "model.safetensors"
_SHARDS = "model.safetensors.index.json"
_PICKLED = "pytorch_model.bin"
IMAGE_CONFIGS = ("preprocessor_config.json", "processor_config.json")
_CONFIGS = (*IMAGE_CONFIGS, "tokenizer_config.json")


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
    kept = TOKENIZER_FILES | {"config.json", _SHARDS, *_CONFIGS}
    others = {path.name: path for path in sorted(folder.iterdir()) if path.name in kept}
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
