"""The files of a checkpoint: found, refused where they cannot be trusted, and hashed before anything loads them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl as _parse_qsl

from safetensors import SafetensorError, safe_open

from fairgate.ground.errors import FairgateError, ModelError, did_you_mean
from fairgate.ground.hashing import digest, require_regular, sha256_file
from fairgate.models.checkpoints.advice import converted
from fairgate.models.checkpoints.closed import damaged, entries, is_archive, require_closed, require_uncompressed

PICKLED = (".pt", ".pth", ".bin", ".ckpt")
WEIGHTS = (".safetensors", *PICKLED)
MAX_CONFIG_BYTES = 64 << 20
MAX_SIDE = 8192
"""Pixels of a side and width of a layer: with more, a config of one line could exhaust the memory."""
MAX_FILES = 10_000
_SIDES = (
    *("width", "height", "size", "crop_size", "image_size", "shortest_edge", "longest_edge"),
    *("hidden_size", "embed_dim"),
    "sample_size",  # of a UNet: a side of its latents
    *("num_queries", "num_detection_tokens"),  # boxes of a detector; 900 as published
    "max_text_len",  # Grounding DINO's scores are as long as this; 256 as published
    "max_num_patches",  # of SigLIP 2's NaFlex; 256 as published
)
_LAYERS = (
    *("layers", "num_hidden_layers", "encoder_layers", "decoder_layers", "depth", "depths", "iou_head_depth"),
    *("blocks_per_stage", "num_feature_levels", "num_multimask_outputs", "num_point_embeddings"),
    *("num_layers", "num_single_layers", "num_decoder_layers"),  # of a FLUX, of a T5
    "num_block_repeats",
    "image_embedding_size",  # SAM's grid of positions, which is made at this size; 64 as published
)
_SCALES = ("depth_coefficient", "width_coefficient")  # of ALIGN's EfficientNet: layers and channels; 3.1 and 2 at most
_LIMITS = {
    **dict.fromkeys(_SIDES, MAX_SIDE),
    **dict.fromkeys(_LAYERS, 1000),
    **dict.fromkeys(_SCALES, 16),
    "patch_size": 64,  # with as many patches as above a picture has 400 MB; 32 at most as published
    "num_train_timesteps": 10_000,
}

# Files that decide how text is cut into tokens, under the names that transformers gives them.
IMAGE_CONFIGS = ("preprocessor_config.json", "processor_config.json")
TOKENIZER_FILES = frozenset(
    {
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "vocab.txt",
        "merges.txt",
        "spiece.model",
        "tokenizer.model",
        "sentencepiece.bpe.model",
        "sentencepiece.model",
        "spm.model",
    }
)
READING_FILES = TOKENIZER_FILES | {*IMAGE_CONFIGS}


def files_named(folder: Path, names: Collection[str]) -> dict[str, Path]:
    """Those of a folder's files that have one of the names, such as TOKENIZER_FILES or IMAGE_CONFIGS, in order."""
    return {name: folder / name for name in sorted(names) if (folder / name).is_file()}


