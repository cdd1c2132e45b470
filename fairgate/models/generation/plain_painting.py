"""Pipelines of any class as diffusers opens and calls them, for the isolated process."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers
from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING

from fairgate.ground.errors import ModelError
from fairgate.models import checkpoints
from fairgate.models.generation.diffusion.components import load_network
from fairgate.models.generation.diffusion.files import PipelineFiles
from fairgate.models.generation.diffusion.lora import add_lora
from fairgate.models.generation.diffusion.paint import generators_of, in_fitting_batches
from fairgate.models.generation.diffusion.pipeline import too_long
from fairgate.models.generation.diffusion.schedule import quiet, require_seeded

_TYPES = {"fp32": torch.float32, "amp_bf16": torch.bfloat16, "amp_fp16": torch.float16}


class PlainPainter:
    """A loaded pipeline: `settings` have its `path`, its files as they were `found`, and the `side` of its pictures.

    Raises ModelError for parts with tensors that are missing, misshapen or NaN, and for a class that is no
    text-to-image pipeline of diffusers."""

    def __init__(self, settings: Mapping[str, Any], _: checkpoints.HashedFiles, device: checkpoints.Device) -> None:
        found: PipelineFiles = settings["found"]
        self.where, self._side = settings["path"], settings["side"]
        pipeline_class: Any = getattr(diffusers, found.pipeline, None)
        takes = _parameters(pipeline_class)
        if not {"prompt", "num_inference_steps"} <= takes.keys() or _needs_picture(pipeline_class, takes):
            raise ModelError(
                f"the installed diffusers ({diffusers.__version__}) has no text-to-image pipeline that is called "
                f"{found.pipeline[:80]}.",
                where=self.where,
                remedy="install a newer one (`pip install --upgrade diffusers`), or name a text-to-image pipeline",
            )
        self._takes = takes
        with found.closed() as folder, checkpoints.naming(self.where, "be loaded", folder):
            parts = {
                name: _network(folder, name, *found.components[name], device, self.where) for name in found.components
            }
            given = {name: part for name, part in parts.items() if part is not None}
            given |= {name: None for name, entry in found.index.items() if isinstance(entry, list) and not any(entry)}
            with quiet():
                self.pipeline = pipeline_class.from_pretrained(folder, local_files_only=True, **given)
            if lora := found.files.paths.get("lora"):
                add_lora(self.pipeline, self.pipeline.components.values(), lora, found.address.lora_scale, self.where)
        self.pipeline = self.pipeline.to(device.name)
        self.pipeline.set_progress_bar_config(disable=True)
        require_seeded(getattr(self.pipeline.components.get("scheduler"), "config", {}), self.where)

    def paint(self, prompts: Sequence[str], seeds: Sequence[int], steps: int, guidance: float) -> list[Any]:
        """A picture of each prompt and seed, (height, width, 3) uint8. Raises ModelError for one that is not finite or
        of another size, and for a prompt of which every tokenizer cuts the end off; DeviceError for too little memory.
        """
        for prompt in dict.fromkeys(prompts):
            self._require_short(prompt)
        return in_fitting_batches(partial(self._paint, steps, guidance), prompts, seeds, self.pipeline.device)

    def _paint(self, steps: int, guidance: float, prompts: Sequence[str], seeds: Sequence[int]) -> list[Any]:
        """Pictures of one call, or one a call if the pipeline draws from torch's own generator too, as those do that
        write a prompt anew: what is drawn there for several pictures belongs to none of their seeds."""
        torch.manual_seed(seeds[0])
        before = self._drawn()
        made = self._called(steps, guidance, prompts, seeds)
        if len(seeds) == 1 or torch.equal(before, self._drawn()):
            return made
        alone = zip(prompts, seeds, strict=True)
        return [self._paint(steps, guidance, [prompt], [seed])[0] for prompt, seed in alone]

    def _drawn(self) -> torch.Tensor:
        """The state of torch's own generators, which each draw changes."""
        cuda = [torch.cuda.get_rng_state(self.pipeline.device)] if self.pipeline.device.type == "cuda" else []
        return torch.cat([torch.get_rng_state(), *cuda])

    def _called(self, steps: int, guidance: float, prompts: Sequence[str], seeds: Sequence[int]) -> list[Any]:
        more: dict[str, Any] = {"guidance_scale": guidance, "height": self._side, "width": self._side}
        options = {name: value for name, value in more.items() if name in self._takes and value is not None}
        with quiet(), checkpoints.naming(self.where, "paint"):
            made = self.pipeline(
                prompt=list(prompts),
                num_inference_steps=steps,
                generator=generators_of(seeds),
                output_type="np",
                **options,
            ).images
        if not np.isfinite(made).all():
            raise ModelError("a picture is not finite.", where=self.where, remedy="check the weights; use --device cpu")
        if self._side and made.shape[1:3] != (self._side, self._side):  # diffusers rounds, and warns on standard error
            raise ModelError(
                f"a picture of {self._side} pixels a side cannot be made: it is {made.shape[2]} x {made.shape[1]}.",
                where=self.where,
                remedy="write another ?size=, such as a multiple of 32; or leave it out",
            )
        return list((np.clip(made, 0, 1) * 255).round().astype(np.uint8))

    def _require_short(self, prompt: str) -> None:
        longest = getattr(self._takes.get("max_sequence_length"), "default", None)  # CLIP's own limit is less
        parts = self.pipeline.components.values()
        tokenizers = [each for each in parts if isinstance(each, transformers.PreTrainedTokenizerBase)]
        limits = [
            longest if isinstance(longest, int) and "CLIP" not in type(each).__name__ else each.model_max_length
            for each in tokenizers
        ]
        lengths = [len(each(prompt, verbose=False).input_ids) for each in tokenizers]
        if tokenizers and all(length > limit for length, limit in zip(lengths, limits, strict=True)):
            raise too_long(prompt, min(lengths), max(limits), self.where)


def _parameters(pipeline_class: Any) -> Mapping[str, inspect.Parameter]:
    """What a pipeline's call takes; nothing of what is no pipeline."""
    usable = isinstance(pipeline_class, type) and issubclass(pipeline_class, diffusers.DiffusionPipeline)
    return inspect.signature(pipeline_class.__call__).parameters if usable else {}


def _needs_picture(pipeline_class: Any, takes: Mapping[str, inspect.Parameter]) -> bool:
    """Whether a call needs a picture. One that edits has a default for it too, and is told by the library's list of
    those that paint from a text alone: FLUX.2 does both."""
    listed = pipeline_class in AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values()
    paints = listed and "ControlNet" not in pipeline_class.__name__
    shown = {"image", "images", "mask_image"} & takes.keys()
    needed = {name for name in shown if takes[name].default is inspect.Parameter.empty}
    return bool(needed if paints else needed | shown - {"mask_image"})


def _network(folder: Path, part: str, library: str, name: str, device: checkpoints.Device, where: str) -> Any:
    """One part with its weights, none made up; None for a part without weights, which the pipeline loads itself."""
    model_class: Any = getattr({"diffusers": diffusers, "transformers": transformers}[library], name, None)
    bases = (diffusers.ModelMixin, transformers.PreTrainedModel)
    if not (isinstance(model_class, type) and issubclass(model_class, bases)):
        return None
    return load_network(model_class, folder / part, f"{where}/{part}", torch_dtype=_TYPES[device.precision])
