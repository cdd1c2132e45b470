"""`open_clip:ARCH@FILE[?preprocess=TAG]`, `open_clip:ARCH@TAG`, `open_clip:local-dir:FOLDER` and a model of the hub,
`open_clip:ORG/NAME@COMMIT`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.cache import EmbeddingCache
from fairgate.models.checkpoints import Checkpoint, Device, Encoder, HashedFiles
from fairgate.models.contract import Capability, Request, register
from fairgate.models.input_digests import preprocessing_digest, tokenizer_class, tokenizer_digest
from fairgate.models.open_clip_parts import (
    CONFIG,
    PICTURES,
    TEXT_CONFIG,
    TOKENIZER,
    Parts,
    architecture_facts,
    published_pictures,
)
from fairgate.models.two_towers import TwoTowers

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other embeddings for the same files
LIBRARIES = ("open_clip_torch", "timm", "transformers", "torch", "torchvision", "pillow")

_PREFIXES = ("local-dir:", "hf-hub:")
"""As open_clip has them, of a folder and of a model of the hub."""
_NAMED = "hf_tokenizer_name"
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


@register
class OpenClip:
    """Checkpoints of open_clip: an architecture with a file or a published tag, or a folder."""

    scheme: ClassVar[str] = "open_clip"
    forms: ClassVar[tuple[str, ...]] = (
        "open_clip:ARCH@FILE",
        "open_clip:local-dir:FOLDER",
        "open_clip:ORG/NAME@COMMIT",
    )
    capabilities: ClassVar[frozenset[Capability]] = TwoTowers.capabilities

    def local_path(self, address: str) -> Path | None:
        """The file after `@` unless it is a tag, or the folder; None for a model of the hub."""
        if (folder := _folder_in(address)) is not None:
            return checkpoints.local_folder(folder)
        weights = address.partition("?")[0].partition("@")[2]
        return Path(weights) if _is_file(weights) else None

    def open(self, request: Request) -> TwoTowers:
        """Find and hash a checkpoint. Raises ModelError; loading waits until an embedding is needed."""
        return TwoTowers(checkpoint(request.uri, request.address, request.base, request.cache), request)


def checkpoint(uri: str, address: str, base: Path, cache: EmbeddingCache | None = None) -> Checkpoint:
    """The model that an address names, hashed and not loaded. Raises ModelError."""
    if (named := _folder_in(address)) is not None:
        return _of_folder(checkpoints.judged_folder(checkpoints.split_options(uri, named, ())[0], base))
    architecture, at, weights = address.partition("?")[0].partition("@")
    if not at or not architecture or not weights:
        raise ModelError(
            f"'{uri}' does not say which weights to load.",
            remedy="write open_clip:ARCH@FILE (a checkpoint), open_clip:ARCH@TAG (pretrained) or "
            "open_clip:local-dir:FOLDER",
        )
    config, published = architecture_facts(architecture, cache)
    checkpoints.require_closed(config, architecture)
    path, is_tag = checkpoints.resolve(weights, base), not _is_file(weights)
    options = checkpoints.split_options(uri, address, () if is_tag else ("preprocess",))[1]
    if is_tag and os.path.lexists(path):
        raise ModelError(
            f"'{weights}' is a published tag's name, and a file or folder here.",
            where=str(path),
            remedy=f"write open_clip:{architecture}@./{weights} for the file; to judge the published checkpoint, give "
            "the file another name: a branch may not put its own in that one's place",
        )
    pictures = published_pictures(architecture, published, weights if is_tag else options.get("preprocess"), uri)
    if is_tag:
        from fairgate.models.open_clip_network import download

        checkpoints.require_outside(base)
        path = download(architecture, weights)
    files = {"weights": path, **_texts_of(config.get("text_cfg", {}), base, download=is_tag)}
    return _checkpoint(architecture, config, pictures, files)


def _is_file(weights: str) -> bool:
    """Whether what follows `@` names a file, and no published tag: by the text alone, never by what files there are."""
    return "/" in weights or Path(weights).suffix in checkpoints.WEIGHTS


def _texts_of(text: Mapping[str, Any], base: Path, *, download: bool) -> dict[str, Path]:
    """Files of the hub that an architecture takes its text tower or tokenizer from."""
    files = {}
    if name := text.get("hf_model_name"):
        found = checkpoints.named_files(name, ["config.json"], base, download=download)
        files[TEXT_CONFIG] = found["config.json"]
    if name := text.get(_NAMED):
        found = checkpoints.named_files(name, [*checkpoints.TOKENIZER_FILES, "config.json"], base, download=download)
        files |= {f"{TOKENIZER}{file}": path for file, path in found.items()}
    return files


def _folder_in(address: str) -> str | None:
    """The folder, or the model of the hub, that an address names; None for an architecture with its weights."""
    named = next((address.removeprefix(prefix) for prefix in _PREFIXES if address.startswith(prefix)), None)
    return address if named is None and "/" in address.partition("@")[0] else named


def _of_folder(folder: Path) -> Checkpoint:
    """A folder that was accepted."""
    if not (folder / CONFIG).is_file():
        raise ModelError(
            f"the folder holds no {CONFIG}.",
            where=str(folder),
            remedy=checkpoints.right_uri(folder, "open_clip") or "use open_clip:ARCH@FILE for bare weights",
        )
    whole = checkpoints.read_config(folder / CONFIG)
    config: Any = whole.get("model_cfg")
    pictures = whole.get("preprocess_cfg") or {}
    parts = [config.get(key) for key in ("vision_cfg", "text_cfg")] if isinstance(config, dict) else [None]
    if not all(isinstance(part, dict) for part in (config, pictures, *parts)) or "embed_dim" not in config:
        raise ModelError(
            "the config lacks 'model_cfg' with 'embed_dim', 'vision_cfg' and 'text_cfg', or its 'preprocess_cfg' is no "
            "object.",
            where=str(folder / CONFIG),
            remedy="save it with open_clip's push_to_hf_hub.save_for_hf",
        )
    checkpoints.require_closed_towers(config, str(folder / CONFIG))
    files = {"weights": _weights_in(folder), CONFIG: folder / CONFIG, **_texts_in(folder, config["text_cfg"])}
    return _checkpoint(f"local-dir:{folder}", config, pictures, files)


def _checkpoint(
    shown: str, config: dict[str, Any], pictures: Mapping[str, Any], files: Mapping[str, Path]
) -> Checkpoint:
    """The model, hashed and not loaded. `pictures` is how they are prepared, where that is not open_clip's default."""
    checkpoints.require_weights(files["weights"])
    _require_closed_configs(files)
    described = CONFIG in files  # by the folder's own config, else by one that open_clip ships
    adapter = checkpoints.taken_weights(files[CONFIG].parent if described else files["weights"])
    parts = Parts(shown, config, pictures, HashedFiles.of(files), adapter)
    named = {} if described else {"config": digest(config)}
    named |= {"adapter": adapter.files.fingerprint()} if adapter else {}
    of_file = f"architecture {digest(dict(pictures))}" if pictures else "architecture"
    return Checkpoint(
        parts.files.fingerprint(**named),
        {
            "adapter": "open_clip",
            "code": CODE_VERSION,
            "libraries": checkpoints.versions(*LIBRARIES, *(["peft"] if adapter else [])),
            "preprocessing": "config" if described else of_file,
        },
        partial(_load, parts),
        _tokenizer(config, parts.files),
        _pictures(config, pictures),
    )


