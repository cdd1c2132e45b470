"""Text embeddings of prompts, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairgate.models.device import Device
from fairgate.models.encoder import Encoder
from fairgate.models.protocols import Embeddings
from fairgate.models.torch_runtime import Halving, scoring
from fairgate.models.unit import unit_or_error

BATCH = 64


def embed_texts(encoder: Encoder, prompts: Sequence[str], device: Device, uri: str) -> Embeddings:
    """Unit embeddings, (prompts, dim) float32. Raises ModelError for a prompt that comes out as NaN or zero."""
    encode = Halving(encoder.encode_texts, device.name)
    parts = []
    with scoring(device):
        for start in range(0, len(prompts), BATCH):
            batch = prompts[start : start + BATCH]
            parts.append(unit_or_error(encode(batch), lambda row, batch=batch: f"{uri}, prompt '{batch[row]}'"))  # type: ignore[misc]
    return np.concatenate(parts)
