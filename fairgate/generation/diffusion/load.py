"""Loading the parts of a diffusion pipeline from hashed files: whole, of the right shape, and quietly."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers
from diffusers.utils import logging as diffusers_logging
from transformers.utils import logging as transformers_logging

from fairgate.checkpoints import naming_folder, require_finite, require_loaded, require_stored, silenced


def load_unet_or_vae(class_name: str, folder: Path, dtype: torch.dtype, variant: str | None = None) -> Any:
    """A UNet or VAE of diffusers. Raises ModelError: tensors missing, misshapen, made up or NaN."""
    return _loaded(getattr(diffusers, class_name), folder, variant, low_cpu_mem_usage=True, torch_dtype=dtype)


def load_text_encoder(class_name: str, folder: Path, variant: str | None = None) -> Any:
    """A text encoder of transformers, in float32. Raises ModelError as above."""
    return _loaded(getattr(transformers, class_name), folder, variant).float()


def _loaded(model_class: Any, folder: Path, variant: str | None, **options: Any) -> Any:
    with quiet(), naming_folder(folder), torch.random.fork_rng(devices=[]):
        require_stored(_described(model_class, folder), folder.glob("*.safetensors"), str(folder))
        model, report = model_class.from_pretrained(
            folder,
            variant=variant,
            use_safetensors=True,
            local_files_only=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **options,
        )
    require_loaded(report, str(folder), model_class.__name__)
    require_finite(model.state_dict(), str(folder))
    return model.requires_grad_(False).eval()


def load_tokenizer(class_name: str, folder: Path) -> Any:
    """A tokenizer of transformers. Raises ModelError."""
    with quiet(), naming_folder(folder):
        return getattr(transformers, class_name).from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def quiet() -> AbstractContextManager[None]:
    """No progress bars and no reports of diffusers or transformers on standard error."""
    return silenced(diffusers_logging, transformers_logging)


def _described(model_class: Any, folder: Path) -> Any:
    """The model of a folder's config, without weights."""
    with torch.device("meta"):
        if issubclass(model_class, diffusers.ModelMixin):
            return model_class.from_config(model_class.load_config(folder, local_files_only=True))
        return model_class(model_class.config_class.from_pretrained(folder, local_files_only=True))
