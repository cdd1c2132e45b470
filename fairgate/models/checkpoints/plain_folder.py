"""A folder of transformers of any type: what the library alone opens, in an isolated process."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints.adapters import CONFIG as ADAPTER_CONFIG
from fairgate.models.checkpoints.adapters import taken_adapter
from fairgate.models.checkpoints.advice import TYPES, home_of, read_small_config
from fairgate.models.checkpoints.closed import require_no_code
from fairgate.models.checkpoints.files import IMAGE_CONFIGS, TOKENIZER_FILES, HashedFiles, read_config
from fairgate.models.checkpoints.transformers_folder import (
    CONFIGS,
    GENERATION_CONFIG,
    SHARDS,
    TransformersFolder,
    companions_in,
    refuse_other_weights,
    require_companion,
    weights_in,
)

_READ = frozenset({".json", ".txt", ".model", ".jinja"})
_NOT_READ = frozenset(
    {*("all_results.json", "train_results.json", "eval_results.json", "trainer_state.json"), "requirements.txt"}
)
"""What a training leaves next to a model, and no library opens."""
_AREAS = dict.fromkeys(("shortest_edge", "longest_edge", "min_pixels", "max_pixels"), 1 << 24)
"""Qwen-VL's image processor gives the fewest and most pixels of a picture under the names of edges; 12.8 million as
published."""
_OF_THE_MODEL = ("config.json", GENERATION_CONFIG, SHARDS)
_ELSEWHERE = _NOT_READ | TOKENIZER_FILES | {*_OF_THE_MODEL, *IMAGE_CONFIGS, ADAPTER_CONFIG}
PLAIN_VERSION = 1  # raise it when the isolated process, or what it calls, gives other numbers for the same files


def is_plain(folder: Path, ending: str, scheme: str, parts: Collection[str] = ()) -> bool:
    """Whether a folder's model is of a type that no family lists, and of a class whose name has this ending and that no
    other family judges; with the `parts` in its config."""
    config = read_small_config(folder / "config.json") or {}
    saved, home = config.get("architectures"), home_of(folder)
    named = isinstance(saved, list) and bool(saved) and str(saved[0]).endswith(ending)
    fits = named and (home is None or home.scheme == scheme) and set(parts) <= config.keys()
    return fits and not any(str(config.get("model_type")) in types for _, types in TYPES.values())


def find_plain(folder: Path, processor: Path | None, scheme: str) -> TransformersFolder:
    """Hash what a library may read of a folder, in which any type and any name will do: the process that opens it
    reaches nothing else. Safetensors alone. Raises ModelError, also for a model with code of its own."""
    config = read_config(folder / "config.json", closed=require_no_code)
    refuse_other_weights(folder, config)
    adapter = taken_adapter(folder)
    companions = companions_in(folder, adapter, processor)
    for name in set(CONFIGS) & set(companions):
        # a size that fills the memory ends that process alone
        read_config(companions[name], _AREAS, closed=require_no_code)
    require_companion(folder, companions, IMAGE_CONFIGS, f"{scheme}:FOLDER?processor=FOLDER")
    weights = weights_in(folder, False, scheme)
    own = {name: folder / name for name in _OF_THE_MODEL if (folder / name).is_file()}
    places = (adapter.path if adapter else None, processor)
    own_reading = (each for each in places if each and any((each / name).is_file() for name in TOKENIZER_FILES))
    for path in next(own_reading, folder).iterdir():
        if path.suffix in _READ and path.is_file() and path.name not in _ELSEWHERE:
            own[path.name] = path
    roles = {f"weights/{number}": path for number, path in enumerate(weights)}
    files = HashedFiles.of({**roles, **dict(sorted({**own, **companions}.items()))})
    return TransformersFolder(folder, str(config.get("model_type")), config, tuple(weights), files, adapter, plain=True)


def code_of(found: TransformersFolder, version: int) -> int | str:
    """Which code gives a folder's numbers: an adapter's version, and for a plain folder that of its way."""
    return f"{version} plain {PLAIN_VERSION}" if found.plain else version


def plain_note(found: TransformersFolder) -> str | None:
    """What a record says of a plain folder's model; None for another."""
    if not found.plain:
        return None
    return f"opened by transformers' own class for {found.kind[:80]}, in a process of its own"


def class_of_task(found: TransformersFolder, mapping: str) -> str:
    """The class by which transformers opens this type, by its mapping for a task, "MODEL_FOR_OBJECT_DETECTION_MAPPING";
    of several the one that saved the folder. Raises ModelError for a type that the mapping does not have."""
    import transformers
    from transformers.models.auto import modeling_auto

    listed: Any = getattr(modeling_auto, f"{mapping}_NAMES").get(found.kind, ())
    names: tuple[str, ...] = (listed,) if isinstance(listed, str) else tuple(listed)
    if not names:
        raise ModelError(
            f"transformers {transformers.__version__} lists no {found.kind[:80]} in {mapping}.",
            where=str(found.path),
            remedy="judge a table of its answers: labels:, detections: or scores:FILE; or install a newer one that "
            "lists it (`pip install --upgrade transformers`)",
        )
    saved = found.config.get("architectures")
    return next((name for name in names if isinstance(saved, list) and name in saved), names[0])
