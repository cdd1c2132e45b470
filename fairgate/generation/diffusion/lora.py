"""A LoRA on a Stable Diffusion: a file as diffusers or kohya's scripts save it, merged into the UNet and text encoders.

Names and layouts are read by diffusers' own conversion (`lora_state_dict`); the sums are `merge_low_rank`'s. What is
not applied is an error: a LoRA that has no effect would be judged as its base.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import diffusers
import torch
from safetensors import SafetensorError, safe_open

from fairgate.checkpoints import LowRank, merge_low_rank, naming_folder
from fairgate.errors import ModelError
from fairgate.generation.diffusion.files import LoraFile, PipelineFiles

_PARTS = ("unet", "text_encoder", "text_encoder_2")
_NAME = re.compile(r"(?P<part>unet|text_encoder|text_encoder_2)\.(?P<layer>.+?)[._](?P<kind>lora\w*(\.\w+)?)\.weight")
_SIDES = {
    **dict.fromkeys(("lora_A", "lora.down", "lora_down", "lora_linear_layer.down"), "down"),
    **dict.fromkeys(("lora_B", "lora.up", "lora_up", "lora_linear_layer.up"), "up"),
}
_OLD_LAYERS = {
    "unet": {"to_q": "to_q", "to_k": "to_k", "to_v": "to_v", "to_out": "to_out.0"},
    "text": {"to_q": "q_proj", "to_k": "k_proj", "to_v": "v_proj", "to_out": "out_proj"},
}
_SETTINGS = {"use_dora": False, "use_rslora": False, "bias": "none", "rank_pattern": {}, "alpha_pattern": {}}
"""Settings of peft that a file's header may hold, and the value that each must have."""


def merge_lora(found: PipelineFiles, parts: Mapping[str, Any]) -> None:
    """Merge a pipeline's LoRA into its parts, by name. Raises ModelError for tensors that are not applied, for layers
    that there are not, and for settings that change how they are applied."""
    lora = found.lora
    if lora is None:
        return
    where, updates = str(lora.path), _updates(lora, found, parts["unet"].config)
    for part, layers in updates.items():
        if part not in parts:
            raise _unfit(f"it is for the part '{part}', which the pipeline does not have", where)
        merge_low_rank(parts[part], {_there(parts[part], name): one for name, one in layers.items()}, where)


def _updates(lora: LoraFile, found: PipelineFiles, config: Any) -> dict[str, dict[str, LowRank]]:
    """Part -> layer -> update, scaled as the file and the URI say."""
    where = str(lora.path)
    try:
        with safe_open(lora.path, framework="pt") as handle:
            header = handle.metadata() or {}
            state = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118 - no mapping
    except SafetensorError as error:
        raise _unfit(f"it cannot be read ({error})", where) from error
    if odd := [name for name in state if "dora" in name or "magnitude" in name]:
        raise _unfit(f"it has magnitudes (DoRA), such as '{odd[0][:80]}'", where)
    with naming_folder(lora.path):
        pipeline = getattr(diffusers, found.pipeline)
        converted, alphas = pipeline.lora_state_dict(dict(state), unet_config=config)
    given = sum(not name.endswith(".alpha") for name in state)
    if not given or len(converted) != given:
        raise _unfit(f"{len(converted)} of its {given} tensors have names that diffusers knows", where)
    scales = _scales(header, where)
    sides: dict[tuple[str, str], dict[str, torch.Tensor]] = {}
    for name, tensor in converted.items():
        part, layer, side = _placed(name, where)
        sides.setdefault((part, layer), {})[side] = tensor
    ranked = {_placed(name.removesuffix(".alpha"), where)[:2]: float(alpha) for name, alpha in (alphas or {}).items()}
    updates: dict[str, dict[str, LowRank]] = {}
    for (part, layer), both in sides.items():
        if set(both) != {"down", "up"}:
            raise _unfit(f"of '{part}.{layer}' it has one half of the update alone", where)
        rank = len(both["down"])
        scale = ranked.get((part, layer), scales.get(part, 1.0) * rank) / rank
        updates.setdefault(part, {})[layer] = LowRank(both["down"], both["up"], scale * lora.scale)
    return updates


def _scales(header: Mapping[str, str], where: str) -> dict[str, float]:
    """Part -> alpha / rank, of the settings that diffusers writes into a file's header; a part without them has 1."""
    try:
        held = json.loads(header.get("lora_adapter_metadata", "{}"))
    except ValueError as error:
        raise _unfit("its header is no JSON", where) from error
    found = {}
    for part in _PARTS if isinstance(held, dict) else ():
        settings = {name.removeprefix(f"{part}."): value for name, value in held.items() if name.startswith(f"{part}.")}
        for name, plain in _SETTINGS.items():
            if settings.get(name, plain) not in (plain, None):
                raise _unfit(f"its header sets {part}.{name} to {str(settings[name])[:80]}, which is not merged", where)
        if "r" in settings and "lora_alpha" in settings:
            rank, alpha = settings["r"], settings["lora_alpha"]
            if not all(isinstance(one, int | float) and one > 0 for one in (rank, alpha)):
                raise _unfit(f"its header gives rank {str(rank)[:20]} and alpha {str(alpha)[:20]}", where)
            found[part] = alpha / rank
    return found


def _placed(name: str, where: str) -> tuple[str, str, str]:
    """A tensor's part, layer and side: "down" or "up"."""
    parsed = _NAME.fullmatch(name)
    kind = parsed["kind"] if parsed else ""
    if parsed is None or kind not in _SIDES:
        raise _unfit(f"it has the tensor '{name[:80]}', which is no update of a known layer", where)
    part, layer = parsed["part"], parsed["layer"]
    above, _, last = layer.rpartition(".")
    old = _OLD_LAYERS["unet" if part == "unet" else "text"]
    if kind.startswith("lora.") and last in old:  # to_q_lora.down: layers as diffusers named them in 2023
        layer = f"{above.removesuffix('.processor')}.{old[last]}"
    return part, layer, _SIDES[kind]


def _there(model: Any, layer: str) -> str:
    """A layer's name in the model: text encoders lost a prefix in later transformers."""
    layers = dict(model.named_modules())
    for name in (layer, layer.removeprefix("text_model."), f"text_model.{layer}"):
        if name in layers:
            return name
    return layer


def _unfit(fault: str, where: str) -> ModelError:
    return ModelError(
        f"the LoRA does not fit the pipeline: {fault}.",
        where=where,
        remedy="save it whole for this pipeline (pipeline.save_lora_weights, or a script of kohya); or fuse it "
        "(pipeline.fuse_lora), save the pipeline, and name that",
    )
