"""How a checkpoint reads: digests of what makes tokens of text and tensors of pictures, and reading as another does.

Digests are over meaning, as far as that is cheap: not over the order of keys, over white space, or over notes that no
library acts on. Equal digests mean that texts (pictures) are read alike; unequal ones, that they may not be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import sha256_bytes, sha256_file
from fairgate.models.checkpoints import IMAGE_CONFIGS, Embeddings, Encoder, TransformersFolder

_NOTES = frozenset(
    {
        *("_name_or_path", "name_or_path", "special_tokens_map_file", "tokenizer_file", "transformers_version"),
        *("processor_class", "_processor_class", "chat_template", "backend", "is_local", "local_files_only", "version"),
        *("model_max_length", "clean_up_tokenization_spaces", "model_input_names", "torch_dtype", "_commit_hash"),
    }
)
"""Top-level keys of a config that no tokenizer or image processor acts on here: lengths are given with every call.

Deeper, and in other files, the same words are tokens: `version` in a vocabulary or in `extra_special_tokens`.
"""

_TEMPLATE = "chat_template"
"""A key of some configs, and the name of a file before its suffix."""
_PLAINLY = frozenset(
    {_TEMPLATE, "processor_class", "model_max_length", "clean_up_tokenization_spaces", "model_input_names"}
)
"""Of these, what the library itself acts on where it alone reads texts."""

_NOTED = ("tokenizer_config.json", "preprocessor_config.json", "processor_config.json")
_OFF = ("byte_fallback", "fuse_unk", "ignore_merges")  # newer versions write that they are off
# tokenizer.json keeps the padding and truncation of the last call. Every call gives lengths and strategies anew;
# transformers takes the side, and a pad token that no config names, from here
_OF_A_CALL = ("length", "max_length", "strategy")
_USUAL = {"direction": "Right", "stride": 0, "pad_type_id": 0}
_PAD = ("pad_id", "pad_token")
# what AutoTokenizer takes the class from, next to tokenizer_config.json
_CLASS = ("model_type", "model_name", "tokenizer_class")


class ReadingMisfit(ModelError):
    """One checkpoint cannot be given what another one's tokenizer or preprocessing makes."""


def tokenizer_digest(files: Iterable[Path], **settings: Any) -> str:
    """Digest of a tokenizer's files and of the settings that it is called with."""
    found = {path.name: _content(path) for path in files}
    config = found.get("tokenizer_config.json")
    decided = _PAD if isinstance(config, dict) and "pad_token" in config else ()
    if isinstance(whole := found.get("tokenizer.json"), dict):
        found["tokenizer.json"] = _as_any_version(whole, decided)
    return _digest({"files": found, **settings})


def tokenizer_class(config: Mapping[str, Any]) -> dict[str, Any]:
    """What decides in a model's config.json which class of transformers reads the tokenizer's files."""
    encoder = config.get("encoder")  # of an encoder with a decoder
    found = {name: config.get(name) for name in _CLASS}
    found["encoder"] = encoder.get("model_type") if isinstance(encoder, dict) else None
    return {name: value for name, value in found.items() if value is not None}


def preprocessing_digest(files: Iterable[Path] = (), **settings: Any) -> str:
    """Digest of an image processor's configs, or of the settings of a transform."""
    return _digest({"files": {path.name: _content(path) for path in files}, **_plain(settings)})


def folder_tokenizer(found: TransformersFolder, *, template: bool = True, **settings: Any) -> str:
    """Digest of a folder's tokenizer, of what decides its class, and of settings that it is called with; of a plain one
    with its chat template, unless that is left out."""
    decided = {name: value for name, value in tokenizer_class(found.config).items() if name != "model_type"}
    files = [path for path in found.tokenizer_files if template or path.stem != _TEMPLATE]
    if found.plain:
        read = read_by_library(found.named(_NOTED))
        decided |= {name: value for name, value in read.items() if template or not name.endswith(_TEMPLATE)}
    return tokenizer_digest(files, kind=found.kind, **decided, **settings)


