"""What families and judged models share: where a URI's files are, one load, and numbers of images that are kept in
pieces. No torch."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import DatasetError, ModelError
from fairgate.ground.hashing import digest
from fairgate.ground.spans import span
from fairgate.models import checkpoints
from fairgate.models.checkpoints import TransformersFolder
from fairgate.models.contract import ImageSource, Model, Request, Rows
from fairgate.models.decoding import name_of
from fairgate.models.known_images import KnownImages, Numbers
from fairgate.models.shards import shard_of

PART = 1024  # images between two checkpoints of the work
_LOOKED_UP = 64  # images that are looked up at once
Network = TypeVar("Network")


class FileFamily:
    """A base of families whose addresses name a file. `files` and `folders` are the options that name files, and
    folders or models of the hub."""

    files: ClassVar[tuple[str, ...]] = ()
    folders: ClassVar[tuple[str, ...]] = ()

    def local_path(self, address: str) -> Path | None:
        """The file."""
        return Path(address.partition("?")[0])

    def option_files(self, address: str) -> tuple[Path, ...]:
        """Files and folders that the options name, as they are opened; none for a model of the hub."""
        return tuple(
            Path(value)
            for name, value in checkpoints.read_options(address.partition("?")[2])
            if name in self.files or (name in self.folders and not checkpoints.is_hub_id(value))
        )


class FolderFamily(FileFamily):
    """A base of families whose addresses name a folder, or a model of the hub. `ending` is how transformers' classes
    for its task are called, `parts` what their configs have."""

    scheme: ClassVar[str]
    folders: ClassVar[tuple[str, ...]] = ("processor",)
    ending: ClassVar[str] = ""
    parts: ClassVar[tuple[str, ...]] = ()

    def local_path(self, address: str) -> Path | None:
        """The folder, unless it is a model of the hub."""
        return checkpoints.local_folder(address)

    def is_plain(self, folder: Path) -> bool:
        """Whether the library alone opens a folder: of a type that no family lists, saved for this family's task."""
        return bool(self.ending) and checkpoints.is_plain(folder, self.ending, self.scheme, self.parts)

    def found(
        self,
        request: Request,
        named: str,
        options: Mapping[str, str],
        kinds: Collection[str],
        *,
        plain: bool = False,
        **how: Any,
    ) -> TransformersFolder:
        """The folder of transformers that an address names, hashed, with the `processor` of its options. Of a type that
        no family lists, a plain one, if its class is called as those of this family are; with `plain`, of any type.
        Raises ModelError."""
        folder = checkpoints.judged_folder(named, request.base)
        processor = checkpoints.option_folder(options, "processor", request.base)
        if self.is_plain(folder):
            return checkpoints.find_plain(folder, processor, self.scheme)
        if plain:
            checkpoints.require_type(folder, tuple(kinds), "score", self.scheme, checkpoints.require_no_code)
            return checkpoints.find_plain(folder, processor, self.scheme)
        return checkpoints.find_folder(folder, tuple(kinds), scheme=self.scheme, processor=processor, **how)


def require_unfitted(source: ImageSource, release: str, fingerprint: str, where: str, what: str, command: str) -> None:
    """Raises ModelError for pictures of the release that something was fitted on: they are no evidence for it."""
    name = getattr(source, "name", None)
    if source.fingerprint == fingerprint or name == release.partition("@")[0]:
        raise ModelError(
            f"the {what} was fitted on {release}, whose pictures judge here"
            f"{'' if name is None else f' (dataset {name})'}.",
            where=where,
            remedy=f"fit it on another release: {command}",
        )


class JudgedModel(ABC, Generic[Network]):
    """A base of models that are loaded when a number is not in the cache. `note` is what a reader should know,
    and the paths of its URI start at `base`.

    `precision` is that of all its numbers; without one, that of the device.
    """

    fingerprint: str
    preparation: str

    def __init__(self, request: Request, precision: str | None = None, note: str | None = None) -> None:
        self.uri, self.base, self._request = request.uri, request.base, request
        found = checkpoints.find_device(request.device)
        self._device = replace(found, precision=precision or found.precision)
        self.device, self.precision = self._device.name, self._device.precision
        self.note = note
        self._network: Network | None = None
        self._lender: JudgedModel[Network] | None = None

    @abstractmethod
    def _load(self) -> Network:
        """The loaded model."""

    def share(self, other: Model) -> None:
        """Take the network of the same model on other pictures, so that it is in memory once. Another model, or one on
        another device, is left alone."""
        decides = ("fingerprint", "preparation", "tokenizer", "preprocessing", "device", "precision")
        if isinstance(other, type(self)) and all(getattr(self, x, None) == getattr(other, x, None) for x in decides):
            self._lender = other

    def release(self) -> None:
        """Let the network go: another model needs the memory. It is loaded again where a number is missing."""
        self._network = None

    def _ways(self, *packages: str) -> dict[str, Any]:
        """What decides its numbers on whatever images: files and options, code, versions of packages, precision."""
        named = {"fingerprint": self.fingerprint, "adapter": self.preparation, "precision": self.precision}
        return {**named, "libraries": checkpoints.versions(*packages, "transformers", "tokenizers", "torch", "pillow")}

    def _engine(self) -> Network:
        """The loaded model, on its device. Raises ModelError or DeviceError."""
        if self._network is None and self._lender:
            self._network = self._lender._engine()
        if self._network is None:
            with span("load"):
                checkpoints.require_device(self._device)
                with checkpoints.naming(self.uri, "be loaded"):
                    self._network = self._load()
        return self._network


