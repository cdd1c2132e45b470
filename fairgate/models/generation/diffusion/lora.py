"""A LoRA in a pipeline, by diffusers' own loader: a file as diffusers, kohya's scripts or others save it.

What diffusers leaves out, or makes up, is an error: a LoRA that has no effect would be judged as its base.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from fairgate.ground.errors import FairgateError, ModelError, listed
from fairgate.models.checkpoints import read_peft_settings, require_finite, versions
from fairgate.models.generation.diffusion.files import PipelineFiles
from fairgate.models.generation.diffusion.schedule import quiet

_PARTS = ("unet", "text_encoder", "text_encoder_2")
_HEADER = "lora_adapter_metadata"
"""Where diffusers notes the settings of peft in a file."""


def merge_lora(pipeline: Any, found: PipelineFiles) -> None:
    """Merge the LoRA of a pipeline's files into its parts. Raises ModelError for one that does not fit, and for a
    header with settings that peft is not given."""
    path = found.files.paths["lora"]
    versions("peft")  # where it is missing, the error says how to install it
    where = str(path)
    header = _plain_header(path, where)
    parts = {name: part for name in _PARTS if (part := pipeline.components.get(name)) is not None}
    with warnings.catch_warnings():
        warnings.simplefilter("error" if header else "ignore", RuntimeWarning)  # of other layers than the tensors'
        count, alphas = add_lora(pipeline, parts.values(), path, found.address.lora_scale, where)
    several = any(len({each for name, each in alphas.items() if name.startswith(f"{part}.")}) > 1 for part in parts)
    if several or 0 < len(alphas) < count // 2:
        raise _unfit("layers of a part have different alphas, or some have none: diffusers mixes them up", where)
    with quiet():
        pipeline.fuse_lora(components=list(parts))
        pipeline.unload_lora_weights()


def add_lora(
    pipeline: Any, parts: Iterable[Any], file: Path, scale: float, where: str
) -> tuple[int, Mapping[str, float]]:
    """Put a LoRA into a pipeline, unmerged; returns how many tensors it has, and its alphas as diffusers names them.
    Raises ModelError for a tensor that is left out, or made up."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import load_file

    try:
        given = {name: tensor.float().requires_grad_() for name, tensor in load_file(file).items()}
        require_finite(given, where)
        config = {"unet_config": pipeline.unet.config} if hasattr(pipeline, "unet") else {}
        with quiet():
            converted, *alphas = pipeline.lora_state_dict(dict(given), return_alphas=True, **config)
            sum(tensor.sum() for tensor in converted.values()).backward()
            pipeline.load_lora_weights(
                file.parent, weight_name=file.name, adapter_name="lora", local_files_only=True, use_safetensors=True
            )
            pipeline.set_adapters(["lora"], adapter_weights=[scale])
    except FairgateError:
        raise
    except Exception as error:  # of any type: names and shapes that do not fit end in several
        raise _unfit(f"{type(error).__name__}: {str(error)[:200]}", where) from error
    if lost := [name for name, tensor in given.items() if tensor.grad is None and not name.endswith("alpha")]:
        raise _unfit(f"diffusers leaves out {listed(lost)}", where)
    adapted = [part for part in parts if getattr(part, "peft_config", None)]
    loaded = [each for part in adapted for each in get_peft_model_state_dict(part, adapter_name="lora").values()]
    own = {(_content(each, dtype), dtype) for dtype in {each.dtype for each in loaded} for each in converted.values()}
    if len(loaded) != len(converted):
        raise _unfit(f"{len(loaded)} tensors are in the pipeline, and the file has {len(converted)}", where)
    if any(each.is_meta or (_content(each, each.dtype), each.dtype) not in own for each in loaded):
        raise _unfit("a tensor in the pipeline is not the file's: half of an update is missing", where)
    return len(loaded), (alphas[0] if alphas else None) or {}


def _content(tensor: torch.Tensor, dtype: torch.dtype) -> bytes:
    """Digest of a tensor's numbers in another precision."""
    numbers = tensor.detach().to("cpu", dtype).contiguous().view(torch.uint8).numpy()
    return hashlib.sha256(numbers.data).digest()


def _plain_header(path: Path, where: str) -> Any:
    """The settings in a file's header. Raises ModelError for more than numbers, switches and names."""
    try:
        with safe_open(path, framework="pt") as handle:
            settings = json.loads((handle.metadata() or {}).get(_HEADER, "{}"))
    except (SafetensorError, ValueError) as error:
        raise _unfit("its header cannot be read", where) from error
    for part in _PARTS if isinstance(settings, dict) else ():
        own = {name.removeprefix(f"{part}."): value for name, value in settings.items() if name.startswith(f"{part}.")}
        if read_peft_settings({"peft_type": "LORA", **own}, where).expressions:
            raise _unfit(f"its header chooses layers of {part} by an expression", where)
    return settings


def _unfit(fault: str, where: str) -> ModelError:
    return ModelError(
        f"the LoRA does not fit the pipeline: {fault}.",
        where=where,
        remedy="save it whole for this pipeline (pipeline.save_lora_weights, or a script of kohya); or fuse it where "
        "it was trained (pipeline.fuse_lora), save the pipeline, and name that",
    )
