"""`&head=PLACE:LAYER,LAYER`: the layers that somebody put in the place of an architecture's head.

A state dict names the layers that have weights and says nothing of those between: Dropout and ReLU look alike. So the
URI says what `print(model.fc)` shows; each layer has PyTorch's default settings, and its sizes are the weights'.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairgate.ground.errors import ModelError, listed

if TYPE_CHECKING:
    import torch

_WITH_WEIGHTS = ("Linear", "BatchNorm1d", "LayerNorm")
_WITHOUT = ("Dropout", "ReLU", "GELU", "SiLU", "Hardswish", "Tanh", "Flatten", "Identity")
HINT = " (layers of your own in the place of its head are named by &head=fc:Dropout,Linear)"
"""What an error adds to an architecture whose weights do not fit it, if the URI names no head."""


def put_head(model: torch.nn.Module, head: str, state: Mapping[str, torch.Tensor], where: str) -> None:
    """Replace a module of a model by the layers that a URI names, as large as the state dict's. Raises ModelError for a
    place that the model does not have, a layer that is not built, and one without weights there."""
    from torch import nn

    place, _, named = head.partition(":")
    if place not in [name for name, _ in model.named_modules() if name]:
        raise ModelError(
            f"the architecture has no module '{place[:80]}' for the head.",
            where=where,
            remedy="write head=PLACE:LAYER,LAYER, with the place as print(model) names it; its parts: "
            + listed([name for name, _ in model.named_children()], 40),
        )
    layers: list[nn.Module] = []
    for number, kind in enumerate(named.split(",")):
        if kind not in (*_WITH_WEIGHTS, *_WITHOUT):
            raise ModelError(
                f"the head has a layer that is not built: '{kind[:40]}'.",
                where=where,
                remedy=f"write head={place}:LAYER,LAYER with some of: {', '.join((*_WITH_WEIGHTS, *_WITHOUT))}; of "
                "other ones export the model: onnx:FILE?labels=FILE",
            )
        make: Any = getattr(nn, kind)
        if kind in _WITHOUT:
            layers.append(make())
            continue
        name = f"{place}.{number}"
        weight = state.get(f"{name}.weight")
        if weight is None or weight.ndim != (2 if kind == "Linear" else 1):
            raise ModelError(
                f"the checkpoint has no weights of a {kind} as '{name}'.",
                where=where,
                remedy=f"write the layers as print(model.{place}) shows them, with PyTorch's own settings; of other "
                "ones export the model: onnx:FILE?labels=FILE",
            )
        sizes = weight.shape[::-1]
        layers.append(make(*sizes, bias=f"{name}.bias" in state) if kind == "Linear" else make(*sizes))
    model.set_submodule(place, nn.Sequential(*layers))