def _tokenizer(config: Mapping[str, Any], files: HashedFiles) -> str:
    """Digest of the tokenizer: of transformers where the config names one, else open_clip's own."""
    text = config["text_cfg"]
    own = [path for path in files.paths.values() if path.name in checkpoints.TOKENIZER_FILES]
    named = own if text.get(_NAMED) else []
    options = {name: text.get(name) for name in ("tokenizer_mode", "tokenizer_kwargs")}
    described = files.paths.get("config.json") or files.paths.get(f"{TOKENIZER}config.json")
    if named and described:
        options["decided_by"] = tokenizer_class(checkpoints.read_config(described))
    options = {name: value for name, value in options.items() if value}
    return tokenizer_digest(named, own=not named, length=text.get("context_length", 77), **options)


def _pictures(config: Mapping[str, Any], overlay: Mapping[str, Any]) -> str:
    """Digest of the transform: open_clip's defaults, what the config or tag says, and the size that the tower takes."""
    said = {name: overlay[name] for name in PICTURES if overlay.get(name) is not None}
    return preprocessing_digest(**{**PICTURES, **said}, size=config["vision_cfg"].get("image_size", 224))


def _texts_in(folder: Path, text: dict[str, Any]) -> dict[str, Path]:
    """The tokenizer's files of a folder, and where transformers builds the text tower or tokenizer, its config."""
    found = checkpoints.files_named(folder, checkpoints.TOKENIZER_FILES)
    if not text.get("hf_model_name"):
        uses_config = text.get(_NAMED) and (folder / "config.json").is_file()
        return {**found, "config.json": folder / "config.json"} if uses_config else found
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"the text tower is '{str(text['hf_model_name'])[:80]}', and the folder holds no config.json that "
            "describes it: it would have to be read from elsewhere.",
            where=str(folder / CONFIG),
            remedy="save it into the folder, where you trust it: "
            "`transformers.AutoConfig.from_pretrained(NAME).save_pretrained(FOLDER)`",
        )
    return {**found, "config.json": folder / "config.json", TEXT_CONFIG: folder / "config.json"}


def _require_closed_configs(files: Mapping[str, Path]) -> None:
    """Read every small config among the files. Raises ModelError for one that names what is elsewhere."""
    for role, path in files.items():
        if path.name in ("config.json", "tokenizer_config.json", "special_tokens_map.json"):
            config = checkpoints.read_config(path)
            if role == TEXT_CONFIG:
                checkpoints.require_text_tower(config, str(path))


def _weights_in(folder: Path) -> Path:
    there = sorted(path for path in folder.iterdir() if path.suffix in checkpoints.WEIGHTS)
    for name in _PREFERRED:
        if folder / name in there:
            return folder / name
    if len(there) == 1:
        return there[0]
    fault = f"holds several weight files ({', '.join(path.name for path in there)})" if there else "holds no weights"
    remedy = f"name the one to use {_PREFERRED[0]}"
    if there and all("-of-" in path.name for path in there):
        remedy = f"these are parts of one model: save all of its tensors as {_PREFERRED[0]}, as open_clip does"
    raise ModelError(f"the folder {fault}.", where=str(folder), remedy=remedy)


def _load(parts: Parts, device: Device) -> Encoder:
    from fairgate.models.open_clip_network import load

    parts.files.require_unchanged()
    return load(parts, device)
