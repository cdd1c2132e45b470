"""Two towers in ONNX: vectors of pictures and of texts, from two files or from one that takes both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import (
    TOKENIZER_FILES,
    Embeddings,
    Encoder,
    HashedFiles,
    diverged,
)
from fairgate.models.onnx.host import MODEL
from fairgate.models.onnx.pictures import files_in, read_by
from fairgate.models.onnx.session import PictureInput, filled_up, open_session, rows_of

TEXT, TEXT_DATA = "text", "text_data"
"""Roles of the text tower's file, and of its weights where they are in another one."""
LONGEST = 4096
_IDS, _MASK = "input_ids", "attention_mask"
_SHORT: Mapping[str, str] = {_IDS: "ids", _MASK: "mask"}
"""Names of inputs, and of the tokens of an `Encoder`."""
_KINDS: Mapping[str, type[np.generic]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model")


@dataclass(frozen=True, slots=True)
class TowerOptions:
    """What a URI says of two towers; None where the files are to tell."""

    image_output: str | None
    text_output: str | None
    length: int | None
    scale: float
    bias: float
    layout: str | None


def tokenizer_files(folder: Path) -> dict[str, Path]:
    """The files of a folder's tokenizer, by name. Raises ModelError as `files_in`."""
    return files_in(folder, TOKENIZER_FILES, _VOCABULARIES, "holds no tokenizer")


class OnnxTowers:
    """Sessions of an image tower and a text tower. Raises ModelError for files that are none."""

    def __init__(self, files: HashedFiles, declared: TowerOptions, folder: Path, uri: str) -> None:
        self._declared, self._uri = declared, uri
        self._image = open_session(files)
        self._apart = files.paths[TEXT] != files.paths[MODEL]
        self._text = open_session(files, TEXT, TEXT_DATA) if self._apart else self._image
        self._where, self._texts_where = str(files.paths[MODEL]), str(files.paths[TEXT])
        self._pixels = PictureInput(self._picture_input(), declared.layout, self._where, uri)
        self._kinds, shape = self._text_inputs()
        self._fixed = shape[0] if isinstance(shape[0], int) else None
        self._outputs = (
            _output(self._image, declared.image_output, "image_embeds", "output", self._where),
            _output(self._text, declared.text_output, "text_embeds", "text_output", self._texts_where),
        )
        self._tokenizer = read_by("AutoTokenizer", files, TOKENIZER_FILES, folder)
        self._lower = str(type(self._tokenizer).__name__).startswith("Gemma")  # of SigLIP 2, trained on small letters
        self._length = self._longest(shape[1])

    def encoder(self, prepare: Callable[[Any], Any]) -> Encoder:
        """Both towers, with pictures that `prepare` makes."""
        from PIL import Image

        besides: dict[str, NDArray[Any]] = {}
        blank: dict[str, NDArray[Any]] = {}
        if not self._apart:  # each half is given something for the other, which does not change its own vectors
            besides = self._fed(self.tokens(["a"]))
            (picture, _) = next(self._pixels.batches([prepare(Image.new("RGB", (64, 64)))]))
            blank = {self._pixels.name: picture}

        def encode_images(prepared: Any) -> Embeddings:
            batches = self._pixels.batches(prepared)
            output = self._outputs[0]
            return rows_of(self._image, output, self._pixels.name, batches, besides, self._where).astype(np.float32)

        return Encoder(
            scale=self._declared.scale,
            bias=self._declared.bias,
            vocabulary=max(self._tokenizer.get_vocab().values()) + 1,
            prepare=prepare,
            encode_images=encode_images,
            tokens=self.tokens,
            encode_tokens=lambda found: self._encode_tokens(found, blank),
        )

    def tokens(self, prompts: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """Prompts cut into tokens and filled up to one length: ids and, if it is an input, the mask, each (prompts,
        length)."""
        written = [prompt.lower() if self._lower else prompt for prompt in prompts]
        cut = self._tokenizer(
            written, padding="max_length", truncation=True, max_length=self._length, return_attention_mask=True
        )
        return {short: np.asarray(cut[name]) for name, short in _SHORT.items() if name in self._kinds}

    def _encode_tokens(self, found: Mapping[str, Any], blank: Mapping[str, Any]) -> Embeddings:
        rows, vectors = np.stack([np.asarray(one) for one in found.values()], axis=1), []
        for piece, count in filled_up(rows, self._fixed):
            fed = self._fed({name: piece[:, place] for place, name in enumerate(found)})
            (raw,) = self._text.run([self._outputs[1]], {**blank, **fed})
            if len(raw) != len(piece):
                raise diverged(f"the text tower has {len(raw)} rows for {len(piece)} texts.", self._texts_where)
            vectors.append(np.asarray(raw, dtype=np.float32)[:count])
        return np.concatenate(vectors)

    def _fed(self, tokens: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Tokens under the names, and in the kinds, of the text tower's inputs."""
        return {name: np.ascontiguousarray(tokens[_SHORT[name]], dtype=kind) for name, kind in self._kinds.items()}

    def _picture_input(self) -> Any:
        given = {each.name: each for each in self._image.get_inputs()}
        pictures = [each for each in given.values() if len(each.shape) == 4]
        texts = () if self._apart else (_IDS, _MASK)
        if len(pictures) != 1 or not {*given} <= {pictures[0].name, *texts}:
            raise self._inputs(given, "an image tower", self._where)
        return pictures[0]

    def _text_inputs(self) -> tuple[dict[str, type[np.generic]], list[Any]]:
        """The kinds of ids and, if it is there, of the mask; and the shape of the ids."""
        given = {each.name: each for each in self._text.get_inputs()}
        texts = {name: each for name, each in given.items() if self._apart or name != self._pixels.name}
        known = _IDS in texts and {*texts} <= {_IDS, _MASK}
        if not known or any(each.type not in _KINDS or len(each.shape) != 2 for each in texts.values()):
            raise self._inputs(given, "a text tower", self._texts_where)
        return {name: _KINDS[each.type] for name, each in texts.items()}, list(texts[_IDS].shape)

    def _inputs(self, given: Mapping[str, Any], what: str, where: str) -> ModelError:
        told = ", ".join(f"{name} {each.shape}" for name, each in list(given.items())[:4])
        return ModelError(
            f"the model is not {what}: its inputs are {told or 'none'}.",
            where=where,
            remedy=f"an image tower takes pictures, a text tower whole numbers called {_IDS} and, if it needs it, "
            f"{_MASK}; one file may take both; of another model, judge tables of vectors: embeddings:FOLDER",
        )

    def _longest(self, side: Any) -> int:
        """How many tokens a text has: what the file fixes, the URI says, or the tokenizer does."""
        own = int(min(self._tokenizer.model_max_length, LONGEST + 1))
        length = side if isinstance(side, int) else self._declared.length or own
        if (self._declared.length or length) != length or not 0 < length <= LONGEST:
            raise ModelError(
                f"texts of {self._declared.length} tokens are no input of {[*self._kinds]}, which takes {side}."
                if self._declared.length
                else "neither the model nor its tokenizer says how many tokens a text has.",
                where=self._uri,
                remedy="write the number that it was trained with: &length=77 (CLIP), &length=64 (SigLIP)",
            )
        return length


def _output(session: Any, declared: str | None, usual: str, option: str, where: str) -> str:
    """The output with a vector per row: as the URI says, as it is usually called, or the only one of that shape."""
    shapes = {each.name: list(each.shape) for each in session.get_outputs()}
    vectors = [name for name, shape in shapes.items() if len(shape) == 2]
    if declared in vectors:
        return str(declared)
    if declared is None and (usual in vectors or len(vectors) == 1):
        return usual if usual in vectors else vectors[0]
    told = ", ".join(f"{name} {shape}" for name, shape in list(shapes.items())[:8])
    raise ModelError(
        f"none or several of the model's outputs are a vector for each input ({told})."
        if declared is None
        else f"the model has no output '{declared[:80]}' with a vector for each input ({told}).",
        where=where,
        remedy=f"name the output of projected features: &{option}={(vectors or [usual])[0]}",
    )
