"""Parts of a pipeline from its hashed files: networks and tokenizers, whole and finite or an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers

from fairgate.models.checkpoints import naming_folder, require_finite, require_loaded, require_stored
from fairgate.models.generation.diffusion.files import PipelineFiles
from fairgate.models.generation.diffusion.schedule import quiet


def load_component(
    model_class: Any, found: PipelineFiles, name: str, variant: str | None = None, **options: Any
) -> Any:
    """A component from its hashed files. Raises ModelError: tensors missing, misshapen, made up or NaN."""
    folder = found.folder_of(name)
    with quiet(), found.closed(name) as shown, naming_folder(folder, shown), torch.random.fork_rng(devices=[]):
        require_stored(_described(model_class, shown), shown.glob("*.safetensors"), str(folder))
        model, report = model_class.from_pretrained(
            shown,
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


def load_tokenizer(class_name: str, found: PipelineFiles, name: str) -> Any:
    """A tokenizer of transformers. Raises ModelError."""
    with quiet(), found.closed(name) as shown, naming_folder(found.folder / name, shown):
        return getattr(transformers, class_name).from_pretrained(shown, local_files_only=True, trust_remote_code=False)


def _described(model_class: Any, folder: Path) -> Any:
    """The model of a folder's config, without weights."""
    with torch.device("meta"):
        if issubclass(model_class, diffusers.ModelMixin):
            return model_class.from_config(model_class.load_config(folder, local_files_only=True))
        return model_class(model_class.config_class.from_pretrained(folder, local_files_only=True))
