"""Weights of a classifier that say nothing but numbers, loaded into an architecture that a library names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import Device, HashedFiles, read_state_dict, require_finite, require_fit
from fairgate.models.classifiers.fixed_labels import Loaded

WEIGHTS = "weights"
MAX_BUFFERS = 64 << 20
"""Bytes of what an architecture computes from its settings alone, such as masks of attention: no weights file says
how large they are."""


def loaded_into(
    build: Callable[[], Any],
    files: HashedFiles,
    prepare: Callable[[Any], Any],
    device: Device,
    architecture: str,
    *,
    allow_pickle: bool = False,
    key: str | None = None,
) -> Loaded:
    """A classifier with the weights under the role WEIGHTS. Raises ModelError where they do not fit, hold no number, or
    would run code; shapes are compared before memory is taken for the model. With a `key`, the state dict under it."""
    files.require_unchanged()
    path = files.paths[WEIGHTS]
    with torch.random.fork_rng(devices=[]):
        with torch.device("meta"):
            described = build()
        if sum(one.nbytes for one in described.buffers()) > MAX_BUFFERS:
            raise ModelError(
                f"{architecture} would hold more than {MAX_BUFFERS >> 20} MB that are none of its weights.",
                where=str(path),
                remedy="check the sizes in its config, such as img_size and window_size",
            )
        own = list(described.state_dict())
        state = read_state_dict(path, allow_pickle=allow_pickle, key=key, own=own)
        require_fit(state, described, str(path), architecture)
        require_finite(state, str(path))
        model = build()
    model.load_state_dict(state)
    model = model.float().eval().to(device.name)

    def outputs(prepared: Any) -> Any:
        return model(torch.stack(list(prepared)).to(device.name)).float().cpu().numpy()

    return Loaded(prepare, outputs)
