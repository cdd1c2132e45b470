"""`vlm:FOLDER?question=...`: a language model that sees, judged by the likelihood of each label as its answer.

Local files, safetensors, no code from the folder and no chat template: the URI has the whole text before the label.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from fairgate.checkpoints import find_folder, require_folder, resolve, split_options
from fairgate.models.contract import Capability, Request, register
from fairgate.models.vlm.asking import read_asking
from fairgate.models.vlm.judged import LabelLikelihoods
from fairgate.models.vlm.layouts import LAYOUTS
from fairgate.models.vlm.seeing import OPTIONS, SeeingModel


@register
class VisionLanguageFamily:
    """Folders that transformers saved: LLaVA, Qwen2-VL, Qwen2.5-VL, PaliGemma, BLIP-2, InternVL."""

    scheme: ClassVar[str] = "vlm"
    forms: ClassVar[tuple[str, ...]] = ("vlm:FOLDER?question=TEXT",)
    capabilities: ClassVar[frozenset[Capability]] = LabelLikelihoods.capabilities

    def local_path(self, address: str) -> Path | None:
        """The folder."""
        return Path(address.partition("?")[0])

    def open(self, request: Request) -> SeeingModel:
        """Find and hash a folder. Raises ModelError; loading waits until a likelihood is needed."""
        named, options = split_options(request.uri, request.address, OPTIONS)
        asking = read_asking(request.uri, options)
        folder = resolve(named, request.base)
        require_folder(folder)
        return SeeingModel(find_folder(folder, tuple(LAYOUTS), scheme="vlm"), asking, request)
