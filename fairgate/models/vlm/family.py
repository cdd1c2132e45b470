"""`vlm:FOLDER?question=...`: a language model that sees, judged by the likelihood of each label as its answer, or by
what it answers (`?chat=`).

`captions:FOLDER?question=TEXT&captioner=vlm:...`: one model describes the picture, and a language model answers, as
LENS does (Berrios et al. 2023; paper 1's table 8): it sees the caption alone. `captioner=` is last and holds all that
follows: a `vlm:` URI, whose prompt asks for the description.

Local files, safetensors, no code from the folder. transformers opens the model, in an isolated process. The URI has the
message of the user, which the folder's chat template surrounds; with `template=none`, the whole text before an answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError, clean
from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.checkpoints import TransformersFolder
from fairgate.models.contract import Capability, Model, Request, RereadingModel, register
from fairgate.models.family import FolderFamily
from fairgate.models.input_digests import folder_preprocessing, folder_tokenizer, preprocessing_digest
from fairgate.models.isolated import IsolatedSeeing
from fairgate.models.known_images import KnownImages
from fairgate.models.vlm.asking import (
    CAPTION,
    Asking,
    asked_texts,
    read_asking,
    read_chat,
    read_whole,
    require_one_context,
)
from fairgate.models.vlm.judged import LabelEngine, LabelLikelihoods, Pieces

CODE_VERSION = 4  # raise it when this adapter, or what it calls, gives other likelihoods for the same files
OPTIONS = ("question", "prompt", "average")
_MORE = ("chat", "template", "processor")
CAPTIONS_VERSION = 1  # the same of `captions:`
LONGEST_CAPTION = 30
"""Tokens of a caption at most."""
_AT_ONCE = 32  # pictures that are answered about at once: a GPU's step of decoding takes about as long for one
_SAVED_EVERY = 256  # texts
_LOOKED_UP = 64  # pictures that are looked up in the cache at once
_ALONE = "a forward pass for each picture and label, since a prompt that several share gives other numbers, or none"
_UNUSED = "settings of decoding in the model's folder are not used, each token is the likeliest"
_SHARED = "labels share a pass over their prompt, which gives the same numbers as a pass for each"


@register
class VisionLanguageFamily(FolderFamily):
    """Folders of image-text-to-text models that transformers saved."""

    scheme: ClassVar[str] = "vlm"
    forms: ClassVar[tuple[str, ...]] = ("vlm:FOLDER?question=TEXT", "vlm:FOLDER?chat=TEXT")
    capabilities: ClassVar[frozenset[Capability]] = LabelLikelihoods.capabilities | {"answer"}
    ending = "ForConditionalGeneration"
    parts = ("vision_config",)

    def open(self, request: Request) -> SeeingModel:
        """Find and hash a folder. Raises ModelError; loading waits until a likelihood is needed."""
        named, options = checkpoints.split_options(request.uri, request.address, (*OPTIONS, *_MORE))
        chat = options.pop("chat", None)
        if chat is not None and set(options) & set(OPTIONS):
            raise ModelError(
                "the URI has a chat, for a suite's questions, and a question or prompt of its own.",
                where=request.uri,
                remedy="write ?chat= for the probe `question`, or ?question= (or ?prompt=) for labels' likelihood",
            )
        whole = read_whole(request.uri, options)
        asking = read_asking(request.uri, options) if chat is None else Asking(read_chat(request.uri, chat), "sum")
        found = self.found(request, named, options, checkpoints.VISION_LANGUAGE, plain=True)
        return (SeeingModel if chat is None else ConversingModel)(found, replace(asking, whole=whole), request)


def _is_t5(found: TransformersFolder) -> bool:
    """Whether a T5 writes, whose sums lose five times as much in bfloat16 as under autocast; others lose the same."""
    text = found.config.get("text_config")
    return "t5" in (found.kind, text.get("model_type") if isinstance(text, Mapping) else None)


class SeeingModel(LabelLikelihoods):
    """A judged image-text-to-text model, loaded when a likelihood is not in the cache."""

    def __init__(self, found: TransformersFolder, asking: Asking, request: Request) -> None:
        listed = found.kind in checkpoints.VISION_LANGUAGE
        super().__init__(request, asking.average, language=listed and not _is_t5(found))
        self.asking = asking
        self.fingerprint = digest({"files": found.fingerprint, **asdict(asking)})
        self.preparation = f"vlm/{checkpoints.code_of(found, CODE_VERSION)}"
        self.tokenizer = folder_tokenizer(found, template=not asking.whole)
        self.preprocessing = folder_preprocessing(found, "vlm", **asdict(asking))
        self._found = found
        self.note: str | None = None
        entry = request.cache.read(f"tried/{self._key()}") if request.cache else None
        self._add_note(None if entry is None else entry.notes.get("tried"))

    def _add_note(self, note: str | None) -> None:
        self.note = "; ".join(dict.fromkeys(filter(None, (self.note, note)))) or None

    def _ways(self, *packages: str) -> dict[str, Any]:
        return super()._ways(*packages, *self._found.packages)

    def _load(self, writes: bool = False) -> IsolatedSeeing:
        seed, found = self._request.seed, self._found
        engine = IsolatedSeeing(found, self.asking, self._device, seed)
        notes = [f"{_UNUSED}: {', '.join(engine.unused)}"] if writes and engine.unused else []
        if found.kind not in checkpoints.VISION_LANGUAGE:
            drawn = f"the base commit {seed:08x}" if seed else "a fixed seed"
            notes.append(f"{_SHARED if engine.shares else _ALONE} (tried on noise and words that {drawn} draws)")
        self._add_note(note := "; ".join(notes))
        if self._request.cache:  # also of a run that has its numbers from the cache
            self._request.cache.write(f"tried/{self._key()}", {}, {"tried": note})
        return engine

    def _writer(self) -> IsolatedSeeing:
        """Loaded anew, and not kept: the memory is needed by who reads the texts."""
        checkpoints.require_device(self._device)
        with checkpoints.naming(self.uri, "be loaded"):
            return self._load(writes=True)

    def texts_read_by(self, other: object) -> str:
        """What is another one's of how texts are read, for messages."""
        if not isinstance(other, SeeingModel):  # a record, which has one digest of both
            return "tokenizer or chat template"
        words = (folder_tokenizer(model._found, template=False) for model in (self, other))
        return "chat template" if len({*words}) == 1 else "tokenizer"

    def reading_as(self, other: Model, *, tokenizer: bool, preprocessing: bool) -> SeeingModel:
        """This model with another one's tokenizer and chat template, or with its processing of pictures and its prompt,
        or both: in the isolated process, with its files. Raises ModelError for models that have none, or whose files
        do not decide this alone."""
        if not isinstance(other, SeeingModel):
            raise ModelError(
                "it has no chat template or tokenizer for a language model that sees.",
                where=other.uri,
                remedy="compare models of one family",
            )
        found = self._found.reading_as(other._found, tokenizer=tokenizer, images=preprocessing)
        mixed = type(self)(found, other.asking if preprocessing else self.asking, self._request)
        read = ((tokenizer, "tokenizer"), (preprocessing, "preprocessing"))
        if any(getattr(mixed, name) != getattr(other if swap else self, name) for swap, name in read):
            raise ModelError(
                "its files do not decide alone how texts and pictures are read: the type of model, or a config of "
                "both, does too.",
                where=other.uri,
                remedy="compare models of one type, each with its template in chat_template.jinja",
            )
        return mixed

    def embeds_alike(self, _: RereadingModel) -> bool:
        """No: a template may write the same today, and something else tomorrow."""
        return False

    def captions(self, longest: int) -> dict[int, str]:
        """What the model says of every picture after its prompt, by row, greedily, in at most `longest` tokens; cached.
        Of a shard, its own rows.

        Captions that are done are saved when a run is interrupted. Raises DatasetError or ModelError.
        """
        prompts = dict.fromkeys(range(len(self._request.source)), self.asking.prompt)
        return self._written(f"captions/{self._key()}/{longest}", prompts, longest, "describe a picture")

    def _written(self, name: str, prompts: Mapping[int, str], longest: int, what: str) -> dict[int, str]:
        """What is answered to prompts about pictures, by row: cached under a name, and saved when it is interrupted."""
        cache, texts = self._request.cache, self._noted(name)
        known = self._known_texts(name, prompts, longest, texts)

        def save() -> None:
            if cache:
                note = {name.partition("/")[0]: json.dumps(texts)}
                cache.write(name, {"none": np.empty(0, dtype=np.float32)}, note)

        todo = [row for row in prompts if row not in texts]
        if not todo:
            if known:
                save()
            return texts
        engine = self._writer()
        halving = checkpoints.Halving(lambda shown: np.array(engine.answers(shown, longest), object), self._device.name)
        unsaved = 0
        shown = self._pieces(todo, _AT_ONCE)
        prepared = self._prepared(shown, lambda row, image: engine.inputs(image, prompts[row]), what)
        try:
            with checkpoints.scoring(self._device), checkpoints.naming(self.uri, what), closing(prepared):
                for rows, inputs in prepared:
                    texts.update(zip(rows, map(clean, halving(inputs)), strict=True))
                    self.pictures_read += len(rows)
                    unsaved += len(rows)
                    if unsaved >= _SAVED_EVERY:
                        save()
                        unsaved = 0
        finally:  # also after Ctrl-C or an unreadable picture
            save()
        if known:
            known.keep()
        return texts

    def _noted(self, name: str) -> dict[int, str]:
        """The texts of a cached entry, by row."""
        entry, kind = self._request.cache.read(name) if self._request.cache else None, name.partition("/")[0]
        noted = json.loads(entry.notes[kind]) if entry is not None and kind in entry.notes else {}
        return {int(row): str(text) for row, text in noted.items()}

    def _known_texts(
        self, name: str, prompts: Mapping[int, str], longest: int, texts: dict[int, str]
    ) -> KnownImages | None:
        """Add the answers to equal questions about equal pictures of other sources. Returns what records, at the end,
        which pictures these are; None if nothing is missing."""
        source = self._request.source
        if self._request.cache is None or prompts.keys() <= texts.keys():
            return None

        def read(other: str) -> Any:
            there = self._noted(other)
            return np.array([there.get(row) for row in range(max(there) + 1)], dtype=object) if there else None

        context = [prompts.get(row, name) for row in range(len(source))]  # without a question, like no other
        alike = digest({name.partition("/")[0]: self._alike(), "longest": longest})
        known = KnownImages(self._request, name, alike, read, context=context)
        for rows, blobs in source.image_batches(_LOOKED_UP):
            places, found = known.of(rows, blobs)
            pairs = () if found is None else zip(places.tolist(), found.tolist(), strict=True)
            texts.update((row, text) for row, text in pairs if text is not None)
        return known