@dataclass(frozen=True, slots=True)
class HashedFiles:
    """The files of one checkpoint by role, with their digests and what the file system said when they were taken.

    Names of weight files are not part of a fingerprint (`weights` is a role), so a renamed checkpoint is the same one.
    """

    paths: Mapping[str, Path]
    hashes: Mapping[str, str]
    stamps: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, paths: Mapping[str, Path]) -> HashedFiles:
        for path in paths.values():
            require_regular(path, ModelError)
        stamps = {role: _stamp(path) for role, path in paths.items()}
        return cls(dict(paths), {role: sha256_file(path) for role, path in paths.items()}, stamps)

    def with_others(self, roles: Collection[str], other: HashedFiles) -> HashedFiles:
        """These files, with those of another checkpoint in the place of all that have one of the roles."""

        def mixed(part: str) -> dict[str, Any]:
            own = {role: value for role, value in getattr(self, part).items() if role not in roles}
            return own | {role: value for role, value in getattr(other, part).items() if role in roles}

        return HashedFiles(*map(mixed, ("paths", "hashes", "stamps")))

    def fingerprint(self, **more: str) -> str:
        """Hex SHA-256 over roles and digests, with further digests by name (an architecture's config)."""
        return digest({**self.hashes, **more})

    @contextlib.contextmanager
    def closed(self, names: Mapping[str, str] | None = None) -> Iterator[Path]:
        """A folder that shows these files and no others, so that a library reads what was hashed: all of them under
        their own names, or those whose role has one of the given `names`."""
        named = {role: path.name for role, path in self.paths.items()} if names is None else names
        with tempfile.TemporaryDirectory(prefix="fairgate-model-") as folder:
            for role, name in named.items():
                link = Path(folder, name)
                link.parent.mkdir(exist_ok=True)
                link.symlink_to(self.paths[role].resolve())
            yield Path(folder)

    def require_unchanged(self) -> None:
        """Raises ModelError when a file is not the one that was hashed: its scores would be cached as another's."""
        for role, path in self.paths.items():
            if not path.is_file() or _stamp(path) != self.stamps[role]:
                raise ModelError(
                    "the file changed between hashing and loading.",
                    where=str(path),
                    remedy="wait until the checkpoint is written, then run again",
                )


def _stamp(path: Path) -> tuple[int, ...]:
    facts = path.stat()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def read_options(query: str) -> list[tuple[str, str]]:
    """Names and values of the options of a URI: %XX stands for a byte, and `+` for itself, also in a prompt."""
    return _parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)


def split_options(
    uri: str, address: str, known: Sequence[str] | None, error: type[FairgateError] = ModelError
) -> tuple[str, dict[str, str]]:
    """What an address names, and the options after its `?`; any where none are `known`. Raises for no name, an unknown
    or an empty option."""
    named, mark, query = address.partition("?")
    options = dict(read_options(query))
    odd = [name for name in options if (known is not None and name not in known) or not options[name]]
    if not named or odd or (mark and not options):
        first = (odd or [""])[0]
        near = f"write {first}=VALUE" if known and first in known else did_you_mean(first, known or ())
        raise error(
            f"'{uri}' has an option that is unknown or empty: '{first or query}'.",
            where=uri,
            remedy=near or f"options: {'NAME=COLUMN' if known is None else ', '.join(known) or 'none, leave it out'}",
        )
    return named, options


def option_number(
    uri: str, name: str, text: str, least: float, most: float | None = None, *, whole: bool = True
) -> float:
    """A number that an option of a URI gives. Raises ModelError for what is none, and for one out of these bounds."""
    try:
        number = float(int(text) if whole else float(text))
    except (ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and least <= number <= (number if most is None else most)):
        bounds = f"of at least {least:g}" if most is None else f"from {least:g} to {most:g}"
        fault = f"{name} is '{text[:40]}', not a {'whole ' if whole else ''}number {bounds}."
        raise ModelError(fault, where=uri, remedy=f"write another number after {name}=, or leave it out")
    return number


def require_file(path: Path, error: type[FairgateError] = ModelError) -> None:
    """Raises when a file is missing (naming the nearest sibling) or empty."""
    if path.is_dir():
        raise error("the path is a folder, and a file is expected.", where=str(path), remedy="name a file in it")
    require_regular(path, error)
    if not path.is_file():
        raise error("the file does not exist.", where=str(path), remedy=where_it_may_be(path))
    if path.stat().st_size == 0:
        raise error("the file is empty.", where=str(path), remedy="save or download it again")


def where_it_may_be(path: Path) -> str:
    """A remedy for a path that does not exist: DVC's command, or the nearest name next to it."""
    pull, names = "`dvc pull`, in CI `fairgate dataset pull`", list[str]()
    with contextlib.suppress(OSError, ValueError):  # there is no such folder, or nobody may look into it
        names = [other.name for other in path.parent.iterdir()]
    if f"{path.name}.dvc" in names:
        return f"DVC tracks it: run {pull}"
    return did_you_mean(path.name, names) or f"check the path; if DVC tracks it, run {pull}"