class JudgedByText(JudgedModel[Network]):
    """A base of models that give every image a number for each text, computed once a text."""

    _known: dict[str, Numbers] | None = None

    @abstractmethod
    def _alike(self) -> dict[str, Any]:
        """What decides the numbers of this model on whatever images, at a precision."""

    def _key(self) -> str:
        """Digest that names the numbers of this model, on these images, at a precision."""
        return digest({**self._alike(), "dataset": self._request.source.fingerprint})

    def _columns(
        self,
        kind: str,
        noted: str,
        texts: Sequence[str],
        compute: Callable[[str, list[str], KnownImages | None], Numbers],
        *,
        by_set: bool = False,
    ) -> NDArray[np.float64]:
        """The numbers, (images, texts): from the cache, of a `kind`, or by `compute(name of the pieces, texts, what is
        known of other sources' images)`. The cache has the texts as a note, `noted`. With `by_set`, the numbers of an
        image depend on its set too."""
        cache, key = self._request.cache, self._key()
        if self._known is None:
            self._known = self._cached(f"{kind}/{key}", kind, noted)
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:

            def of_other(entry: str) -> Numbers | None:
                there = self._cached(entry, kind, noted)
                return np.stack([there[text] for text in missing], axis=1) if there.keys() >= set(missing) else None

            name, alike = f"{key}/{digest(missing)}", digest({kind: self._alike()})
            context = self._request.source.index.set_id if by_set else None
            known = KnownImages(self._request, f"{kind}/{key}", alike, of_other, context=context) if cache else None
            table = compute(f"parts/{name}", missing, known)
            self._known.update(zip(missing, table.T, strict=True))
            if cache and known:
                cache.write(f"{kind}/{name}", {kind: table}, {noted: json.dumps(missing)})
                cache.drop_all(f"parts/{name}")
                known.keep()
        return np.stack([self._known[text] for text in texts], axis=1).astype(np.float64)

    def _cached(self, name: str, kind: str, noted: str) -> dict[str, Numbers]:
        """The numbers of all images by text, from the entries below a name."""
        found = dict[str, Numbers]()
        for entry in self._request.cache.below(name) if self._request.cache else []:
            if noted in entry.notes and kind in entry.arrays:
                found.update(zip(json.loads(entry.notes[noted]), entry.arrays[kind].T, strict=True))
        return found


class RowParts:
    """Numbers (images, width) of a request's images by row, cached in pieces below a name, so that an interrupted run
    goes on. Inside of `with`, progress is reported, and what is done is saved, whatever ends the work. Images whose
    numbers are `known` are not in its batches."""

    def __init__(self, request: Request, name: str, known: KnownImages | None = None) -> None:
        self._request, self._name, self._known = request, name, known
        self._fresh: list[tuple[Rows, Numbers]] = []
        self._numbers: Numbers | None = None
        self.has = np.zeros(len(request.source), dtype=np.bool_)
        for entry in request.cache.below(name) if request.cache else []:
            self._place(np.asarray([int(row) for row in entry.notes["rows"].split()]), entry.arrays["embeddings"])

    def __enter__(self) -> Self:
        self._report()
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()  # also after Ctrl-C or an unreadable image

    def batches(self, size: int) -> Iterator[list[tuple[int, bytes]]]:
        """Rows that are not done yet, with the images' bytes: at most `size` of them, and at least one."""
        for rows, blobs in self._request.source.image_batches(size):
            if self._known:
                known, numbers = self._known.of(rows, blobs)
                if numbers is not None:
                    self._place(known, numbers)
                    self._report()
            if todo := [(int(row), data) for row, data in zip(rows, blobs, strict=True) if not self.has[row]]:
                yield todo

    def take_known(self) -> None:
        """Add what is known of other sources' images, which reads all of these once: no model is loaded for them."""
        known, self._known = self._known, None
        for rows, blobs in self._request.source.image_batches(_LOOKED_UP) if known else ():
            places, numbers = known.of(rows, blobs) if known else (rows, None)
            if numbers is not None:
                self.add(places, numbers)

    def add(self, rows: Rows, numbers: Numbers) -> None:
        self._place(rows, numbers)
        self._fresh.append((rows, numbers))
        if sum(len(piece) for piece, _ in self._fresh) >= PART:
            self.flush()
        self._report()

    def flush(self) -> None:
        if self._request.cache and self._fresh:
            rows = np.concatenate([piece for piece, _ in self._fresh])
            numbers = np.concatenate([piece for _, piece in self._fresh])
            name = f"{self._name}/{int(rows[0]):012d}-{len(rows)}"
            self._request.cache.write(name, {"embeddings": numbers}, {"rows": " ".join(map(str, rows.tolist()))})
        self._fresh = []

    def merged(self) -> Numbers:
        """The numbers of all rows; of a shard, rows of other jobs have those of its first one."""
        source = self._request.source
        if self._numbers is not None and shard_of(source) is not None:
            return np.where(self.has[:, None], self._numbers, self._numbers[int(self.has.argmax())])
        if self._numbers is None or not self.has.all():
            missing = np.flatnonzero(~self.has)
            raise DatasetError(
                f"the dataset yielded {int(self.has.sum())} of its {len(self.has)} images.",
                where=f"{source.folder}" + (f": {name_of(source, int(missing[0]))}" if missing.size else ""),
                remedy="run `fairgate dataset verify`",
            )
        return self._numbers

    def _place(self, rows: Rows, numbers: Numbers) -> None:
        if self._numbers is None:
            self._numbers = np.zeros((len(self.has), numbers.shape[1]), dtype=np.float32)
        self._numbers[rows] = numbers
        self.has[rows] = True

    def _report(self) -> None:
        if self._request.progress:
            self._request.progress(int(self.has.sum()), len(self.has))
