"""A judged model of pictures and text that answers a suite's questions in words; cached, and resumable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import TransformersFolder, naming
from fairgate.models.contract import Capability, Request
from fairgate.models.vlm.asking import IMAGE, QUESTION, Asking
from fairgate.models.vlm.seeing import SeeingModel

_AT_ONCE = 8  # pictures of a batch
_SAVED_EVERY = 32  # batches


class ConversingModel(SeeingModel):
    """`asking.prompt` is the whole text around a question, with QUESTION and IMAGE in it."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"answer"})

    def __init__(self, found: TransformersFolder, asking: Asking, request: Request) -> None:
        super().__init__(found, asking, request)
        self.note = self.unused

    def answer(self, prompts: Sequence[str], longest: int) -> NDArray[np.object_]:
        """The answer to each picture's prompt, greedily, in at most `longest` tokens: (images,); "" where none is.

        Answers that are done are saved when a run is interrupted. Raises DatasetError or ModelError.
        """
        from fairgate.models.checkpoints import require_device, scoring

        texts = self._texts(prompts)
        cache = self._request.cache
        name = f"answers/{self._key()}/{digest([longest, *texts])}"
        entry = cache.read(name) if cache else None
        known = json.loads(entry.notes["answers"]) if entry is not None and "answers" in entry.notes else {}
        found = {int(row): str(text) for row, text in known.items()}
        todo = [row for row, text in enumerate(texts) if text and row not in found]
        if todo:
            require_device(self._device)
            with naming(self.uri, "be loaded"):
                engine = self.engine()
            rows = list[int]()
            pictures = []
            try:
                with scoring(self._device), naming(self.uri, "answer about a picture"):
                    for row, image in self._rows(todo):
                        rows.append(row)
                        pictures.append((image, texts[row]))
                        if len(rows) == _AT_ONCE or len(found) + len(rows) == len(todo) + len(known):
                            found.update(zip(rows, engine.answers(pictures, longest), strict=True))
                            self.pictures_read += len(rows)
                            rows, pictures = [], []
                            if len(found) % (_AT_ONCE * _SAVED_EVERY) == 0:
                                self._save(name, found)
            finally:  # also after Ctrl-C or an unreadable picture
                self._save(name, found)
        return np.array([found.get(row, "") for row in range(len(texts))], dtype=object)

    def _save(self, name: str, found: dict[int, str]) -> None:
        if self._request.cache:
            none = {"none": np.empty(0, dtype=np.float32)}
            self._request.cache.write(name, none, {"answers": json.dumps(found)})

    def _texts(self, prompts: Sequence[str]) -> list[str]:
        """The whole text of each picture; "" where it is not asked."""
        if odd := next((one for one in prompts if IMAGE in one or QUESTION in one), None):
            raise ModelError(
                f"a question holds a mark, {IMAGE} or {QUESTION}: '{odd[:80]}'.",
                where=self.uri,
                remedy="write the question in words; where it and the picture go is in the URI's chat",
            )
        return [self.asking.prompt.replace(QUESTION, one) if one else "" for one in prompts]
