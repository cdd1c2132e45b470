"""Parts of a pipeline from its hashed files: networks and tokenizers, whole and finite or an error; and their place, on
the device for good or while they compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import accelerate
import diffusers
import torch
import transformers
from accelerate.hooks import ModelHook, add_hook_to_module

from fairgate.models.checkpoints import naming, require_finite, require_loaded, require_stored
from fairgate.models.generation.diffusion.files import PipelineFiles
from fairgate.models.generation.diffusion.schedule import quiet
from fairgate.models.generation.diffusion.single_file import load_part
from fairgate.models.generation.offload import Offload


def load_component(found: PipelineFiles, name: str, **options: Any) -> Any:
    """A network or tokenizer from its hashed files. Raises ModelError: tensors missing, misshapen, made up or NaN."""
    if found.is_in_file(name):
        return load_part(found, name, **options)
    library, class_name = found.components[name]
    part_class: Any = getattr({"diffusers": diffusers, "transformers": transformers}[library], class_name)
    with found.closed() as shown, naming(str(found.folder), "be loaded", shown):
        if name.startswith("tokenizer"):
            with quiet():
                return part_class.from_pretrained(shown / name, local_files_only=True, trust_remote_code=False)
        folder, where = shown / name, str(found.folder_of(name))
        require_stored(_described(part_class, folder), folder.glob("*.safetensors"), where)
        return load_network(part_class, folder, where, **options)


def load_network(model_class: Any, folder: Path, where: str, **options: Any) -> Any:
    """A network of diffusers or transformers from a folder. Raises ModelError for tensors that are missing, misshapen,
    made up or NaN."""
    loaded = {"use_safetensors": True, "local_files_only": True, "output_loading_info": True}
    with quiet(), torch.random.fork_rng(devices=[]):
        model, report = model_class.from_pretrained(folder, ignore_mismatched_sizes=True, **loaded, **options)
    require_loaded(report, where, model_class.__name__)
    require_finite(model.state_dict(), where)
    return model.requires_grad_(False).eval()


def _described(model_class: Any, folder: Path) -> Any:
    """The model of a folder's config, without weights."""
    with torch.device("meta"):
        if issubclass(model_class, diffusers.ModelMixin):
            return model_class.from_config(model_class.load_config(folder, local_files_only=True))
        return model_class(model_class.config_class.from_pretrained(folder, local_files_only=True))


class Placement:
    """Of one pipeline and its refiner: with `model`, their parts take turns on one device."""

    def __init__(self, device: torch.device, how: Offload) -> None:
        self.device, self.how = device, how
        self.there: Any = None
        """The part that is on the device, where they take turns."""

    def place(self, part: Any) -> Any:
        """The part, where it is to lie. Call it once for each, when its weights are final."""
        if self.how == "none":
            return part.to(self.device)
        if self.how == "sequential":  # as diffusers' enable_sequential_cpu_offload
            return accelerate.cpu_offload(part, self.device, offload_buffers=bool(part._parameters))
        return add_hook_to_module(part.to("cpu"), _Turn(self))

    def bring(self, part: Any) -> None:
        """Put a part on the device, and the one that was there back into the machine's memory."""
        if part is not self.there:
            if self.there is not None:
                self.there.to("cpu")
            self.there = part.to(self.device)


class _Turn(ModelHook):  # type: ignore[misc] # accelerate has no types
    """Runs before a part computes; diffusers calls it before `encode` and `decode` of a VAE, too."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self.execution_device = placement.device  # a pipeline of diffusers computes there

    def pre_forward(self, module: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Bring the part."""
        self._placement.bring(module)
        return args, kwargs
