"""Short names for models: the shortest end of each address that is unique."""

from __future__ import annotations

import re
from collections.abc import Sequence


def short_names(uris: Sequence[str]) -> list[str]:
    """One name per address, in order; equal addresses keep equal names.

    >>> short_names(["hf:runs/a/final", "hf:runs/b/final", "open_clip:ViT-B-32@laion2b_e16"])
    ['a/final', 'b/final', 'ViT-B-32@laion2b_e16']
    >>> short_names(["scores:base.csv?values=logit", "scores:base.csv?values=cosine"])
    ['scores:base.csv?values=logit', 'scores:base.csv?values=cosine']
    """
    parts = [_parts(uri) for uri in uris]
    longest = max((len(part) for part in parts), default=0)
    depth = [1] * len(uris)
    for _ in range(longest):
        names = [_joined(part, take) for part, take in zip(parts, depth, strict=True)]
        clashing = [
            any(a == b and u != v for b, v in zip(names, uris, strict=True)) for a, u in zip(names, uris, strict=True)
        ]
        if not any(clashing):
            return names
        depth = [take + clash for take, clash in zip(depth, clashing, strict=True)]
    names = [_joined(part, take) for part, take in zip(parts, depth, strict=True)]
    return [uri if names.count(name) > uris.count(uri) else name for name, uri in zip(names, uris, strict=True)]


def _parts(uri: str) -> list[str]:
    """`open_clip:local-dir:a/b` as its steps, without options and without the ending of a table of scores."""
    address = uri.partition("?")[0]
    return [part for part in re.split(r"[/:]", re.sub(r"\.(csv|parquet|safetensors|pt)$", "", address)) if part]


def _joined(parts: Sequence[str], take: int) -> str:
    return "/".join(parts[-take:])
