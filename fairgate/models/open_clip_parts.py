"""What an open_clip model is built from, the closed folder that open_clip is shown instead of the files' own, and how
its architectures take pictures, by its own table of published weights. Does not import torch."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import Adapter, HashedFiles

CONFIG = "open_clip_config.json"
TEXT_FOLDER, TOKENIZER = "text", "tokenizer/"
TEXT_CONFIG = f"{TEXT_FOLDER}/config.json"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a model is built from: open_clip's config of both towers and the preprocessing, and hashed files by role.

    Roles: `weights`, `text/config.json` (of a text tower of transformers), `tokenizer/NAME`, or a file's plain name.
    `architecture` is the one that open_clip names, None for a folder's own; `tag` the pretrained one, whose
    preprocessing applies.
    """

    shown: str
    model: Mapping[str, Any]
    preprocessing: Mapping[str, Any]
    files: HashedFiles
    architecture: str | None
    tag: str | None
    allow_pickle: bool
    adapter: Adapter | None = None

    @contextlib.contextmanager
    def closed(self) -> Iterator[Path]:
        """A folder for open_clip that holds the config and shows the hashed text files, and nothing else."""
        model = {**self.model, "text_cfg": dict(self.model["text_cfg"])}
        texts = [role for role in self.files.paths if role not in ("weights", CONFIG)]
        with self.files.closed({role: role.removeprefix(TOKENIZER) for role in texts}) as folder:
            if TEXT_CONFIG in texts:
                model["text_cfg"]["hf_model_name"] = str(folder / TEXT_FOLDER)
            config = {"model_cfg": model, "preprocess_cfg": dict(self.preprocessing)}
            (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
            yield folder


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
