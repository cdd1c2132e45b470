"""A pipeline as diffusers opens and calls it. For the isolated process."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import Device, HashedFiles, naming_folder, require_finite, require_loaded
from fairgate.models.generation.diffusion.paint import generators_of
from fairgate.models.generation.diffusion.schedule import quiet

_TYPES = {"fp32": torch.float32, "amp_bf16": torch.bfloat16, "amp_fp16": torch.float16}


class PlainPainter:
    """A loaded pipeline. Raises ModelError for parts with tensors that are missing, misshapen or NaN, and for a class
    that is no text-to-image pipeline of diffusers."""

    def __init__(self, settings: Mapping[str, Any], files: HashedFiles, device: Device) -> None:
        self.where, self._side = settings["path"], settings["side"]
        pipeline_class: Any = getattr(diffusers, settings["pipeline"], None)
        takes = _parameters(pipeline_class)
        if not {"prompt", "num_inference_steps"} <= takes or {"image", "mask_image"} & _needed(pipeline_class):
            raise ModelError(
                f"the installed diffusers ({diffusers.__version__}) has no text-to-image pipeline that is called "
                f"{settings['pipeline'][:80]}.",
                where=self.where,
                remedy="install a newer one (`pip install --upgrade diffusers`), or name a text-to-image pipeline",
            )
        self._takes = takes
        with files.closed({role: role for role in files.paths}) as folder, naming_folder(Path(self.where), folder):
            parts = {
                name: _network(folder, name, library, class_name, device, self.where)
                for name, (library, class_name) in settings["components"].items()
            }
            given = {name: part for name, part in parts.items() if part is not None}
            given |= dict.fromkeys(settings["absent"])
            with quiet():
                self.pipeline = pipeline_class.from_pretrained(folder, local_files_only=True, **given)
        self.pipeline = self.pipeline.to(device.name)
        self.pipeline.set_progress_bar_config(disable=True)

    def paint(self, prompts: Sequence[str], seeds: Sequence[int], steps: int, guidance: float) -> list[Any]:
        """A picture of each prompt and seed, (height, width, 3) uint8. Raises ModelError for one that is not finite."""
        more: dict[str, Any] = {"guidance_scale": guidance, "height": self._side, "width": self._side}
        options = {name: value for name, value in more.items() if name in self._takes and value is not None}
        with quiet():
            made = self.pipeline(
                prompt=list(prompts),
                num_inference_steps=steps,
                generator=generators_of(seeds),
                output_type="np",
                **options,
            ).images
        if not np.isfinite(made).all():
            raise ModelError("a picture is not finite.", where=self.where, remedy="check the weights; use --device cpu")
        return list((np.clip(made, 0, 1) * 255).round().astype(np.uint8))


def _parameters(pipeline_class: Any) -> frozenset[str]:
    usable = isinstance(pipeline_class, type) and issubclass(pipeline_class, diffusers.DiffusionPipeline)
    return frozenset(inspect.signature(pipeline_class.__call__).parameters) if usable else frozenset()


def _needed(pipeline_class: Any) -> set[str]:
    parameters = inspect.signature(pipeline_class.__call__).parameters.values()
    return {each.name for each in parameters if each.default is each.empty or each.name == "image"}


def _network(folder: Path, part: str, library: str, name: str, device: Device, where: str) -> Any:
    """One part with its weights, none made up; None for a part without weights, which the pipeline loads itself."""
    model_class: Any = getattr({"diffusers": diffusers, "transformers": transformers}[library], name, None)
    bases = (diffusers.ModelMixin, transformers.PreTrainedModel)
    if not (isinstance(model_class, type) and issubclass(model_class, bases)):
        return None
    opened: Any = model_class
    with quiet(), torch.random.fork_rng(devices=[]):
        model, report = opened.from_pretrained(
            folder / part,
            use_safetensors=True,
            local_files_only=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            torch_dtype=_TYPES[device.precision],
        )
    require_loaded(report, f"{where}/{part}", name)
    require_finite(model.state_dict(), f"{where}/{part}")
    return model.requires_grad_(False).eval()
