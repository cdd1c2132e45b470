"""`hf:FOLDER`: a CLIP or SigLIP that transformers saved. Local files, safetensors, and no code from the folder."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from fairgate.errors import ModelError, did_you_mean
from fairgate.models.device import Device
from fairgate.models.embedding_scorer import EmbeddingScorer
from fairgate.models.encoder import Checkpoint, Encoder, versions
from fairgate.models.files import (
    TOKENIZER_FILES,
    HashedFiles,
    read_config,
    require_folder,
    require_weights,
    resolve,
)
from fairgate.models.protocols import Request

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other embeddings for the same files

MODEL_TYPES = ("clip", "siglip")
_WEIGHTS = "model.safetensors"
_SHARDS = "model.safetensors.index.json"
_CONFIGS = ("preprocessor_config.json", "processor_config.json", "tokenizer_config.json")


def scorer(request: Request) -> EmbeddingScorer:
    """Find and hash a folder of transformers. Raises ModelError; loading waits until an embedding is asked for."""
    folder = resolve(request.address, request.base)
    require_folder(folder)
    _require_config(folder)
    weights = _weights_in(folder)
    for path in weights:
        require_weights(path)
    kept = TOKENIZER_FILES | {"config.json", _SHARDS, *_CONFIGS}
    others = {path.name: path for path in sorted(folder.iterdir()) if path.name in kept}
    roles = {f"weights/{number}": path for number, path in enumerate(weights)}
    files = HashedFiles.of({**roles, **others})
    libraries = versions("transformers", "tokenizers", "torch", "torchvision", "pillow")
    identity = {"adapter": "hf", "code": CODE_VERSION, "libraries": libraries}
    return EmbeddingScorer(Checkpoint(files.fingerprint(), identity, partial(_load, folder, files)), request)


def _require_config(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise ModelError(
            "the folder holds no config.json.",
            where=str(folder),
            remedy="save it with model.save_pretrained(FOLDER); a folder of open_clip is open_clip:local-dir:FOLDER",
        )
    config = read_config(folder / "config.json")
    kind = config.get("model_type")
    if kind not in MODEL_TYPES:
        raise ModelError(
            f"the model is of type '{kind}', which the hf: adapter does not score.",
            where=str(folder / "config.json"),
            remedy=did_you_mean(str(kind), MODEL_TYPES) or f"types it knows: {', '.join(MODEL_TYPES)}",
        )
    if (folder / "adapter_config.json").exists() or config.get("transformers_weights"):
        raise ModelError(
            "transformers would load other weights than model.safetensors here (adapter_config.json, or "
            "'transformers_weights' in config.json).",
            where=str(folder),
            remedy="merge the adapter into the model, and save that with save_pretrained",
        )
    there = [name for name in _CONFIGS if (folder / name).is_file()]
    for name in there:
        read_config(folder / name)  # refuses code of its own
    if not {"preprocessor_config.json", "processor_config.json"} & set(there):
        raise ModelError(
            "the folder does not say how images are prepared (preprocessor_config.json).",
            where=str(folder),
            remedy="save the model's processor into it: processor.save_pretrained(FOLDER)",
        )
    if not any((folder / name).is_file() for name in ("tokenizer.json", "vocab.json", "spiece.model")):
        raise ModelError(
            "the folder holds no tokenizer.",
            where=str(folder),
            remedy="save the model's tokenizer into it: tokenizer.save_pretrained(FOLDER)",
        )


def _weights_in(folder: Path) -> list[Path]:
    if (folder / _WEIGHTS).is_file():
        return [folder / _WEIGHTS]
    if (folder / _SHARDS).is_file():
        shards: dict[str, Any] = read_config(folder / _SHARDS).get("weight_map", {})
        named = sorted({str(name) for name in shards.values()})
        if named and all(Path(name).name == name and name.endswith(".safetensors") for name in named):
            return [folder / name for name in named]
        raise ModelError(
            "the index does not name safetensors shards of this folder.",
            where=str(folder / _SHARDS),
            remedy="save the model again with save_pretrained",
        )
    pickled = [path.name for path in folder.glob("*.bin")]
    raise ModelError(
        f"the folder holds no {_WEIGHTS}" + (f", only pickled weights ({', '.join(pickled)})." if pickled else "."),
        where=str(folder),
        remedy="save the model with transformers' save_pretrained, which writes safetensors",
    )


def _load(folder: Path, files: HashedFiles, device: Device) -> Encoder:
    from fairgate.models.adapters.hf_model import load

    files.require_unchanged()
    return load(folder, json.loads(files.paths["config.json"].read_text(encoding="utf-8"))["model_type"], device)
