"""What an open_clip model is built from, the closed folder that open_clip is shown instead of the files' own, and how
its architectures take pictures, by its own table of published weights. Does not import torch."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.ground.hashing import digest
from fairgate.models.cache import EmbeddingCache, remembered
from fairgate.models.checkpoints import Adapter, HashedFiles, versions

Pictures = Mapping[str, Mapping[str, Any]]
"""How weights take pictures, by their tags."""
CONFIG = "open_clip_config.json"
TEXT_FOLDER, TOKENIZER = "text", "tokenizer/"
TEXT_CONFIG = f"{TEXT_FOLDER}/config.json"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a model is built from: open_clip's config of both towers and the preprocessing, and hashed files by role.

    Roles: `weights`, `text/config.json` (of a text tower of transformers), `tokenizer/NAME`, or a file's plain name.
    `shown` names the architecture in messages.
    """

    shown: str
    model: Mapping[str, Any]
    preprocessing: Mapping[str, Any]
    files: HashedFiles
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


def architecture_facts(architecture: str, cache: EmbeddingCache | None) -> tuple[dict[str, Any], Pictures]:
    """The config of an architecture that open_clip ships, or that this process added, and how its published weights
    take pictures. Raises ModelError for one that it does not have."""
    if "open_clip" in sys.modules:  # what the process added is nobody else's
        return _facts(architecture)
    code = {"adapter": "open_clip", "libraries": versions("open_clip_torch"), "architecture": architecture}
    config, pictures = remembered(cache, code, lambda: _facts(architecture))
    return config, pictures


def _facts(architecture: str) -> tuple[dict[str, Any], Pictures]:
    import open_clip

    config: dict[str, Any] | None = open_clip.get_model_config(architecture)
    if config is None:
        raise ModelError(
            f"open_clip has no architecture '{architecture}'.",
            remedy=did_you_mean(architecture, open_clip.list_models()) or "`open_clip.list_models()` lists what it has",
        )
    pictures = {}
    for tag in open_clip.list_pretrained_tags_by_model(architecture):
        said = open_clip.pretrained.get_pretrained_cfg(architecture, tag)
        known = {name: said[name] for name in PICTURES if said.get(name) is not None}
        pictures[tag] = {name: list(value) if isinstance(value, tuple) else value for name, value in known.items()}
    return config, pictures


def published_pictures(architecture: str, published: Pictures, named: str | None, uri: str) -> dict[str, Any]:
    """How pictures are prepared for an architecture's published weights, or for those of `?preprocess=TAG`.

    Only what differs from open_clip's defaults. Raises ModelError for weights that differ, and for an unknown tag.

    open_clip itself takes its defaults for a file, whatever the architecture was trained with.
    """
    if named is not None and named not in published:
        problem = f"open_clip has no weights '{named[:80]}' of {architecture}."
        remedy = did_you_mean(named, published) or f"it has: {', '.join(published) or 'none'}"
        raise ModelError(problem, where=uri, remedy=remedy)
    ways: dict[str, list[str]] = {}
    for tag in [named] if named is not None else published:
        ways.setdefault(digest({**PICTURES, **published[tag]}), []).append(tag)
    if len(ways) > 1:
        alike = [" or ".join(tags[:3]) for tags in ways.values()]
        raise ModelError(
            f"the published weights of {architecture} take pictures that are prepared differently: {'; '.join(alike)}.",
            where=uri,
            remedy=f"name those that yours began as, {uri}?preprocess={next(iter(ways.values()))[0]}",
        )
    known = published[next(iter(ways.values()))[0]] if ways else {}
    return {name: value for name, value in known.items() if value != PICTURES[name]}