def require_folder(path: Path, within: Path | None = None) -> None:
    """Raises ModelError when a folder is missing (naming the nearest sibling) or a file, when a link in it leads
    outside, or when it holds a pipe, socket or device.

    `within` is a folder around it that links may lead into (the hub's cache links its snapshots to its blobs).
    """
    if path.is_file():
        raise ModelError(
            "the path is a file, and a model's folder is expected.",
            where=str(path),
            remedy=converted(path)
            or "name the folder that the model was saved into; weights alone are named with their architecture: "
            "open_clip:ARCH@FILE, torchvision:ARCH@FILE?labels=FILE, of timm's train.py timm:FILE?labels=FILE; of a "
            "Stable Diffusion with a folder of configs, diffusion:FILE?config=FOLDER; those of another pipeline are "
            "loaded by PIPELINE.from_single_file(FILE, config=FOLDER), and saved by save_pretrained; a table always "
            "works: labels:FILE, detections:FILE",
        )
    if not path.is_dir():
        raise ModelError("the model folder does not exist.", where=str(path), remedy=where_it_may_be(path))
    inside, seen = (within or path).resolve(), 0
    for folder, subfolders, names in os.walk(path):
        seen += len(names)
        if seen > MAX_FILES:
            raise ModelError(
                f"the folder holds more than {MAX_FILES:,} files.",
                where=str(path),
                remedy="name the model's own folder",
            )
        for name in (*subfolders, *names):
            entry = Path(folder, name)
            if entry.is_symlink() and not _leads_into(inside, entry):
                raise ModelError(
                    "a link in the model folder leads outside of it.",
                    where=str(entry),
                    remedy="copy the folder with its links followed (`cp -rL`), and name the copy",
                )
            require_regular(entry, ModelError)


def _leads_into(folder: Path, link: Path) -> bool:
    try:
        return link.resolve().is_relative_to(folder)
    except (OSError, RuntimeError):  # nobody may follow it, or it leads to itself
        return False


def require_weights(path: Path) -> None:
    """Raises ModelError for a weights file that is missing, empty, of an unknown kind, or cut short."""
    require_file(path)
    if path.suffix == ".safetensors":
        try:
            with safe_open(path, framework="np") as handle:
                handle.keys()
        except SafetensorError as error:  # a damaged header, or one that promises more bytes than there are
            raise damaged(path, str(error)) from error
    elif is_archive(path):
        require_uncompressed(path)
    elif path.suffix not in PICKLED:
        raise ModelError(
            f"'{path.suffix or path.name}' is not a kind of checkpoint that fairgate reads.",
            where=str(path),
            remedy=converted(path) or f"save the weights as .safetensors (also read: {', '.join(PICKLED)})",
        )


def read_config(
    path: Path,
    limits: Mapping[str, int] | None = None,
    named: Collection[str] = (),
    closed: Callable[[Any, str, Collection[str]], None] = require_closed,
) -> dict[str, Any]:
    """A JSON object from a model folder. Raises ModelError, also where it names code, or files outside the folder, or
    sets pictures, layers or timesteps to an unreasonable size, at any depth; `limits` replace the usual ones. Keys that
    are `named` are left to the caller (`require_closed`); `closed` checks names in another way."""
    require_file(path)
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise ModelError(
            f"the file has more than {MAX_CONFIG_BYTES >> 20} MB.", where=str(path), remedy="check that it is a config"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the file is not valid JSON ({error}).", where=str(path), remedy="write it again") from error
    if not isinstance(config, dict):
        raise ModelError("the file does not hold a JSON object.", where=str(path), remedy="write it again")
    closed(config, str(path), named)
    allowed = {**_LIMITS, **(limits or {})}
    for name, value in entries(config):
        limit = allowed.get(name)
        if limit is not None and isinstance(value, int | float) and value > limit:
            raise ModelError(
                f"the config sets '{name}' to {str(value)[:40]}; at most {limit:,} is built.",
                where=str(path),
                remedy="check the config: no known model is that large",
            )
    return config
