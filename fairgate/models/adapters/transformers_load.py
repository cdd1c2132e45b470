"""Loading from a folder that transformers saved: whole, of the right shape, without code of its own, and quietly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import errors as hub_errors
from transformers.utils import logging

from fairgate.errors import ModelError
from fairgate.models.adapters.transformers_folder import TransformersFolder
from fairgate.models.weights import misfit, read_state_dict, require_finite, some

LOCAL = {"local_files_only": True, "trust_remote_code": False}
# what transformers raises for files that do not fit together
_LOAD_ERRORS = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ImportError),
    *(ArithmeticError, AssertionError, getattr(hub_errors, "StrictDataclassError", OSError)),  # it came with hub 0.33
)
_OLD_BUFFERS = ("position_ids",)  # transformers kept it in checkpoints before 4.31


@contextlib.contextmanager
def loading(found: TransformersFolder) -> Iterator[Path]:
    """The folder to load from, which shows the hashed files alone.

    Quietly, and what transformers raises inside becomes a ModelError that names the model's own folder.
    """
    with found.files.closed() as folder:
        try:
            with _quiet():
                yield folder
        except _LOAD_ERRORS as error:
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
    """The model in float32 on the CPU, ready to be asked. Raises ModelError: wrong or missing tensors, NaN, misfits.

    `parts` go to the model's constructor (`add_pooling_layer=False`); weights whose names start with one of `unused`
    may be there.
    """
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
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
