"""Pipelines of diffusers that are judged by what they paint alone (`diffusion:FOLDER` of a FLUX, an SD3, a Sana, ...):
the library opens and calls them in an isolated process. Local files, safetensors, and no code from the folder. No
torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.contract import Capability, Generating, ImageSource, Request
from fairgate.models.family import JudgedModel
from fairgate.models.generation.diffusion.files import PipelineAddress, PipelineFiles, find_pipeline, lora_scale
from fairgate.models.input_digests import preprocessing_digest
from fairgate.models.isolated import IsolatedPainter
from fairgate.models.made_pictures import GeneratedPictures

PLAIN_CODE = 1  # raise it when this adapter, or what it calls, gives other pictures for the same files
MAX_SIDE = 2048  # pixels: attention grows with the fourth power of it


def open_plain_pipeline(request: Request) -> PlainPaintingModel:
    """The pipeline, hashed. Raises ModelError, also for an option that only a Stable Diffusion has."""
    named, options = checkpoints.split_options(request.uri, request.address, ("size", "lora", "lora_scale"))
    side = (
        int(checkpoints.option_number(request.uri, "size", options["size"], 8, MAX_SIDE)) if "size" in options else None
    )
    address = PipelineAddress(named, lora=options.get("lora"), lora_scale=lora_scale(request.uri, options))
    if address.lora:
        checkpoints.versions("peft")  # where it is missing, the error says how to install it
    found = find_pipeline(address, request.base, checkpoints.judged_folder, plain=True)
    return PlainPaintingModel(found, side, request)


class PlainPaintingModel(JudgedModel[IsolatedPainter]):
    """A judged pipeline, loaded when a picture is not in the cache. `side`: pixels of a side; None: its own."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"generate"})

    def __init__(self, found: PipelineFiles, side: int | None, request: Request) -> None:
        added = "" if found.address.lora is None else f", with a LoRA at {found.address.lora_scale:g}"
        super().__init__(
            request, note=f"painted by diffusers' own {found.pipeline[:80]}, in a process of its own{added}"
        )
        self.side, self._found, self.source = side, found, request.source
        self.fingerprint = digest({"files": found.fingerprint, "size": side})
        self.preparation = f"plain/{PLAIN_CODE}"
        self.preprocessing = preprocessing_digest(adapter="plain", pixels=side)
        self.tokenizer = found.tokenizer

    def generate(self, prompts: Sequence[str], how: Generating) -> ImageSource:
        """A picture of every row's prompt, as diffusers' pipeline makes it, made as it is read, cached.

        `how.guidance` of a FLUX is what FLUX.1-dev was distilled with; a FLUX.1-schnell takes none. Raises ModelError
        unless every row has a prompt, and when read for a picture that is not finite or a prompt that is too long.
        """
        request, packages = self._request, ("diffusers",) if self._found.address.lora is None else ("diffusers", "peft")
        key = digest(self._ways(*packages))
        return GeneratedPictures(request.source, prompts, how, key, self._engine, request.cache, request.progress)

    def _load(self) -> IsolatedPainter:
        found = self._found
        task = {"path": str(found.folder), "found": found, "side": self.side}
        return IsolatedPainter(task, found.files, self._device)
