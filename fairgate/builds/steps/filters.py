"""Filters: limits on a number, equal pictures, few colours, pictures that do not match their captions in CLIP's space;
and dropping columns no longer needed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from PIL.Image import Image

from fairgate.builds.steps.contract import Drop, Judge, Maker, Meter, SetRows, Trace
from fairgate.builds.steps.pictures import picture, spending
from fairgate.ground.errors import RecipeError
from fairgate.models.generation import Matcher, Vectors


@dataclass(frozen=True, slots=True)
class Within(Judge):
    """Drops a set whose `column` is below `at_least` or above `at_most`, with `reason`."""

    column: str
    reason: str
    at_least: float | None = None
    at_most: float | None = None

    def judge(self, rows: SetRows) -> Drop | None:
        """None within the limits. Raises RecipeError where the set has no such number."""
        value = rows.columns.get(self.column)
        if not isinstance(value, int | float):
            raise RecipeError(
                f"set '{rows.set_id}' has no number '{self.column}', and got {value!r}.",
                where=f"step Within('{self.column}')",
                remedy="order the recipe's steps so that a column is written before it is judged",
            )
        measured = float(value)
        if self.at_least is not None and not measured >= self.at_least:  # NaN is not within any limit
            return Drop(self.reason, measured=measured, limit=self.at_least)
        if self.at_most is not None and not measured <= self.at_most:
            return Drop(self.reason, measured=measured, limit=self.at_most)
        return None


def unique_colours(image: Image) -> int:
    """How many different RGB triples an image has. A grey one has at most 256.

    A table with a bit for each of the 16.8 million colours: no sorting, 30 times as fast as a set of tuples.
    """
    pixels = np.asarray(image.convert("RGB"), dtype=np.uint32).reshape(-1, 3)
    packed = (pixels[:, 0] << 16) | (pixels[:, 1] << 8) | pixels[:, 2]
    if len(packed) < 2**16:  # clearing the table would cost more than sorting
        return len(np.unique(packed))
    seen = np.zeros(2**24, dtype=np.bool_)
    seen[packed] = True
    return int(np.count_nonzero(seen))


@dataclass(frozen=True, slots=True)
class CountColours(Maker):
    """Writes `n_colours` of a set of one picture: its number of different RGB triples."""

    reads: ClassVar[tuple[str, ...]] = ("image",)
    writes: ClassVar[tuple[str, ...]] = ("n_colours",)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            rows.columns["n_colours"] = unique_colours(picture(rows.rows[0]["image"]))


BITS = 52
"""Of a likeness: what a float64 holds exactly, for ledgers keep numbers as floats."""


def pixel_digest(image: Image) -> int:
    """A number that two pictures share where every pixel is equal (SHA-256, its first 52 bits)."""
    rgb = image.convert("RGB")
    text = f"{rgb.width}x{rgb.height}:".encode() + rgb.tobytes()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> (64 - BITS)


@dataclass(frozen=True, slots=True)
class Likeness(Maker):
    """Writes `likeness` of a set of one picture, for `first_of_each`."""

    reads: ClassVar[tuple[str, ...]] = ("image",)
    writes: ClassVar[tuple[str, ...]] = ("likeness",)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            rows.columns["likeness"] = pixel_digest(picture(rows.rows[0]["image"]))


def first_of_each(traces: Iterable[Trace]) -> list[Trace]:
    """Of traces that share a likeness, the first, in the order given."""
    first: dict[float, Trace] = {}
    for trace in traces:
        first.setdefault(trace.numbers["likeness"], trace)
    return list(first.values())


@dataclass(frozen=True, slots=True)
class Forget(Maker):
    """Takes columns off the sets, so that they are not stored with every member."""

    columns: tuple[str, ...]

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            for column in self.columns:
                rows.columns.pop(column, None)


@dataclass(frozen=True, slots=True)
class Match:
    """How a set matches its captions: the cosine of each member to its own, and the directional similarity."""

    cosines: tuple[float, ...]
    directional: float

    @property
    def least(self) -> float:
        return min(self.cosines)


def directional_similarity(images: Vectors, texts: Vectors) -> float:
    """Cosine between how a picture differs from the base member's and how their captions differ, mean over members.

    Rows are members, the base member first; Gal et al. 2022, as paper 3 ranks its sets. 1: pictures change just as
    captions do; 0: nothing to do with it, which a member whose picture or caption is the base's counts as. NaN for a
    set of one.

    >>> round(directional_similarity(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)), 6)
    1.0
    """
    moved, meant = (rows[1:].astype(np.float64) - rows[0] for rows in (images, texts))
    lengths = np.linalg.norm(moved, axis=1) * np.linalg.norm(meant, axis=1)
    along = (moved * meant).sum(axis=1)
    cosines = np.divide(along, lengths, out=np.zeros_like(along), where=lengths > 0)
    return float(np.mean(cosines)) if len(cosines) else float("nan")


@dataclass(frozen=True, slots=True)
class CaptionMatcher:
    """A matcher that embeds each caption once, and a set's pictures in batches of their own."""

    matcher: Matcher
    _texts: dict[str, Vectors] = field(default_factory=dict)

    def match(self, images: Sequence[Image], captions: Sequence[str]) -> Match:
        for caption in captions:
            if caption not in self._texts:
                self._texts[caption] = self.matcher.embed_texts([caption])[0]
        pictures, texts = self.matcher.embed_images(images), np.stack([self._texts[caption] for caption in captions])
        cosines = tuple(float(cosine) for cosine in (pictures * texts).sum(axis=1))
        return Match(cosines, directional_similarity(pictures, texts))


