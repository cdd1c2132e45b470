"""The files of a FLUX pipeline: found, refused where they cannot be trusted, and hashed before anything is loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import HashedFiles, judged_folder, read_config, right_uri
from fairgate.models.generation.diffusion.files import TEXT_TOKENIZERS, PipelineFiles, component_class, component_files

PIPELINE = "FluxPipeline"
_KNOWN: Mapping[str, tuple[str, frozenset[str]]] = {
    "transformer": ("diffusers", frozenset({"FluxTransformer2DModel"})),
    "vae": ("diffusers", frozenset({"AutoencoderKL"})),
    "text_encoder": ("transformers", frozenset({"CLIPTextModel"})),
    "text_encoder_2": ("transformers", frozenset({"T5EncoderModel"})),
    "tokenizer": ("transformers", TEXT_TOKENIZERS),
    "tokenizer_2": ("transformers", TEXT_TOKENIZERS | {"T5Tokenizer", "T5TokenizerFast"}),
    "scheduler": ("diffusers", frozenset({"FlowMatchEulerDiscreteScheduler"})),
}
"""Library and classes of each component."""


def find_flux(named: str, base: Path) -> PipelineFiles:
    """Find and hash a pipeline. Raises ModelError."""
    folder = judged_folder(named, base)
    components, settings = _read_index(folder)
    paths: dict[str, Path] = {"model_index.json": folder / "model_index.json"}
    for name in components:
        files = component_files(folder / name, name, None, _KNOWN[name][0])
        paths |= {f"{name}/{role}": path for role, path in files.items()}
    _require_shift(folder / "vae" / "config.json")
    channels = read_config(folder / "transformer" / "config.json").get("in_channels", 64)
    return PipelineFiles(folder, PIPELINE, components, settings, channels, folder / "vae", None, HashedFiles.of(paths))


def _read_index(folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
    path = folder / "model_index.json"
    index = read_config(path) if path.is_file() else {}
    if index.get("_class_name") != PIPELINE:
        said = f"the pipeline is a {str(index.get('_class_name'))[:80]}" if index else "the folder holds no pipeline"
        raise ModelError(
            f"{said}, and flux: runs a {PIPELINE}.",
            where=str(path),
            remedy=right_uri(folder, "flux") or "name a folder that diffusers saved: pipeline.save_pretrained(FOLDER)",
        )
    parts = {name: value for name, value in index.items() if isinstance(value, list) and any(value)}
    if absent := [name for name in _KNOWN if name not in parts]:
        raise ModelError(
            f"the pipeline lacks {', '.join(absent)}.",
            where=str(path),
            remedy="save the whole pipeline again with save_pretrained",
        )
    if more := sorted(set(parts) - set(_KNOWN)):
        raise ModelError(
            f"the pipeline has a part that is not run: {more[0][:80]}.",
            where=str(path),
            remedy="save it without: pipeline.register_modules(PART=None)",
        )
    settings = {name: value for name, value in index.items() if not isinstance(value, list) and name[0] != "_"}
    return {name: component_class(name, parts[name], path, _KNOWN[name]) for name in _KNOWN}, settings


def _require_shift(path: Path) -> None:
    shift = read_config(path).get("shift_factor")
    if not isinstance(shift, int | float) or not math.isfinite(shift):
        raise ModelError(
            f"the VAE's shift_factor is {str(shift)[:40]}, which is no number.",
            where=str(path),
            remedy="set it to what the VAE was trained with (0.1159 for FLUX.1)",
        )