class ConversingModel(SeeingModel):
    """`asking.prompt` is the message around a question, with QUESTION and IMAGE in it."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"answer"})

    def _load(self, writes: bool = True) -> IsolatedSeeing:
        return super()._load(writes)

    def _writer(self) -> IsolatedSeeing:
        return cast("IsolatedSeeing", self._engine())

    def answer(self, prompts: Sequence[str], longest: int) -> NDArray[np.object_]:
        """The answer to each picture's prompt, greedily, in at most `longest` tokens: (images,); "" where none is.

        Answers that are done are saved when a run is interrupted. Raises DatasetError or ModelError.
        """
        texts = asked_texts(self.asking.prompt, prompts, self.uri)
        asked = {row: text for row, text in enumerate(texts) if text}
        name = f"answers/{self._key()}/{digest([longest, *texts])}"
        found = self._written(name, asked, longest, "answer about a picture")
        return np.array([found.get(row, "") for row in range(len(texts))], dtype=object)


@register
class CaptionsFamily(FolderFamily):
    """Folders of language models (FlanT5, OPT, GPT-2, Llama, Mistral, Qwen2, Gemma), with a model that describes."""

    scheme: ClassVar[str] = "captions"
    forms: ClassVar[tuple[str, ...]] = ("captions:FOLDER?question=TEXT&captioner=vlm:FOLDER?prompt=TEXT",)
    capabilities: ClassVar[frozenset[Capability]] = LabelLikelihoods.capabilities

    def option_files(self, address: str) -> tuple[Path, ...]:
        """The folder of the language model's tokenizer."""
        return super().option_files(address.partition("captioner=")[0])

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
        named, options = checkpoints.split_options(request.uri, own.rstrip("&"), (*OPTIONS, "processor"))
        asking = read_asking(request.uri, options, CAPTION, f"Caption: {CAPTION}\n")
        found = self.found(request, named, options, checkpoints.LANGUAGE_MODELS, images=False)
        seeing = request.open_other(captioner)
        assert isinstance(seeing, SeeingModel), captioner
        return DescribedModel(found, seeing, asking, request)