@dataclass(frozen=True, slots=True)
class MatchCaptions(Maker):
    """Writes every member's `clip_caption` (cosine), and the set's `clip_caption_least` and `directional`.

    A set that has all of them, from a step that had to know, is not embedded again.
    """

    matcher: CaptionMatcher

    reads: ClassVar[tuple[str, ...]] = ("image", "caption")
    writes: ClassVar[tuple[str, ...]] = ("clip_caption", "clip_caption_least", "directional")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        with spending(self.matcher.matcher, meter):
            for rows in sets:
                if "directional" not in rows.columns or not all("clip_caption" in row for row in rows.rows):
                    images = [picture(image) for image in rows.column("image")]
                    note(rows, self.matcher.match(images, rows.column("caption")))


def note(rows: SetRows, match: Match) -> None:
    """Write what `MatchCaptions` writes."""
    for row, cosine in zip(rows.rows, match.cosines, strict=True):
        row["clip_caption"] = cosine
    rows.columns.update(clip_caption_least=match.least, directional=match.directional)


@dataclass(frozen=True, slots=True)
class EveryCaptionMatches(Judge):
    """Drops a set with a member whose picture does not match its caption: the worst one is named, then the others."""

    at_least: float

    reads: ClassVar[tuple[str, ...]] = ("clip_caption", "member")

    def judge(self, rows: SetRows) -> Drop | None:
        """None where every cosine is `at_least` or more; NaN is not."""
        cosines = [(float(row["clip_caption"]), str(row["member"])) for row in rows.rows]
        failed = [each for each in cosines if not each[0] >= self.at_least]
        if not failed:
            return None
        cosine, worst = min(failed, key=lambda each: each[0])
        also = tuple(member for _, member in failed if member != worst)
        return Drop("caption_mismatch", cosine, self.at_least, worst, also)


@dataclass(frozen=True, slots=True)
class MembersDiffer(Judge):
    """Drops a set in which two members are the same picture, to the pixel: what was to change did not."""

    reads: ClassVar[tuple[str, ...]] = ("image", "member")

    def judge(self, rows: SetRows) -> Drop | None:
        """None where all pictures differ; otherwise the second of the first two that do not."""
        seen: set[int] = set()
        for row in rows.rows:
            digest = pixel_digest(picture(row["image"]))
            if digest in seen:
                return Drop("same_picture", member=str(row["member"]))
            seen.add(digest)
        return None
