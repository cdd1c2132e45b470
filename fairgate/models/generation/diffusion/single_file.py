"""A Stable Diffusion in one file, with the original names of its tensors, as training scripts leave it: converted by
diffusers' own loader, with the configs of a folder.

The loader leaves out tensors that it does not know, without an error. So it is given each tensor's number in the place
of its values first: a number that arrives in no parameter is a tensor that is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import diffusers
import torch
from diffusers.loaders.single_file import load_single_file_sub_model
from diffusers.loaders.single_file_utils import SD_2_TEXT_ENCODER_KEYS_TO_IGNORE as _NOT_READ
from safetensors import safe_open
from safetensors.torch import load_file

from fairgate.ground.errors import ModelError, listed
from fairgate.models.checkpoints import naming, require_finite
from fairgate.models.generation.diffusion.files import PipelineFiles
from fairgate.models.generation.diffusion.schedule import quiet

_NO_WEIGHTS = re.compile(
    r"betas|(sqrt_|log_|sqrt_recip_|sqrt_recipm1_)?(one_minus_)?alphas_cumprod(_prev)?|posterior_\w+"
    r"|denoiser\.(log_)?sigmas|model_ema\.(decay|num_updates)|(cond_stage_model|conditioner)\..*(logit_scale|position_ids)"
)
"""Constants of the noise schedule, which `alphas_cumprod` decides, and of averaging, and what text encoders have beside
weights."""
_FIRST = 2  # a made-up 0 or 1 is no tensor's number


def load_part(found: PipelineFiles, name: str, **options: Any) -> Any:
    """A network of the file. Raises ModelError for tensors that do not fit, or are NaN."""
    file = found.files.paths["single"]
    part = _converted(found, name, load_file(file), **options)
    require_finite(part.state_dict(), str(file))
    return part.requires_grad_(False).eval()


def require_whole(found: PipelineFiles, scheduler: Any) -> None:
    """Raises ModelError for a file of which a tensor is left out, or which lacks one, and for another noise schedule
    than that of the folder's `scheduler`."""
    file = found.files.paths["single"]
    with safe_open(file, framework="pt") as tensors:
        shapes = {name: tensors.get_slice(name).get_shape() for name in tensors.keys()}  # noqa: SIM118
        known = tensors.get_tensor("alphas_cumprod").float() if "alphas_cumprod" in shapes else None
    names, arrived = dict(enumerate(shapes, _FIRST)), set[int]()
    numbered = {name: torch.tensor(float(number)).expand(shapes[name]) for number, name in names.items()}
    for part in filter(found.is_in_file, found.components):
        for name, value in _converted(found, part, numbered).state_dict().items():
            number = 0 if value.is_meta else int(value[(0,) * value.ndim])
            if number not in names:
                raise _unfit(f"it has no {part}.{name}", found)
            arrived.add(number)
    replaced = () if found.is_in_file("vae") else ("first_stage_model.", "vae.")
    lost = [name for number, name in names.items() if number not in arrived and not name.startswith(replaced)]
    if lost := [name for name in lost if name not in _NOT_READ and not _NO_WEIGHTS.fullmatch(name)]:
        raise _unfit(f"diffusers leaves out {listed(lost)}", found)
    if known is not None and not torch.allclose(known, scheduler.alphas_cumprod, rtol=2e-3):
        raise _unfit("its alphas_cumprod are not those of scheduler_config.json", found)


def _converted(found: PipelineFiles, name: str, state: Mapping[str, torch.Tensor], **options: Any) -> Any:
    where = str(found.files.paths["single"])
    with quiet(), found.closed() as shown, naming(where, f"be loaded as the folder's {name}"):
        try:
            return load_single_file_sub_model(
                *found.components[name],
                name,
                dict(state),
                diffusers.pipelines,
                is_pipeline_module=False,
                cached_model_config_path=str(shown),
                local_files_only=True,
                **options,
            )
        except NotImplementedError as error:  # of accelerate, which cannot move a parameter without values
            raise _unfit(f"it lacks tensors of the {name}", found) from error


def _unfit(fault: str, found: PipelineFiles) -> ModelError:
    return ModelError(
        f"the file is not the pipeline of the folder: {fault}.",
        where=str(found.files.paths["single"]),
        remedy="name the folder of the model that was tuned (config=), or remove from the file what is not the model's",
    )
