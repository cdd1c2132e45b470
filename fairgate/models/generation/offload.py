"""Where the parts of a large model lie while a build runs: on the device, or there only while they compute.

A setting of the machine and not of a recipe: the same parts compute the same sums, so that no plan and no fingerprint
names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Offload = Literal["none", "model", "sequential"]
"""`none`: everything stays on the device. `model`: a whole part (text encoder, UNet, VAE) is there while it computes,
and the others are in the machine's memory. `sequential`: so is each layer; slow, and it needs the least."""

_HOW: ContextVar[Offload] = ContextVar("offload", default="none")


@contextmanager
def offloading(how: Offload) -> Iterator[None]:
    """Diffusion models that are opened inside lie as `how` says."""
    token = _HOW.set(how)
    try:
        yield
    finally:
        _HOW.reset(token)


def current_offload() -> Offload:
    """How models that are opened now are to lie."""
    return _HOW.get()
