"""Loading the parts of a diffusion pipeline from hashed files: whole, of the right shape, and quietly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers
from diffusers.utils import logging as diffusers_logging
from huggingface_hub import errors as hub_errors
from transformers.utils import logging as transformers_logging

from fairgate.checkpoints.weights import misfit, require_finite, some
from fairgate.errors import ModelError

# what the libraries raise for files that do not fit together
_LOAD_ERRORS = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ImportError),
    *(ArithmeticError, AssertionError, NotImplementedError, getattr(hub_errors, "StrictDataclassError", OSError)),
)
_OLD_BUFFERS = ("position_ids",)  # transformers kept it in checkpoints before 4.31


def load_unet_or_vae(class_name: str, folder: Path, dtype: torch.dtype, variant: str | None = None) -> Any:
    """A UNet or VAE of diffusers. Raises ModelError: tensors missing, misshapen, made up or NaN."""
    return _loaded(getattr(diffusers, class_name), folder, variant, low_cpu_mem_usage=True, torch_dtype=dtype)


def load_text_encoder(class_name: str, folder: Path, variant: str | None = None) -> Any:
    """A text encoder of transformers, in float32. Raises ModelError as above."""
    return _loaded(getattr(transformers, class_name), folder, variant).float()


def _loaded(model_class: Any, folder: Path, variant: str | None, **options: Any) -> Any:
    with quiet(), _naming(folder), torch.random.fork_rng(devices=[]):
        _require_stored(model_class, folder)
        model, report = model_class.from_pretrained(
            folder,
            variant=variant,
            use_safetensors=True,
            local_files_only=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **options,
        )
    _require_fit(report, folder, model_class.__name__)
    require_finite(model.state_dict(), str(folder))
    return model.requires_grad_(False).eval()


def load_tokenizer(class_name: str, folder: Path) -> Any:
    """A tokenizer of transformers. Raises ModelError."""
    with quiet(), _naming(folder):
        return getattr(transformers, class_name).from_pretrained(folder, local_files_only=True, trust_remote_code=False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no reports of diffusers or transformers on standard error."""
    libraries = (diffusers_logging, transformers_logging)
    levels = [library.get_verbosity() for library in libraries]
    bars = [library.is_progress_bar_enabled() for library in libraries]
    for library in libraries:
        library.set_verbosity_error()
        library.disable_progress_bar()
    try:
        yield
    finally:
        for library, level, bar in zip(libraries, levels, bars, strict=True):
            library.set_verbosity(level)
            if bar:
                library.enable_progress_bar()


@contextlib.contextmanager
def _naming(folder: Path) -> Iterator[None]:
    try:
        yield
    except _LOAD_ERRORS as error:
        raise ModelError(
            f"the folder could not be loaded ({type(error).__name__}: {str(error)[:500]}).",
            where=str(folder),
            remedy="save the whole pipeline again with save_pretrained",
        ) from error


def _require_stored(model_class: Any, folder: Path) -> None:
    """Raises ModelError for a config that describes more parameters than the folder's weights have bytes."""
    with torch.device("meta"):
        if issubclass(model_class, diffusers.ModelMixin):
            model = model_class.from_config(model_class.load_config(folder, local_files_only=True))
        else:
            model = model_class(model_class.config_class.from_pretrained(folder, local_files_only=True))
    described = sum(parameter.numel() for parameter in model.parameters())
    stored = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if described > stored:
        raise misfit(
            f"it has {described:,} parameters, and the weights {stored:,} bytes", str(folder), "its config.json"
        )


def _require_fit(report: dict[str, Any], folder: Path, architecture: str) -> None:
    """Both libraries fill what is missing with random numbers and go on; a dataset must not be made of them."""
    shapes = sorted(str(key[0] if isinstance(key, tuple) else key) for key in report.get("mismatched_keys") or ())
    if shapes or report.get("error_msgs"):
        found = some(shapes) if shapes else str(report["error_msgs"])[:300]
        raise misfit(f"tensors have other shapes: {found}", str(folder), architecture)
    for kind in ("missing", "unexpected"):
        names = sorted(name for name in report[f"{kind}_keys"] if not name.endswith(_OLD_BUFFERS))
        if names:
            raise misfit(f"{len(names)} tensors are {kind}: {some(names)}", str(folder), architecture)
