"""Puts the parts of a pipeline on their device, for good or while they compute."""

from __future__ import annotations

from typing import Any

import accelerate
import torch
from accelerate.hooks import ModelHook, add_hook_to_module

from fairgate.models.generation.offload import Offload


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

    def pre_forward(self, module: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Bring the part."""
        self._placement.bring(module)
        return args, kwargs
