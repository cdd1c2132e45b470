"""`vlm:FOLDER?question=...`: a language model that sees, judged by the likelihood of each label as its answer.

Local files, safetensors, no code from the folder and no chat template: the URI has the whole text before the label.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import find_folder, judged_folder, local_folder, split_options
from fairgate.models.classifiers.label_files import option_paths
from fairgate.models.contract import Capability, Request, register
from fairgate.models.vlm.asking import Asking, read_asking, read_chat
from fairgate.models.vlm.conversing import ConversingModel
from fairgate.models.vlm.judged import LabelLikelihoods
from fairgate.models.vlm.layouts import LAYOUTS
from fairgate.models.vlm.seeing import OPTIONS, SeeingModel


@register
class VisionLanguageFamily:
    """Folders that transformers saved: LLaVA (also NeXT, OneVision), Qwen2-VL, Qwen2.5-VL, Qwen3-VL, PaliGemma, BLIP-2,
    InternVL, Idefics3, SmolVLM."""

    scheme: ClassVar[str] = "vlm"
    forms: ClassVar[tuple[str, ...]] = ("vlm:FOLDER?question=TEXT", "vlm:FOLDER?chat=TEXT")
    capabilities: ClassVar[frozenset[Capability]] = LabelLikelihoods.capabilities | ConversingModel.capabilities

    def local_path(self, address: str) -> Path | None:
        """The folder, unless it is a model of the hub."""
        return local_folder(address)

    def option_files(self, address: str) -> tuple[Path, ...]:
        """The folder of tokenizer and image processor."""
        return option_paths(address, folders=("processor",))

    def open(self, request: Request) -> SeeingModel:
        """Find and hash a folder. Raises ModelError; loading waits until a likelihood is needed."""
        named, options = split_options(request.uri, request.address, (*OPTIONS, "chat", "processor"))
        processor = options.pop("processor", None)
        chat = options.pop("chat", None)
        if chat is not None and options:
            raise ModelError(
                "the URI has a chat, for a suite's questions, and a question or prompt of its own.",
                where=request.uri,
                remedy="write ?chat= for the probe `question`, or ?question= (or ?prompt=) for labels' likelihood",
            )
        asking = read_asking(request.uri, options) if chat is None else Asking(read_chat(request.uri, chat), "sum")
        folder = judged_folder(named, request.base)
        read_by = judged_folder(processor, request.base) if processor else None
        found = find_folder(folder, tuple(LAYOUTS), generates=True, scheme="vlm", processor=read_by)
        return SeeingModel(found, asking, request) if chat is None else ConversingModel(found, asking, request)
