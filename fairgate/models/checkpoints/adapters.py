"""An adapter that peft saved: a folder with adapter_config.json and adapter_model.safetensors, merged into its base.

Nothing in the config is followed: neither the base model's name, nor a class, nor a file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError, listed
from fairgate.models.checkpoints.advice import no_weights, right_uri
from fairgate.models.checkpoints.files import READING_FILES, HashedFiles, files_named, read_config, require_weights
from fairgate.models.checkpoints.peft_merge import MERGE, PeftSettings, merge_by_peft, read_peft_settings

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter that was found trustworthy, with its files hashed; its weights are not read yet. `bases` are the
    folders that took it."""

    path: Path
    config: PeftSettings
    files: HashedFiles
    bases: list[str] = field(default_factory=list)


_PENDING: ContextVar[Adapter | None] = ContextVar("adapter", default=None)


@contextlib.contextmanager
def adapting(adapter: Adapter, where: str) -> Iterator[None]:
    """The checkpoint that is found inside gets the adapter, merged into it when it is loaded.

    Raises ModelError at the end unless exactly one was found: a family whose models are no such folder takes no
    adapter, and of two networks it is open which one is meant.
    """
    token = _PENDING.set(adapter)
    try:
        yield
    finally:
        _PENDING.reset(token)
    if len(adapter.bases) != 1:
        found = f"opens {listed(adapter.bases)}" if adapter.bases else "takes none"
        raise ModelError(
            f"an adapter is merged into one checkpoint of transformers, timm or open_clip, and its base {found}.",
            where=where,
            remedy="name the model that it was trained on, such as peft:DIR?base=hf:FOLDER (a LoRA of a Stable "
            f"Diffusion is named by diffusion:FOLDER?lora=FILE); or {MERGE}",
        )


def taken_adapter(folder: Path) -> Adapter | None:
    """The adapter for a folder that is being found; None outside of `adapting`."""
    adapter = _PENDING.get()
    if adapter is not None:
        adapter.bases.append(str(folder))
    return adapter


def taken_weights(path: Path) -> Adapter | None:
    """As `taken_adapter`, for a base whose way to read texts and pictures stays its own. Raises ModelError for an
    adapter that brings files that decide it."""
    adapter = taken_adapter(path)
    if adapter and (own := files_named(adapter.path, READING_FILES)):
        raise ModelError(
            f"the adapter brings its own {', '.join(own)}, which its base does not read.",
            where=str(adapter.path),
            remedy="remove these files, if the model was trained as the base reads texts and pictures",
        )
    return adapter


def find_adapter(folder: Path) -> Adapter:
    """Look into an adapter's folder, which `judged_folder` has accepted, refuse what cannot be trusted, and hash the
    rest. Raises ModelError."""
    if not (folder / CONFIG).is_file():
        inside = sorted(path.parent.name for path in folder.glob(f"*/{CONFIG}"))
        raise ModelError(
            f"the folder holds no {CONFIG}.",
            where=str(folder),
            remedy=f"name the adapter in it: {folder / inside[0]}"
            if inside
            else right_uri(folder, "peft") or "save it with peft's save_pretrained",
        )
    config = read_peft_settings(read_config(folder / CONFIG), str(folder / CONFIG))
    if not (folder / WEIGHTS).is_file():
        raise no_weights(folder, WEIGHTS, "save the adapter with peft's save_pretrained, which writes safetensors")
    require_weights(folder / WEIGHTS)
    return Adapter(folder, config, HashedFiles.of({"config": folder / CONFIG, "weights": folder / WEIGHTS}))


def named_base(folder: Path) -> str:
    """What an adapter's config calls its base, for a message: a hub id, or a path of the machine that trained it."""
    with contextlib.suppress(ModelError):
        return str(read_config(folder / CONFIG).get("base_model_name_or_path") or "")[:200]
    return ""


def merge_adapter(model: Any, adapter: Adapter) -> None:
    """Merge an adapter into a network, in place: all of it, or a ModelError says what is left over."""
    from safetensors.torch import load_file

    from fairgate.models.checkpoints.weights import require_finite

    adapter.files.require_unchanged()
    tensors = load_file(adapter.path / WEIGHTS)
    require_finite(tensors, str(adapter.path))
    merge_by_peft(model, adapter.config, tensors, str(adapter.path))
