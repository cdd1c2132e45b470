"""Pictures prepared in two steps: up to their 8-bit levels one by one, then to float32 as a batch, on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

Prepare = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class EightBit:
    """What prepares a picture, as a call of one step or as two: levels are a quarter of the bytes to hand over."""

    levels: Prepare
    """A Pillow RGB image, resized and cropped: uint8, channels first or last. From several threads or processes."""
    finish: Callable[[torch.Tensor], torch.Tensor]
    """Levels of a batch on any device as the image tower takes them: (pictures, 3, height, width) float32."""

    def __call__(self, image: Any) -> torch.Tensor:
        return self.finish(self.levels(image)[None])[0]


def of_chain(transform: Any) -> Prepare:
    """The two steps of a transform that ends in ToTensor and Normalize, as open_clip's and timm's do."""
    import torch
    from torchvision.transforms import Compose, Normalize, ToTensor

    steps: list[Any] = list(getattr(transform, "transforms", ()))
    if len(steps) < 2 or not isinstance(steps[-2], ToTensor) or not isinstance(steps[-1], Normalize):
        return transform  # type: ignore[no-any-return]
    shape, normalizing = Compose(steps[:-2]), steps[-1]

    def levels(image: Any) -> torch.Tensor:
        return torch.from_numpy(np.array(shape(image)))

    def finish(batch: torch.Tensor) -> torch.Tensor:
        # by a tensor: a GPU multiplies by the inverse of a plain number, which rounds to other levels
        numbers = batch.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
        return normalizing(numbers.div_(torch.tensor(255.0, device=batch.device)))  # type: ignore[no-any-return]

    return _same(transform, EightBit(levels, finish))


def of_processor(processor: Any) -> Prepare:
    """An image processor of transformers as what prepares one picture, in two steps if it normalizes last."""

    def prepare(image: Any, **how: bool) -> torch.Tensor:
        return processor(images=image, return_tensors="pt", **how)["pixel_values"][0]  # type: ignore[no-any-return]

    if not (hasattr(processor, "rescale_and_normalize") and processor.do_rescale and processor.do_normalize):
        return prepare
    mean, std = tuple(processor.image_mean), tuple(processor.image_std)

    def finish(batch: torch.Tensor) -> torch.Tensor:
        return processor.rescale_and_normalize(batch, True, processor.rescale_factor, True, mean, std)  # type: ignore[no-any-return]

    return _same(prepare, EightBit(lambda image: prepare(image, do_rescale=False, do_normalize=False), finish))


def _same(prepare: Prepare, steps: EightBit) -> Prepare:
    """The two steps if they give every number of the one on a picture of noise, which has all levels; else the one."""
    import torch
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (257, 301, 3), dtype=np.uint8)
    try:
        wanted, levels = prepare(Image.fromarray(noise)), steps.levels(Image.fromarray(noise))
        alike = levels.dtype == torch.uint8 and torch.equal(steps.finish(levels[None])[0], wanted)
    except Exception:  # of any type: what a strange config raises is told when a picture is prepared
        return prepare
    return steps if alike else prepare