def read_by_library(files: Iterable[Path]) -> dict[str, Any]:
    """What is a note elsewhere, and decides how a library alone reads: a chat template, a processor, a longest text.
    `files` are a plain model's, of which configs count."""
    noted = [path for path in files if path.name in _NOTED]
    configs = {path.name: _plain(json.loads(path.read_text(encoding="utf-8"))) for path in noted}
    return {f"{file}/{key}": config[key] for file, config in configs.items() for key in _PLAINLY & config.keys()}


def folder_preprocessing(found: TransformersFolder, adapter: str, **settings: Any) -> str:
    """Digest of a folder's image configs, of what kind of model reads them, and of further settings."""
    return preprocessing_digest(
        found.named(IMAGE_CONFIGS), adapter=adapter, kind=found.kind, **image_class(found.config), **settings
    )


def image_class(config: Mapping[str, Any]) -> dict[str, Any]:
    """What config.json says of the image processor's class, which counts if the processor's own config names none."""
    return {name: value for name, value in config.items() if name == "image_processor_type"}


def _content(path: Path) -> Any:
    """A file's content without formatting and notes; the digest of its bytes where it is no JSON.

    What is null is left out, but for an image processor: `do_rescale` null turns off what a config without it does.
    """
    if path.suffix == ".json" and path.stat().st_size <= 256 << 20:
        try:
            written = json.loads(path.read_text(encoding="utf-8"))
            content = written if path.name in IMAGE_CONFIGS else _plain(written)
        except (ValueError, RecursionError):
            pass
        else:
            return _without_notes(content) if path.name in _NOTED else content
    return sha256_file(path)


def _without_notes(config: Any) -> Any:
    """A config without notes; newer versions write the image processor's as a part of a whole processor's."""
    if not isinstance(config, dict):
        return config
    said = {key: value for key, value in config.items() if key not in _NOTES}
    return {**said, "image_processor": _without_notes(said["image_processor"])} if "image_processor" in said else said


def _as_any_version(content: Mapping[str, Any], decided: Sequence[str]) -> dict[str, Any]:
    """tokenizer.json as every version writes it: merges as pairs, and of the last call what the next one takes over.

    `decided` are the keys of the padding that a config decides.
    """
    content = {key: value for key, value in content.items() if key != "version"}
    for block in ("truncation", "padding"):
        if isinstance(content.get(block), dict):
            called = content.pop(block).items()
            dropped = (*_OF_A_CALL, *decided)
            taken_over = {key: value for key, value in called if key not in dropped and value != _USUAL.get(key, ...)}
            content |= {block: taken_over} if taken_over else {}
    model = content.get("model")
    if not isinstance(model, dict):
        return content
    model = {key: value for key, value in model.items() if not (key in _OFF and value is False)}
    if isinstance(model.get("merges"), list):
        model["merges"] = [" ".join(map(str, one)) if isinstance(one, list) else one for one in model["merges"]]
    return {**content, "model": model}


def _plain(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items() if value is not None}
    return [_plain(value) for value in content] if isinstance(content, list | tuple) else content


def _digest(content: Any) -> str:
    return sha256_bytes(json.dumps(content, sort_keys=True, ensure_ascii=True).encode())


def rereading(own: Encoder, theirs: Encoder, *, tokenizer: bool, preprocessing: bool) -> Encoder:
    """An encoder that reads texts, pictures or both as another checkpoint does; ReadingMisfit where it cannot."""
    from PIL import Image

    if preprocessing:
        blank = Image.new("RGB", (96, 64))
        here, there = (tuple(one.prepare(blank).shape) for one in (own, theirs))
        if here != there:
            raise ReadingMisfit(f"it makes tensors of shape {there}, and the image tower takes {here}.")

    def encode_tokens(tokens: Mapping[str, Any]) -> Embeddings:
        usual = own.tokens(["a"])
        if usual.keys() != tokens.keys() or usual["ids"].shape[1] != tokens["ids"].shape[1]:
            raise ReadingMisfit("it makes prompts of another length or kind.")
        largest = int(tokens["ids"].max())
        if largest >= own.vocabulary:
            raise ReadingMisfit(f"it gives token {largest}, and the text tower knows {own.vocabulary}.")
        return own.encode_tokens(tokens)

    prepare, tokens = (theirs if preprocessing else own).prepare, (theirs if tokenizer else own).tokens
    return replace(own, prepare=prepare, tokens=tokens, encode_tokens=encode_tokens)