class DescribedModel(LabelLikelihoods):
    """A judged pair of models, loaded when a caption or a likelihood is not in the cache."""

    reads_pictures: ClassVar[bool] = False

    def __init__(self, found: TransformersFolder, seeing: SeeingModel, asking: Asking, request: Request) -> None:
        super().__init__(request, asking.average, language=not _is_t5(found))
        self.asking, self.captioner = asking, seeing
        self.fingerprint = digest({"files": found.fingerprint, "captioner": seeing.fingerprint, **asdict(asking)})
        self.preparation = f"captions/{CAPTIONS_VERSION} {seeing.preparation}"
        self.tokenizer = digest([folder_tokenizer(found), seeing.tokenizer])
        self.preprocessing = preprocessing_digest(
            adapter="captions", captioner=seeing.preprocessing, longest=LONGEST_CAPTION, **asdict(asking)
        )
        self.note, self._found = seeing.note, found

    def _pieces(self, todo: Sequence[int], at_once: int) -> Pieces:
        captions = self.captioner.captions(LONGEST_CAPTION)  # now: a process ends with the caller's main thread alone
        self.note = self.captioner.note
        mine = [row for row in todo if row in captions]
        pieces = (mine[start : start + at_once] for start in range(0, len(mine), at_once))
        return ((rows, [captions[row] for row in rows]) for rows in pieces)

    def _load(self) -> LabelEngine:
        from fairgate.models.vlm.engine import LanguageReader

        found, where = self._found, str(self._found.path)
        model, _, tokenizer = checkpoints.load_parts(
            checkpoints.LANGUAGE_MODELS[found.kind], found, self._device, images=False, casting=True
        )
        require_one_context(model.config, where)
        return LanguageReader(model, tokenizer, self.asking.prompt, self._device, where)
