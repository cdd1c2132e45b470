"""`open_clip:ARCH@FILE`, `open_clip:ARCH@TAG` and `open_clip:local-dir:FOLDER`."""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from fairgate.errors import ModelError, did_you_mean
from fairgate.hashing import digest
from fairgate.models.device import Device
from fairgate.models.embedding_scorer import EmbeddingScorer
from fairgate.models.encoder import Checkpoint, Encoder, versions
from fairgate.models.files import (
    TOKENIZER_FILES,
    WEIGHTS,
    HashedFiles,
    read_config,
    refuse_remote_code,
    require_folder,
    require_weights,
    resolve,
)
from fairgate.models.protocols import Request

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other embeddings for the same files

_CONFIG = "open_clip_config.json"
# open_clip looks for a folder's weights under these names, in this order
_PREFERRED = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
    "open_clip_pytorch_model.pth",
    "model.safetensors",
    "pytorch_model.bin",
    "pytorch_model.pth",
    "model.pth",
)


def scorer(request: Request) -> EmbeddingScorer:
    """Find and hash an open_clip checkpoint. Raises ModelError; loading waits until an embedding is asked for."""
    found = checkpoint(request.uri, request.address, request.base, allow_pickle=request.allow_pickle)
    return EmbeddingScorer(found, request)


def checkpoint(uri: str, address: str, base: Path, *, allow_pickle: bool = False) -> Checkpoint:
    """The model that an address names, hashed and not loaded. Raises ModelError."""
    if address.startswith("local-dir:"):
        return _of_folder(resolve(address.removeprefix("local-dir:"), base), allow_pickle)
    architecture, at, weights = address.partition("@")
    if not at or not architecture or not weights:
        raise ModelError(
            f"'{uri}' does not say which weights to load.",
            remedy="write open_clip:ARCH@FILE (a checkpoint), open_clip:ARCH@TAG (pretrained) or "
            "open_clip:local-dir:FOLDER",
        )
    config = architecture_config(architecture)
    path = resolve(weights, base)
    if path.exists() or "/" in weights or path.suffix in WEIGHTS:
        return _of_file(allow_pickle, architecture, config, path, preprocessing="architecture")
    from fairgate.models.adapters.open_clip_model import download

    return _of_file(allow_pickle, architecture, config, download(architecture, weights), weights)


def _of_file(
    allow_pickle: bool, architecture: str, config: dict[str, Any], path: Path, preprocessing: str
) -> Checkpoint:
    """A weights file for a named architecture. `preprocessing` is "architecture", or the tag whose settings apply."""
    require_weights(path, allow_pickle)
    files = HashedFiles.of({"weights": path})
    tag = None if preprocessing == "architecture" else preprocessing
    load = partial(_load, architecture, files, tag, allow_pickle)
    fingerprint = files.fingerprint(config=digest(config))
    return Checkpoint(fingerprint, {**_identity(config), "preprocessing": preprocessing}, load)


def _of_folder(folder: Path, allow_pickle: bool) -> Checkpoint:
    require_folder(folder)
    if not (folder / _CONFIG).is_file():
        raise ModelError(
            f"the folder holds no {_CONFIG}.",
            where=str(folder),
            remedy="use open_clip:ARCH@FILE for bare weights, or hf:FOLDER for a folder of transformers",
        )
    config = read_config(folder / _CONFIG).get("model_cfg")
    parts = [config.get(key) for key in ("vision_cfg", "text_cfg")] if isinstance(config, dict) else []
    if not isinstance(config, dict) or "embed_dim" not in config or not all(isinstance(part, dict) for part in parts):
        raise ModelError(
            "the config lacks 'model_cfg' with 'embed_dim', 'vision_cfg' and 'text_cfg'.",
            where=str(folder / _CONFIG),
            remedy="save it with open_clip's push_to_hf_hub.save_for_hf",
        )
    for name in ("tokenizer_config.json", "config.json"):
        if (folder / name).is_file():
            read_config(folder / name)  # refuses code of its own
    weights = _weights_in(folder)
    require_weights(weights, allow_pickle)
    tokenizer = {path.name: path for path in sorted(folder.iterdir()) if path.name in TOKENIZER_FILES}
    files = HashedFiles.of({"weights": weights, _CONFIG: folder / _CONFIG, **tokenizer})
    load = partial(_load, f"local-dir:{folder}", files, None, allow_pickle)
    return Checkpoint(files.fingerprint(), {**_identity(config), "preprocessing": "config"}, load)


def _weights_in(folder: Path) -> Path:
    there = sorted(path for path in folder.iterdir() if path.suffix in WEIGHTS)
    for name in _PREFERRED:
        if folder / name in there:
            return folder / name
    if len(there) == 1:
        return there[0]
    fault = f"holds several weight files ({', '.join(path.name for path in there)})" if there else "holds no weights"
    raise ModelError(f"the folder {fault}.", where=str(folder), remedy=f"name the one to use {_PREFERRED[0]}")


def _load(model_name: str, files: HashedFiles, tag: str | None, allow_pickle: bool, device: Device) -> Encoder:
    from fairgate.models.adapters.open_clip_model import load

    files.require_unchanged()
    return load(model_name, files.paths["weights"], tag, allow_pickle, device)


def _identity(config: dict[str, Any]) -> dict[str, Any]:
    vision, text = config.get("vision_cfg", {}), config.get("text_cfg", {})
    libraries = ["open_clip_torch", "torch", "torchvision", "pillow"]
    if "timm_model_name" in vision:
        libraries.append("timm")
    if "hf_model_name" in text or "hf_tokenizer_name" in text:
        libraries.append("transformers")
    return {"adapter": "open_clip", "code": CODE_VERSION, "libraries": versions(*libraries)}


def architecture_config(architecture: str) -> dict[str, Any]:
    """The config of an architecture that open_clip ships, or that this process added. Does not import open_clip."""
    config: dict[str, Any] | None
    added = sys.modules.get("open_clip")
    if added is not None:
        config, known = added.get_model_config(architecture), added.list_models()
    else:
        shipped = {path.stem: path for path in _shipped_configs()}
        config = json.loads(shipped[architecture].read_text()) if architecture in shipped else None
        known = list(shipped)
    if config is None:
        raise ModelError(
            f"open_clip has no architecture '{architecture}'.",
            remedy=did_you_mean(architecture, known) or "`open_clip.list_models()` lists what it has",
        )
    refuse_remote_code(config, architecture)
    return config


def _shipped_configs() -> list[Path]:
    spec = importlib.util.find_spec("open_clip")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
    if not folders:
        raise ModelError("open_clip is not installed.", remedy="pip install open_clip_torch")
    return [path for folder in folders for path in (folder / "model_configs").glob("*.json")]
