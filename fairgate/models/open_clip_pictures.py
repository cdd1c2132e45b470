"""How open_clip's architectures take pictures, by its own table of published weights. Does not import torch."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Mapping
from typing import Any

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.ground.hashing import digest

PICTURES: dict[str, Any] = {
    "mode": "RGB",
    "mean": [0.48145466, 0.4578275, 0.40821073],
    "std": [0.26862954, 0.26130258, 0.27577711],
    "interpolation": "bicubic",
    "resize_mode": "shortest",
    "fill_color": 0,
}
"""open_clip's own defaults (`PreprocessCfg`)."""


def published_pictures(architecture: str, options: Mapping[str, str], uri: str) -> dict[str, Any]:
    """How pictures are prepared for an architecture's published weights, or for those of `?preprocess=TAG`.

    Only what differs from open_clip's defaults. Raises ModelError for weights that differ, and for an unknown tag.

    open_clip itself takes its defaults for a file, whatever the architecture was trained with.
    """
    tables = _pretrained_tables()
    tags, named = list(tables.list_pretrained_tags_by_model(architecture)), options.get("preprocess")
    if named is not None and named not in tags:
        problem = f"open_clip has no weights '{named[:80]}' of {architecture}."
        raise ModelError(problem, where=uri, remedy=did_you_mean(named, tags) or f"it has: {', '.join(tags) or 'none'}")
    ways: dict[str, dict[str, Any]] = {}
    for tag in [named] if named is not None else tags:
        said = tables.get_pretrained_cfg(architecture, tag)
        pictures = {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}
        known = {name: pictures[name] for name in PICTURES if pictures.get(name) is not None}
        ways.setdefault(digest({**PICTURES, **known}), {})[tag] = known
    if len(ways) > 1:
        alike = [" or ".join(list(each)[:3]) for each in ways.values()]
        raise ModelError(
            f"the published weights of {architecture} take pictures that are prepared differently: {'; '.join(alike)}.",
            where=uri,
            remedy=f"name those that yours began as, {uri}?preprocess={next(iter(next(iter(ways.values()))))}",
        )
    known = next(iter(next(iter(ways.values())).values())) if ways else {}
    return {name: value for name, value in known.items() if value != PICTURES[name]}


def _pretrained_tables() -> Any:
    """open_clip's module of published weights, by itself: the whole package would import torch, which a run on cached
    embeddings does without."""
    if (whole := sys.modules.get("open_clip.pretrained")) is not None:
        return whole
    spec, name = importlib.util.find_spec("open_clip"), "_fairgate_open_clip"
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = list(spec.submodule_search_locations or []) if spec is not None else []
        sys.modules[name] = package
    torch_part = "safetensors.torch"
    known = torch_part in sys.modules
    if not known:
        sys.modules[torch_part] = None  # type: ignore[assignment] # an import of it fails, which open_clip allows for
    try:
        return importlib.import_module(f"{name}.pretrained")
    finally:
        if not known:
            del sys.modules[torch_part]
