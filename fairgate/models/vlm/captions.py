"""`captions:FOLDER?question=TEXT&captioner=vlm:...`: one model describes the picture, and a language model answers.

As LENS does (Berrios et al. 2023; paper 1's table 8): the language model sees the caption alone. `captioner=` is last,
and holds all that follows: a `vlm:` URI, whose prompt asks for the description.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import TransformersFolder, find_folder, judged_folder, local_folder, split_options
from fairgate.models.classifiers.label_files import option_paths
from fairgate.models.contract import Capability, Request, register
from fairgate.models.reading import preprocessing_digest
from fairgate.models.vlm.asking import CAPTION, Asking, read_asking
from fairgate.models.vlm.judged import LabelEngine, LabelLikelihoods
from fairgate.models.vlm.seeing import OPTIONS, SeeingModel, folder_tokenizer

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other likelihoods for the same files
LONGEST = 30
"""Tokens of a caption at most."""
LANGUAGE_MODELS = {
    "t5": "T5ForConditionalGeneration",
    "opt": "OPTForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "gemma": "GemmaForCausalLM",
}
"""By `model_type` of config.json."""


@register
class CaptionsFamily:
    """Folders of language models (FlanT5, OPT, GPT-2, Llama, Mistral, Qwen2, Gemma), with a model that describes."""

    scheme: ClassVar[str] = "captions"
    forms: ClassVar[tuple[str, ...]] = ("captions:FOLDER?question=TEXT&captioner=vlm:FOLDER?prompt=TEXT",)
    capabilities: ClassVar[frozenset[Capability]] = LabelLikelihoods.capabilities

    def local_path(self, address: str) -> Path | None:
        """The language model's folder, unless it is a model of the hub."""
        return local_folder(address)

    def option_files(self, address: str) -> tuple[Path, ...]:
        """The folder of the language model's tokenizer."""
        return option_paths(address.partition("captioner=")[0], folders=("processor",))

    def origin(self, address: str) -> str:
        """The URI of the model that describes."""
        return address.partition("captioner=")[2]

    def open(self, request: Request) -> DescribedModel:
        """Find and hash both models. Raises ModelError; loading waits until a likelihood is needed."""
        own, _, captioner = request.address.partition("captioner=")
        if not captioner.startswith("vlm:"):
            raise ModelError(
                "the URI names no model that describes pictures.",
                where=request.uri,
                remedy="end it with &captioner=vlm:FOLDER?prompt={image}A photo of",
            )
        named, options = split_options(request.uri, own.rstrip("&"), (*OPTIONS, "processor"))
        processor = options.pop("processor", None)
        asking = read_asking(request.uri, options, CAPTION, f"Caption: {CAPTION}\n")
        folder = judged_folder(named, request.base)
        read_by = judged_folder(processor, request.base) if processor else None
        found = find_folder(folder, tuple(LANGUAGE_MODELS), images=False, scheme="captions", processor=read_by)
        seeing = request.open_other(captioner)
        assert isinstance(seeing, SeeingModel), captioner
        return DescribedModel(found, seeing, asking, request)


class DescribedModel(LabelLikelihoods):
    """A judged pair of models, loaded when a caption or a likelihood is not in the cache."""

    def __init__(self, found: TransformersFolder, seeing: SeeingModel, asking: Asking, request: Request) -> None:
        super().__init__(request, asking.average)
        self.asking, self.captioner = asking, seeing
        self.fingerprint = digest({"files": found.fingerprint, "captioner": seeing.fingerprint, **asdict(asking)})
        self.preparation = f"captions/{CODE_VERSION} {seeing.preparation}"
        self.tokenizer = digest([folder_tokenizer(found), seeing.tokenizer])
        self.preprocessing = preprocessing_digest(
            adapter="captions", captioner=seeing.preprocessing, longest=LONGEST, **asdict(asking)
        )
        self._found = found

    @property
    def note(self) -> str | None:
        """What the captioner's folder sets of decoding, which is not used."""
        return self.captioner.unused

    def _rows(self, todo: Sequence[int]) -> Iterator[tuple[int, Any]]:
        captions = self.captioner.captions(LONGEST)
        return ((row, captions[row]) for row in todo)

    def _load(self) -> LabelEngine:
        import transformers

        from fairgate.models.checkpoints import LOCAL, load_model, loading
        from fairgate.models.vlm.layouts import require_one_context
        from fairgate.models.vlm.reader import LanguageReader

        self._found.files.require_unchanged()
        model = load_model(getattr(transformers, LANGUAGE_MODELS[self._found.kind]), self._found)
        require_one_context(model.config, str(self._found.path))
        with loading(self._found) as folder:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **LOCAL)
        where = str(self._found.path)
        return LanguageReader(model.to(self._device.name), tokenizer, self.asking.prompt, self._device, where)
