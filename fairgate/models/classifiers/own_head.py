"""`&head=PLACE:LAYER,LAYER`: the layers that somebody put in the place of an architecture's head.

A state dict names the layers that have weights and says nothing of those between: Dropout and ReLU look alike. So the
URI says what `print(model.fc)` shows; each layer has PyTorch's default settings, and its sizes are the weights'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairgate.ground.errors import ModelError, listed

if TYPE_CHECKING:
    import torch

_WITH_WEIGHTS = ("Linear", "BatchNorm1d", "LayerNorm")
_WITHOUT = ("Dropout", "ReLU", "GELU", "SiLU", "Hardswish", "Tanh", "Flatten", "Identity")
_MOST = 16
HINT = " (layers of your own in the place of its head are named by &head=fc:Dropout,Linear)"
"""What an error adds to an architecture whose weights do not fit it, if the URI names no head."""


@dataclass(frozen=True, slots=True)
class OwnHead:
    """The place of a module, such as "fc" or "classifier.6", and the names of PyTorch's classes that are there."""

    place: str
    layers: tuple[str, ...]

    @classmethod
    def of(cls, text: str | None, uri: str) -> OwnHead | None:
        """By an option of a URI; None without one. Raises ModelError."""
        if text is None:
            return None
        place, _, layers = text.partition(":")
        names = tuple(layers.split(","))
        odd = [name for name in names if name not in (*_WITH_WEIGHTS, *_WITHOUT)]
        if not place or odd or len(names) > _MOST:
            raise ModelError(
                f"the head has a layer that is not built: '{odd[0][:40]}'."
                if odd
                else f"the head has {len(names)} layers in the place '{place[:40]}'.",
                where=uri,
                remedy=f"write head=PLACE:LAYER,LAYER, such as head=fc:Dropout,Linear; at most {_MOST} of: "
                + ", ".join((*_WITH_WEIGHTS, *_WITHOUT)),
            )
        return cls(place, names)

    def put(self, model: torch.nn.Module, state: Mapping[str, torch.Tensor], where: str) -> None:
        """Replace the module by these layers, as large as the state dict's. Raises ModelError for a place that the
        model does not have, and for a layer without weights there."""
        from torch import nn

        places = [name for name, _ in model.named_modules() if name]
        if self.place not in places:
            parts = listed([name for name, _ in model.named_children()], 40)
            raise ModelError(
                f"the architecture has no module '{self.place[:80]}' for the head.",
                where=where,
                remedy=f"name it as print(model) does; its parts: {parts}",
            )
        layers: list[nn.Module] = []
        for number, kind in enumerate(self.layers):
            name = f"{self.place}.{number}"
            weight = state.get(f"{name}.weight")
            make: Any = getattr(nn, kind)
            if kind in _WITHOUT:
                layers.append(make())
                continue
            if weight is None or weight.ndim != (2 if kind == "Linear" else 1):
                raise ModelError(
                    f"the checkpoint has no weights of a {kind} as '{name}'.",
                    where=where,
                    remedy=f"write the layers as print(model.{self.place}) shows them, with PyTorch's own settings; of "
                    "other ones export the model: onnx:FILE?labels=FILE",
                )
            sizes = weight.shape[::-1]
            layers.append(make(*sizes, bias=f"{name}.bias" in state) if kind == "Linear" else make(*sizes))
        parent, _, last = self.place.rpartition(".")
        setattr(model.get_submodule(parent), last, nn.Sequential(*layers))
