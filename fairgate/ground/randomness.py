"""Named streams of randomness: what a draw depends on is written where it is drawn, never its order."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """An independent generator for each (seed, names): the same names give the same draws on every machine.

    >>> int(stream(0, "bootstrap", "skew").integers(1000)) == int(stream(0, "bootstrap", "skew").integers(1000))
    True
    """
    text = "\x1f".join([str(seed), *(f"{type(name).__name__}:{name}" for name in names)])
    entropy = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
