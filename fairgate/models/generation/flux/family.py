"""`flux:FOLDER`: a FLUX that is judged by what it paints. Local files, safetensors, and no code from the folder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import HashedFiles, judged_folder, read_config, right_uri, split_options
from fairgate.models.contract import Capability, Generating, ImageSource, Request, register
from fairgate.models.family import FolderFamily, JudgedModel
from fairgate.models.generated import GeneratedPictures
from fairgate.models.generation.diffusion.files import (
    TEXT_TOKENIZERS,
    PipelineAddress,
    PipelineFiles,
    component_class,
    component_files,
)
from fairgate.models.generation.diffusion_classifier.sampling import tokenizers_digest
from fairgate.models.input_digests import preprocessing_digest

if TYPE_CHECKING:
    from fairgate.models.generation.flux.painting import FluxPainter

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other pictures for the same files
LATENT_SIDE = 128
"""Latents of a side of a picture by default: 1,024 pixels, as FluxPipeline's."""
MAX_PIXELS = 2048  # of a side: attention grows with the fourth power of it
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


@register
class FluxFamily(FolderFamily):
    """Folders that diffusers saved, of a FluxPipeline."""

    scheme: ClassVar[str] = "flux"
    forms: ClassVar[tuple[str, ...]] = ("flux:FOLDER?size=1024",)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"generate"})
    folders = ()

    def open(self, request: Request) -> FluxModel:
        """Find and hash a pipeline. Raises ModelError; loading waits until a picture is needed."""
        named, options = split_options(request.uri, request.address, ("size",))
        found = find_flux(named, request.base)
        return FluxModel(found, _side(found, options.get("size"), request.uri), request)


def _side(files: PipelineFiles, text: str | None, uri: str) -> int:
    """Pixels of a side. Raises ModelError for one that cannot be made."""
    blocks = read_config(files.vae / "config.json").get("block_out_channels")
    factor = 2 ** len(blocks) if isinstance(blocks, list) and 0 < len(blocks) < 8 else 16  # packed two by two
    try:
        side = LATENT_SIDE * factor // 2 if text is None else int(text)
    except ValueError:
        side = 0
    if not 0 < side <= MAX_PIXELS or side % factor:
        raise ModelError(
            f"a picture of '{(text or str(side))[:40]}' pixels a side cannot be made: sides are multiples of {factor}, "
            f"and {MAX_PIXELS:,} at most.",
            where=uri,
            remedy="write ?size=1024, or leave it out",
        )
    return side


class FluxModel(JudgedModel["FluxPainter"]):
    """A judged FLUX, loaded when a picture is not in the cache."""

    capabilities: ClassVar[frozenset[Capability]] = FluxFamily.capabilities

    def __init__(self, found: PipelineFiles, side: int, request: Request) -> None:
        super().__init__(request)
        self.side, self._found = side, found
        self.fingerprint = digest({"files": found.fingerprint, "size": side})
        self.preparation = f"flux/{CODE_VERSION}"
        self.tokenizer = tokenizers_digest(found)
        self.preprocessing = preprocessing_digest(adapter="flux", pixels=side)

    @property
    def source(self) -> ImageSource:
        """The rows whose prompts it paints."""
        return self._request.source

    def generate(self, prompts: Sequence[str], how: Generating) -> ImageSource:
        """A picture of every row's prompt, as diffusers' pipeline makes it, made as it is read, cached.

        `how.guidance` is what FLUX.1-dev was distilled with; a FLUX.1-schnell takes none. Raises ModelError unless
        every row has a prompt, and when read for a prompt that is too long or latents that are not finite.
        """
        request, key = self._request, digest(self._ways("diffusers"))
        return GeneratedPictures(request.source, prompts, how, key, self._engine, request.cache, request.progress)

    def _load(self) -> FluxPainter:
        from fairgate.models.generation.flux.painting import FluxPainter

        return FluxPainter(self._found, self.side, self._device, self.uri)


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
    hashed, address = HashedFiles.of(paths), PipelineAddress(named)
    return PipelineFiles(address, folder, PIPELINE, components, settings, channels, folder / "vae", hashed)


def _read_index(folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
    path = folder / "model_index.json"
    index = read_config(path) if path.is_file() else {}
    if index.get("_class_name") != PIPELINE:
        what = f"the pipeline is a {str(index.get('_class_name'))[:80]}" if index else "the folder holds no pipeline"
        raise ModelError(
            f"{what}, and flux: runs a {PIPELINE}.",
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
