"""How well pictures match their captions in CLIP's space, and whether they differ as their captions do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from PIL.Image import Image

from fairgate.generation import Matcher, Vectors
from fairgate.steps.contract import Drop, Judge, Maker, Meter, SetRows
from fairgate.steps.filters import pixel_digest
from fairgate.steps.pictures import picture
from fairgate.steps.provenance import spending


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
