"""`flux:FOLDER`: a FLUX that is judged by what it paints. Local files, safetensors, and no code from the folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import Device, find_device, local_folder, read_config, split_options, versions
from fairgate.models.contract import Capability, Generating, ImageSource, Request, register
from fairgate.models.generated import GeneratedPictures
from fairgate.models.generation.diffusion.files import PipelineFiles
from fairgate.models.generation.diffusion_classifier.reading import tokenizers_digest
from fairgate.models.generation.flux.files import find_flux
from fairgate.models.reading import preprocessing_digest

if TYPE_CHECKING:
    from fairgate.models.generation.flux.painting import FluxPainter

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other pictures for the same files
LATENT_SIDE = 128
"""Latents of a side of a picture by default: 1,024 pixels, as FluxPipeline's."""
MAX_PIXELS = 2048  # of a side: attention grows with the fourth power of it


@register
class FluxFamily:
    """Folders that diffusers saved, of a FluxPipeline."""

    scheme: ClassVar[str] = "flux"
    forms: ClassVar[tuple[str, ...]] = ("flux:FOLDER?size=1024",)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"generate"})

    def local_path(self, address: str) -> Path | None:
        """The folder, unless it is a model of the hub."""
        return local_folder(address)

    def open(self, request: Request) -> FluxModel:
        """Find and hash a pipeline. Raises ModelError; loading waits until a picture is needed."""
        named, options = split_options(request.uri, request.address, ("size",))
        found = find_flux(named, request.base)
        return FluxModel(found, _side(found, options.get("size"), request.uri), request)


def _side(found: PipelineFiles, text: str | None, uri: str) -> int:
    """Pixels of a side. Raises ModelError for one that cannot be made."""
    blocks = read_config(found.vae / "config.json").get("block_out_channels")
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


class FluxModel:
    """A judged FLUX, loaded when a picture is not in the cache."""

    capabilities: ClassVar[frozenset[Capability]] = FluxFamily.capabilities

    def __init__(self, found: PipelineFiles, side: int, request: Request) -> None:
        self.uri, self.side = request.uri, side
        self.fingerprint = digest({"files": found.fingerprint, "size": side})
        self.preparation = f"flux/{CODE_VERSION}"
        self.tokenizer = tokenizers_digest(found)
        self.preprocessing = preprocessing_digest(adapter="flux", pixels=side)
        self._device: Device = find_device(request.device)
        self.device, self.precision = self._device.name, self._device.precision
        self._found, self._request = found, request
        self._painter: FluxPainter | None = None

    @property
    def source(self) -> ImageSource:
        """The rows whose prompts it paints."""
        return self._request.source

    def generate(self, prompts: Sequence[str], how: Generating) -> ImageSource:
        """A picture of every row's prompt, as diffusers' pipeline makes it, made as it is read, cached.

        `how.guidance` is what FLUX.1-dev was distilled with; a FLUX.1-schnell takes none. Raises ModelError unless
        every row has a prompt, and when read for a prompt that is too long or latents that are not finite.
        """
        key = digest(
            {
                "fingerprint": self.fingerprint,
                "adapter": self.preparation,
                "libraries": versions("diffusers", "transformers", "tokenizers", "torch", "pillow"),
                "precision": self.precision,
            }
        )
        request = self._request
        return GeneratedPictures(request.source, prompts, how, key, self._loaded, request.cache, request.progress)

    def _loaded(self) -> FluxPainter:
        if self._painter is None:
            from fairgate.models.checkpoints import require_device
            from fairgate.models.generation.flux.painting import FluxPainter

            require_device(self._device)
            self._painter = FluxPainter(self._found, self.side, self._device, self.uri)
        return self._painter
