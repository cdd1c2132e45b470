"""A judged model of pictures and text: its files, its prompt, and its captions of pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import (
    IMAGE_CONFIGS,
    TOKENIZER_FILES,
    TransformersFolder,
    naming,
)
from fairgate.models.contract import Request
from fairgate.models.reading import preprocessing_digest, tokenizer_class, tokenizer_digest
from fairgate.models.vlm.asking import Asking
from fairgate.models.vlm.ending import end_ids, unused_decoding
from fairgate.models.vlm.judged import LabelEngine, LabelLikelihoods
from fairgate.models.vlm.layouts import LAYOUTS, require_processor

if TYPE_CHECKING:
    from fairgate.models.vlm.engine import VisionLanguage

CODE_VERSION = 3  # raise it when this adapter, or what it calls, gives other likelihoods for the same files
OPTIONS = ("question", "prompt", "average")


class SeeingModel(LabelLikelihoods):
    """A judged image-text-to-text model, loaded when a likelihood is not in the cache."""

    def __init__(self, found: TransformersFolder, asking: Asking, request: Request) -> None:
        super().__init__(request, asking.average)
        require_processor(found)
        self.asking = asking
        self.fingerprint = digest({"files": found.fingerprint, **asdict(asking)})
        self.preparation = f"vlm/{CODE_VERSION}"
        self.tokenizer = digest([folder_tokenizer(found), end_ids(found)])
        pictures = [path for name, path in found.files.paths.items() if name in IMAGE_CONFIGS]
        self.preprocessing = preprocessing_digest(pictures, adapter="vlm", kind=found.kind, **asdict(asking))
        self._found = found

    @property
    def unused(self) -> str | None:
        """What the folder sets of decoding, as a sentence."""
        return unused_decoding(self._found)

    def _load(self) -> LabelEngine:
        return self.engine()

    def captions(self, longest: int) -> list[str]:
        """What the model says of every picture after its prompt, greedily, in at most `longest` tokens; cached.

        Captions that are done are saved when a run is interrupted. Raises DatasetError or ModelError.
        """
        from fairgate.models.checkpoints import require_device, scoring

        cache, source = self._request.cache, self._request.source
        name = f"captions/{self._key()}/{longest}"
        entry = cache.read(name) if cache else None
        known = json.loads(entry.notes["captions"]) if entry is not None and "captions" in entry.notes else {}
        found = {int(row): str(text) for row, text in known.items()}
        todo = [row for row in range(len(source)) if row not in found]
        if not todo:
            return [found[row] for row in range(len(source))]
        require_device(self._device)
        with naming(self.uri, "be loaded"):
            engine = self.engine()
        try:
            with scoring(self._device), naming(self.uri, "describe a picture"):
                for row, image in self._rows(todo):
                    found[row] = engine.caption(image, longest)
        finally:  # also after Ctrl-C or an unreadable picture
            if cache:
                cache.write(name, {"none": np.empty(0, dtype=np.float32)}, {"captions": json.dumps(found)})
        return [found[row] for row in range(len(source))]

    def engine(self) -> VisionLanguage:
        """The loaded model, each call anew."""
        from fairgate.models.vlm.engine import VisionLanguage
        from fairgate.models.vlm.layouts import load

        model, processor = load(self._found, self._device)
        return VisionLanguage(
            model, processor, LAYOUTS[self._found.kind], self.asking.prompt, self._device, str(self._found.path)
        )


def folder_tokenizer(found: TransformersFolder) -> str:
    """Digest of a folder's tokenizer, and of what decides its class."""
    texts = [path for name, path in found.files.paths.items() if name in TOKENIZER_FILES]
    decided: Mapping[str, Any] = {
        name: value for name, value in tokenizer_class(found.config).items() if name != "model_type"
    }
    return tokenizer_digest(texts, kind=found.kind, **decided)
