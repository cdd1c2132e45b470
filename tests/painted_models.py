"""Models of a test: `painted:PLANT`, whose edits are flat colours with a planted bias, and `colour:NAME`, their reader.

Blue says the gender of a picture of the toy dataset, red its skin, the first pixel the word of an edit.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image
from toy_repository import SUITE

from fairgate.ground.hashing import digest
from fairgate.ground.randomness import stream
from fairgate.models import Editing, Floats, ImageSource, Request, log_softmax, registry

BLUE = {"male": 40, "female": 60}
WORDS = ("doctor", "nurse")
MEMBERS = 4
"""Of a set of the toy dataset."""
MALE_SHARE = {
    "plain": {"doctor": 0.6, "nurse": 0.4},
    "again": {"doctor": 0.6, "nurse": 0.4},
    "planted": {"doctor": 0.95, "nurse": 0.4},
    "lighter": {"doctor": 0.6, "nurse": 0.4},
    "nothing": {},
}
"""P(male | word) in the edits of each plant: `again` differs from `plain` in a few pictures, `lighter` in their skin,
and `nothing` returns what it is given, `skip` does so with dark women alone. `bleach` is `again` with four fifths of
every dark picture painted white, `every-second` with every second edit of a picture all white, `read-8-20` with skin
in sets 8 to 19 alone. `glasses-0.3` is `again` with
glasses on 3 in 10 of the women, `glasses-all-0.3` on everybody. A prompt that names a gender shows it, and one with
"irrespective" leaves the gender of half of the pictures as it was."""
GLASSES = 255
"""Green of the second pixel of who wears them."""
MISSED, FALSE = 0.2, 0.1
"""How often the reader `colour:blurred` is wrong about glasses."""


@functools.lru_cache(maxsize=4096)
def _pixels(data: bytes) -> Any:
    """A flat colour and a word: few pictures differ, and each is decoded once."""
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    pixels.flags.writeable = False
    return pixels


@functools.lru_cache(maxsize=4096)
def _png(pixels: bytes, size: tuple[int, int]) -> bytes:
    out = io.BytesIO()
    Image.frombytes("RGB", size, pixels).save(out, "PNG")
    return out.getvalue()


class _Opened:
    tokenizer = preprocessing = None
    precision, device, preparation = "fp32", "cpu", "painted/1"

    def __init__(self, request: Request) -> None:
        self.uri, self.request, self.source = request.uri, request, request.source
        self.fingerprint = digest(request.uri)


class Painted(_Opened):
    """An editor."""

    capabilities = frozenset({"edit"})

    def edit(self, prompt: str, how: Editing) -> ImageSource:
        return Edits(self.source, prompt, how, self.request.address)


@dataclass
class Edits:
    source: ImageSource
    prompt: str
    how: Editing
    plant: str

    @property
    def fingerprint(self) -> str:
        return digest([self.source.fingerprint, self.prompt, self.how.strength, self.how.seed, self.plant])

    @property
    def folder(self) -> Path:
        return self.source.folder

    @property
    def index(self) -> Any:
        return self.source.index

    def __len__(self) -> int:
        return len(self.source)

    def image_batches(self, batch_size: int) -> Iterator[tuple[Any, list[bytes]]]:
        for rows, blobs in self.source.image_batches(batch_size):
            yield rows, [self._edited(data, int(row)) for row, data in zip(rows, blobs, strict=True)]

    def _edited(self, data: bytes, row: int) -> bytes:
        shares = MALE_SHARE.get(self.plant, MALE_SHARE["again"])
        pixels = _pixels(data).copy()
        word = next(one for one in WORDS if one in self.prompt)
        skipped = self.plant == "skip" and "dark-female" in str(self.index.member[row])
        if shares and not skipped:
            drawn = stream(self.how.seed, word, str(self.index.set_id[row]), str(self.index.member[row])).random(2)
            share = shares[word] + (0 if self.plant in MALE_SHARE and self.plant != "again" else 0.02)
            named = next((gender for gender in BLUE if gender in self.prompt.split()), None)
            if named is not None:
                pixels[..., 2] = BLUE[named]
            elif "irrespective" not in self.prompt or drawn[1] < 0.5:
                pixels[..., 2] = BLUE["male" if drawn[0] < share else "female"]
            pixels[0, 0] = (WORDS.index(word), 0, 0)
            if self.plant == "lighter" and pixels[-1, -1, 0] < 100:
                pixels[1:] = np.clip(pixels[1:] * 1.5, 0, 255).astype(np.uint8)
                pixels[1:, :, 2] = pixels[-1, -1, 2] / 1.5
            if self.plant == "bleach" and pixels[-1, -1, 0] < 100:
                pixels[1:-1] = 255
            if self.plant.startswith("glasses"):
                wears = stream(
                    self.how.seed, "glasses", word, str(self.index.set_id[row]), str(self.index.member[row])
                ).random()
                everybody, share = "all" in self.plant, float(self.plant.rpartition("-")[2])
                if wears < share and (everybody or "female" in str(self.index.member[row])):
                    pixels[0, 1] = (0, GLASSES, 0)
            blank = self.plant == "every-second" and self.how.seed % 2 == 1
            if self.plant.startswith("read"):
                first, end = map(int, self.plant.split("-")[1:])
                blank = not first <= row // MEMBERS < end
            if blank:
                corner = pixels[-1, -1].copy()
                pixels[1:] = 255
                pixels[-1, -1] = corner
        return _png(pixels.tobytes(), (pixels.shape[1], pixels.shape[0]))


class Colour(_Opened):
    """A reader that is never wrong; `colour:blurred` is, about glasses."""

    capabilities = frozenset({"log_probabilities"})

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        logits = np.zeros((len(self.source), len(prompts)))
        for rows, blobs in self.source.image_batches(64):
            for row, data in zip(rows, blobs, strict=True):
                pixels = _pixels(data)
                seen = {"male" if pixels[-1, -1, 2] < 50 else "female", WORDS[min(pixels[0, 0, 0], 1)]}
                seen.add("glasses" if self._sees_glasses(pixels[0, 1, 1] == GLASSES, int(row)) else "bare")
                logits[row] = [10.0 * any(one in prompt.split() for one in seen) for prompt in prompts]
        return log_softmax(logits)

    def _sees_glasses(self, wears: bool, row: int) -> bool:
        error = (MISSED if wears else FALSE) if self.request.address == "blurred" else 0.0
        picture = (self.source.fingerprint, str(self.source.index.set_id[row]), str(self.source.index.member[row]))
        return bool(wears != (stream(0, "blurred", *picture).random() < error))


@dataclass
class Family:
    """A scheme and the class that it opens."""

    scheme: str
    opens: type[_Opened]
    forms: ClassVar[tuple[str, ...]] = ("painted:PLANT",)

    @property
    def capabilities(self) -> Any:
        return self.opens.capabilities  # type: ignore[attr-defined]

    def local_path(self, address: str) -> Path | None:
        return Path(address) if "/" in address else None

    def open(self, request: Request) -> Any:
        return self.opens(request)


FAMILIES = {"painted": Family("painted", Painted), "colour": Family("colour", Colour)}


def suite_of_edits(probe: str, checks: str) -> str:
    """The toy's suite with a probe of edits: `painted:again` against `painted:plain`, which edits alike."""
    head = SUITE.split("probes:")[0].replace("scores:tuned.csv?values=logit", "painted:again")
    head = head.replace("scores:base.csv?values=logit", "painted:plain")
    return f"{head}probes:\n{probe}decision: {{draws: 1000}}\nchecks:\n{checks}"


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let addresses name the families above."""
    for scheme, family in FAMILIES.items():
        monkeypatch.setitem(registry.FAMILIES._found, scheme, family)
