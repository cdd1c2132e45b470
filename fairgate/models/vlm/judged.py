"""A judged model that gives each label a log-likelihood: computed once a picture and label, cached, and resumable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import diverged, naming
from fairgate.models.contract import Capability, Floats, Request, log_softmax
from fairgate.models.decoding import decode_rgb, name_of
from fairgate.models.family import JudgedByText, Numbers, RowParts

Average = Literal["sum", "mean"]
SAME_LABEL = {"fp32": 1e-5, "amp_fp16": 1e-2, "amp_bf16": 1e-1}
"""Nats by which two labels' log-likelihoods differ at most, on every picture, where they are one text to the model:
equal tokens differ by the order of sums alone."""
_BATCH = 16  # pictures read at once


class LabelEngine(Protocol):
    """A loaded model."""

    def tokens(self, labels: Sequence[str]) -> Sequence[Sequence[int]]:
        """The tokens of each label. Raises ModelError for a label that cannot be scored."""
        ...

    def log_likelihoods(self, shown: Any, labels: Sequence[Sequence[int]]) -> Floats:
        """Summed log-probabilities of labels, given by their tokens, after what is shown: (labels,)."""
        ...


class LabelLikelihoods(JudgedByText[LabelEngine]):
    """`fingerprint`, `preparation`, `tokenizer` and `preprocessing` are those of `fairgate.models.Model`."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"log_probabilities"})
    tokenizer: str
    preprocessing: str

    def __init__(self, request: Request, average: Average) -> None:
        super().__init__(request)
        self.average = average
        self.pictures_read = 0
        """Pictures that the language model was shown so far, in this process."""

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        """Log-softmax, over exactly these labels, of their log-likelihoods: (images, prompts) float64."""
        return log_softmax(self.log_likelihoods(prompts))

    def log_likelihoods(self, labels: Sequence[str]) -> Floats:
        """Log-likelihood of each label after the prompt, summed over its tokens or their mean: (images, labels).

        Of every picture and label, computed once. Raises DatasetError for an unreadable picture, ModelError for a label
        that cannot be scored or a likelihood that is not finite.
        """
        if not labels:
            raise ModelError("there is no label to choose from.", where=self.uri, remedy="give at least one")
        return self._columns("likelihoods", "labels", labels, self._table)

    def indistinct(self, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        """Pairs of different labels that are equally likely for every picture, up to rounding: one text to it."""
        if not all(len(prompts) == 1 for prompts in ensembles):
            return []
        labels = [prompts[0] for prompts in ensembles]
        found = self.log_likelihoods(labels)
        return [
            (one, other)
            for one in range(len(labels))
            for other in range(one + 1, len(labels))
            if labels[one] != labels[other]
            and np.abs(found[:, one] - found[:, other]).max() <= SAME_LABEL[self.precision]
        ]

    def _rows(self, todo: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Row numbers of pictures, and what the engine is shown of each: the picture."""
        source, wanted = self._request.source, set(todo)
        for rows, blobs in source.image_batches(_BATCH):
            for row, data in zip(rows, blobs, strict=True):
                if int(row) in wanted:
                    yield int(row), decode_rgb(data, source, int(row))

    def _table(self, parts: str, labels: Sequence[str]) -> Numbers:
        """Likelihoods of labels on every picture, (images, labels) float32; done pieces are cached below `parts`."""
        from fairgate.models.checkpoints import scoring

        if (pieces := RowParts(self._request, parts)).has.all():
            return pieces.merged()
        engine = self._engine()
        with naming(self.uri, "read the labels"):
            tokens = engine.tokens(labels)
        lengths = np.array([len(label) for label in tokens]) if self.average == "mean" else 1
        with pieces as work, scoring(self._device):
            for row, shown in self._rows(np.flatnonzero(~work.has).tolist()):
                with naming(self.uri, "score labels"), np.errstate(over="ignore"):
                    table = (engine.log_likelihoods(shown, tokens) / lengths).astype(np.float32)
                if not np.isfinite(table).all():
                    where = f"{self.uri}: {name_of(self._request.source, row)}"
                    raise diverged("the model's likelihood of a label is NaN or infinite.", where)
                self.pictures_read += 1
                work.add(np.array([row]), table[None])
        return work.merged()

    def _key(self) -> str:
        """Digest that names likelihoods of this model, on these pictures, at a precision."""
        return digest({**self._ways("torchvision"), "dataset": self._request.source.fingerprint})
