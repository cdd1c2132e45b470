"""Low-rank updates of a network's weights (Hu et al. 2021, LoRA), merged into them before the network is used.

W becomes W + scale * up @ down; with a magnitude m (Liu et al. 2024, DoRA) m * W' / |W'|, where W' is that sum and the
norm is of each output's weights. A merged network has the parts of the plain one: nothing else has to know of it.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fairgate.ground.errors import ModelError, did_you_mean, listed

_LINEAR_TOO = ("timm.layers.linear", "timm.layers.conv2d_same")
"""Modules of layers that compute as PyTorch's, with a padding of their own: peft adds a layer of the same kind."""
_AGAIN = "save the adapter again, whole, for the model that it is used with; or merge it there, and name the result"


@dataclass(frozen=True, slots=True)
class LowRank:
    """An update of one layer: `down` is (rank, in, ...), `up` (out, rank, ...), `magnitude` (out,) where there is one.

    Of an embedding, in is the number of tokens and out the width.
    """

    down: torch.Tensor
    up: torch.Tensor
    scale: float
    magnitude: torch.Tensor | None = None


def merge_low_rank(model: torch.nn.Module, updates: Mapping[str, LowRank], where: str) -> None:
    """Add every update, by the name of its layer, to the weights of a model: computed in float32, and in place.

    Layers: linear ones, convolutions, embeddings. Raises ModelError for a layer that there is not, that is of another
    kind, whose weight another layer shares, where an update that is not merged has another effect, or that an update
    does not fit; and for weights that come out as NaN.
    """
    layers = dict(model.named_modules())
    if absent := [name for name in updates if name not in layers]:
        raise _unfit(f"the model has no layer {listed(absent)}", where, did_you_mean(absent[0], layers))
    shared = shared_weights(model)
    for name, update in updates.items():
        layer: Any = layers[name]
        if not is_adaptable(layer):
            raise _unfit(f"'{name}' is a {type(layer).__name__}, of which fairgate merges no update", where)
        if layer.weight.data_ptr() in shared:
            raise _unfit(f"the weight of '{name}' is another layer's too, which would change with it", where)
        acts = update.up.any() or update.magnitude is not None
        if acts and (reason := differs_unmerged(layers[name.rpartition(".")[0]], name.rpartition(".")[2], layer)):
            raise _unfit(f"an adapter of '{name}' does something else before it is merged: {reason}", where)
        merged = _merged(layer, update, f"'{name}'", where)
        if not torch.isfinite(merged).all():
            raise _unfit(f"the weight of '{name}' becomes NaN or infinite", where)
        with torch.no_grad():
            layer.weight.copy_(merged)


def shared_weights(model: torch.nn.Module) -> set[int]:
    """Addresses of weights that a model has under several names, such as an embedding that is also the last layer."""
    uses = Counter(each.data_ptr() for _, each in model.named_parameters(remove_duplicate=False))
    return {address for address, count in uses.items() if count > 1}


def is_adaptable(layer: torch.nn.Module) -> bool:
    """Whether a layer is of a kind that an update can be merged into."""
    if isinstance(layer, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d):
        return layer.groups == 1
    return isinstance(layer, torch.nn.Linear) or _is_turned(layer)


def differs_unmerged(parent: torch.nn.Module, name: str, layer: torch.nn.Module) -> str | None:
    """Why peft's layer around this one gives other numbers than the merged one; None where both give the same."""
    kinds = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
    kind = next((each for each in kinds if isinstance(layer, each)), None)
    if kind and type(layer).forward is not kind.forward and type(layer).__module__ not in _LINEAR_TOO:
        return f"{type(layer).__name__} is no plain {kind.__name__}"
    if getattr(layer, "padding_mode", "zeros") != "zeros":
        return "it does not pad with zeros"
    taken = re.compile(rf"(?<!isinstance\()\bself\.{re.escape(name)}\.weight\b(?!\.(?:dtype|device|shape)\b)")
    for method, function in inspect.getmembers(type(parent), inspect.isfunction):
        if "forward" in method and taken.search(_source(function)):
            return f"{type(parent).__name__} takes its weight alone, without what peft adds"
    return None


def _source(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except OSError:  # installed without
        return ""


def _is_turned(layer: torch.nn.Module) -> bool:
    """Whether a layer's weight is (in, out): an embedding, and the linear layers of GPT-2."""
    return isinstance(layer, torch.nn.Embedding) or type(layer).__name__ == "Conv1D"


def _merged(layer: Any, update: LowRank, name: str, where: str) -> torch.Tensor:
    """The new weight, in float32."""
    turned = _is_turned(layer)
    weight: torch.Tensor = (layer.weight.T if turned else layer.weight).detach().float()
    down, up = update.down.float(), update.up.float()
    rank, shapes = len(down), f"{tuple(up.shape)} by {tuple(down.shape)}"
    if down.ndim < 2 or down.shape[1:] != weight.shape[1:] or up.shape != (len(weight), rank, *[1] * (up.ndim - 2)):
        raise _unfit(f"{name} is {tuple(weight.shape)}, and its update {shapes}", where)
    weight = weight + ((up.flatten(1) @ down.flatten(1)) * update.scale).reshape(weight.shape)
    if update.magnitude is not None:
        if update.magnitude.numel() != len(weight) or isinstance(layer, torch.nn.Embedding):
            raise _unfit(f"{name} has {len(weight)} outputs, and a magnitude of {update.magnitude.numel()}", where)
        lengths = torch.linalg.norm(weight.flatten(1), dim=1)
        weight = weight * (update.magnitude.float().flatten() / lengths).reshape(-1, *[1] * (weight.ndim - 1))
    return weight.T if turned else weight


def _unfit(fault: str, where: str, near: str | None = None) -> ModelError:
    return ModelError(
        f"the adapter does not fit the model: {fault}{f' ({near})' if near else ''}.", where=where, remedy=_AGAIN
    )
