"""A judged model that gives each label a log-likelihood: computed once a picture and label, cached, and resumable."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import diverged, find_device, naming
from fairgate.models.contract import Capability, Floats, Request, log_softmax
from fairgate.models.decoding import decode_rgb, name_of
from fairgate.models.family import JudgedByText, RowParts
from fairgate.models.known_images import KnownImages, Numbers

Average = Literal["sum", "mean"]
Item = TypeVar("Item")
Pieces = Iterator[tuple[list[int], Iterable[Any]]]
"""Row numbers, and as many pictures, each decoded when it is wanted, or texts."""
Ready = Generator[tuple[list[int], list[Any]]]
"""The same, as the model takes it."""
SAME_LABEL = {"fp32": 1e-5, "amp_fp16": 1e-2, "amp_bf16": 1e-1, "bf16": 1e-1}
"""Nats by which two labels' log-likelihoods differ at most, on every picture, where they are one text to the model:
equal tokens differ by the order of sums alone."""
_READ = 16  # pictures at least that are read from the source at once
_AT_ONCE, _AT_ONCE_CUDA = 4, 16  # pictures that a CPU and a GPU are shown at once; more are hardly faster


class LabelEngine(Protocol):
    """A loaded model."""

    def tokens(self, labels: Sequence[str]) -> Sequence[Sequence[int]]:
        """The tokens of each label. Raises ModelError for a label that cannot be scored."""
        ...

    def inputs(self, shown: Any) -> Any:
        """What is shown, as the model takes it. May be called in another thread than the rest."""
        ...

    def log_likelihoods(self, shown: Sequence[Any], labels: Sequence[Sequence[int]]) -> Floats:
        """Summed log-probabilities of labels, given by their tokens, after each of what is shown, given as `inputs`:
        (shown, labels)."""
        ...


def one_ahead(items: Iterator[Item]) -> Generator[Item]:
    """The items, each made by a thread while the one before it is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="prepare") as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


class LabelLikelihoods(JudgedByText[LabelEngine]):
    """`fingerprint`, `preparation`, `tokenizer` and `preprocessing` are those of `fairgate.models.Model`."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"log_probabilities"})
    reads_pictures: ClassVar[bool] = True
    """Not of one that reads captions: then no picture is read to find out which are known"""
    tokenizer: str
    preprocessing: str

    def __init__(self, request: Request, average: Average, *, language: bool = False) -> None:
        """A `language` model computes in bfloat16 throughout on a GPU that can, as it is trained and deployed: with
        float32 between its layers, as under autocast, a token takes up to 1.7 times as long."""
        can = find_device(request.device).precision == "amp_bf16"
        super().__init__(request, "bf16" if language and can else None)
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

    def _pieces(self, todo: Sequence[int], at_once: int) -> Pieces:
        """Row numbers of so many pictures, fewer at a batch's end, and what the engine is shown of each: the picture.

        A piece is a part of one batch of the source, so that a shard's pieces are those of a whole run."""
        source, wanted = self._request.source, set(todo)
        for rows, blobs in source.image_batches(max(_READ, at_once)):
            asked = [(int(row), data) for row, data in zip(rows, blobs, strict=True) if int(row) in wanted]
            for start in range(0, len(asked), at_once):
                piece = asked[start : start + at_once]
                yield [row for row, _ in piece], (decode_rgb(data, source, row) for row, data in piece)

    def _prepared(self, pieces: Pieces, prepare: Callable[[int, Any], Any], what: str) -> Ready:
        """Row numbers, and what is shown as the model takes it; on a GPU, made while it computes the piece before."""

        def made() -> Ready:
            for rows, shown in pieces:
                with naming(self.uri, what):
                    inputs = [prepare(row, each) for row, each in zip(rows, shown, strict=True)]
                yield rows, inputs

        return one_ahead(made()) if self._device.is_cuda else made()

    def _table(self, parts: str, labels: Sequence[str], known: KnownImages | None) -> Numbers:
        """Likelihoods of labels on every picture, (images, labels) float32; done pieces are cached below `parts`."""
        from fairgate.models.checkpoints import Halving, scoring

        pieces = RowParts(self._request, parts, known)
        if self.reads_pictures and not pieces.has.all():
            pieces.take_known()
        if pieces.has.all():
            return pieces.merged()
        engine = self._engine()
        with naming(self.uri, "read the labels"):
            tokens = engine.tokens(labels)
        lengths = np.array([len(label) for label in tokens]) if self.average == "mean" else 1
        halving = Halving(lambda shown: engine.log_likelihoods(shown, tokens), self._device.name)
        todo = np.flatnonzero(~pieces.has).tolist()
        shown = self._pieces(todo, _AT_ONCE_CUDA if self._device.is_cuda else _AT_ONCE)
        prepared = self._prepared(shown, lambda _, each: engine.inputs(each), "score labels")
        with pieces as work, scoring(self._device), closing(prepared):
            for rows, inputs in prepared:
                with naming(self.uri, "score labels"), np.errstate(over="ignore"):
                    table = (halving(inputs) / lengths).astype(np.float32)
                if (bad := ~np.isfinite(table).all(axis=1)).any():
                    where = f"{self.uri}: {name_of(self._request.source, rows[int(bad.argmax())])}"
                    raise diverged("the model's likelihood of a label is NaN or infinite.", where)
                self.pictures_read += len(rows)
                work.add(np.array(rows), table)
        return work.merged()

    def _alike(self) -> dict[str, Any]:
        return self._ways("torchvision")
