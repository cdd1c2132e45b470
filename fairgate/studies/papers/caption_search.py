"""Captions as queries: neutral ones to see whom they bring up (Bias@K, MaxSkew@K), edited ones to see whether a picture
is still found (R@K); and the same for rankers without a bias of their own (Smith et al. 2023, sections 3.4 and 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas.metrics import bias_at_k, max_skew_at_k
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream
from fairgate.models import SimilarityModel
from fairgate.studies.papers.caption_context import weighted_words
from fairgate.studies.papers.captioned import Captioned, Rows

Matrix = NDArray[np.float64]

RECALL_AT = (1, 5, 10)
BIAS_AT = (5, 10)
SKEW_AT = (25, 100)
SCORES, RECALLED = 4_000_000, 8_000_000
"""Entries of captions against images that are in memory at once, 32 MB, and for R@K, which makes no copies: 64 MB."""
_TIE = 1e-9
"""Below any difference of cosines of words, so that it orders equal ones alone."""

Rank = Callable[[Sequence[str], int], Matrix]
"""Captions, and the place of the first of them among all -> scores (captions, images)."""


@dataclass(frozen=True, slots=True)
class CaptionGallery:
    """The rows of a release that captions search, and the captions: of each photograph of these rows, once.

    `rows` are in a drawn order: pictures that a ranker takes for equal are then in no order of groups. `queries` are
    the captions, `asked_by` (queries,) says of which photograph each is.
    """

    release: Captioned
    rows: Rows
    queries: tuple[str, ...]
    asked_by: Rows

    @classmethod
    def of(cls, release: Captioned, rows: Rows, seed: int) -> CaptionGallery:
        """Raises MetricError where there are no more pictures than the shortest list shows."""
        if len(rows) <= min(BIAS_AT):
            raise MetricError(
                f"{len(rows)} pictures are searched, and {min(BIAS_AT)} are shown.",
                where=release.name,
                remedy="give a larger release",
            )
        first = rows[np.unique(release.owner[rows], return_index=True)[1]]
        captions = [release.columns["neutral_captions"][row] for row in first]
        return cls(
            release,
            stream(seed, "gallery", release.name).permutation(rows),
            tuple(text for texts in captions for text in texts),
            np.repeat(release.owner[first], [len(texts) for texts in captions]),
        )

    @property
    def codes(self) -> Rows:
        """The group of every picture."""
        return self.release.codes[self.rows]


def by_model(model: SimilarityModel, gallery: CaptionGallery) -> Rank:
    """A model that compares pictures with captions."""
    return lambda texts, _: model.similarity([[text] for text in texts]).T[:, gallery.rows]


def by_words(gallery: CaptionGallery, seed: int) -> Rank:
    """TF-IDF from caption to the captions of a picture, all of them neutral; equal ones in an order drawn anew."""
    release = gallery.release
    documents = [" ".join(release.columns["neutral_captions"][row]) for row in gallery.rows]
    table, queried, _ = weighted_words(documents, gallery.queries)

    def rank(texts: Sequence[str], start: int) -> Matrix:
        alike = (queried[start : start + len(texts)] @ table.T).toarray()
        drawn = stream(seed, "ties", release.name, start).random(alike.shape)
        return np.asarray(alike + _TIE * drawn)

    return rank


def by_chance(gallery: CaptionGallery, seed: int) -> Rank:
    """Scores drawn at random."""
    shape = len(gallery.rows)
    return lambda texts, start: stream(seed, "random", gallery.release.name, start).random((len(texts), shape))


Shown = Mapping[str, Matrix]
"""Bias@K (above 0: more of the first group) or MaxSkew@K -> what each photograph or caption has of it, (units,);
without those that would show every picture.

The mean of a unit's values is the mean over photographs of the means over their captions. Units are what is queried
independently: photographs, or captions where there are fewer of these, since one that many photographs share brings up
the same pictures for each of them.
"""


def shown(rank: Rank, gallery: CaptionGallery) -> Shown:
    """Whom neutral captions bring up. The paper's conventions: shares are compared with those of the gallery."""
    parts_of: dict[str, list[Matrix]] = {}
    size = len(gallery.rows)
    for start, texts in _blocks(gallery.queries, size, SCORES):
        scores = rank(texts, start)
        for k in (k for k in BIAS_AT if k < size):
            parts_of.setdefault(f"Bias@{k}", []).append(bias_at_k(scores, gallery.codes, k))
        for k in (k for k in SKEW_AT if k < size):
            parts_of.setdefault(f"MaxSkew@{k}", []).append(max_skew_at_k(scores, gallery.codes, k, groups=2))
    return {name: _by_unit(np.concatenate(parts), gallery) for name, parts in parts_of.items()}


def _by_unit(values: Matrix, gallery: CaptionGallery) -> Matrix:
    """Values of queries -> of units, which count as often as they are queried: the mean, and what each adds to it."""
    _, photograph, many = np.unique(gallery.asked_by, return_inverse=True, return_counts=True)
    weight = 1 / (len(many) * many[photograph])
    _, caption = np.unique(np.array(gallery.queries, dtype=object), return_inverse=True)
    unit = min((photograph, caption), key=np.max)
    mean = float(weight @ values)
    added = np.bincount(unit, weight * (values - mean))
    return np.asarray(mean + len(added) * added)


def _blocks(texts: Sequence[str], images: int, most: int) -> Iterator[tuple[int, Sequence[str]]]:
    step = max(1, most // max(images, 1))
    for start in range(0, len(texts), step):
        yield start, texts[start : start + step]


def recall(
    model: SimilarityModel, release: Captioned, others: SimilarityModel, distractors: Captioned
) -> dict[int, Matrix]:
    """R@K of the captions of every picture, (pictures,): is it among the K nearest of itself and the distractors?

    `others` is the same model on the distractors. A distractor that shows the picture's own photograph is left out, and
    one that is as near as the picture counts as nearer.
    """
    captions = release.columns["captions"]
    texts = list(dict.fromkeys(text for own_captions in captions for text in own_captions))
    place = {text: number for number, text in enumerate(texts)}
    queried = np.array([place[text] for own_captions in captions for text in own_captions])
    picture = np.repeat(np.arange(len(captions)), [len(own_captions) for own_captions in captions])
    same = _same_photograph(release, distractors)
    rank = np.empty(len(queried), dtype=np.int64)
    for start, block in _blocks(texts, len(release.dataset) + len(distractors.dataset), RECALLED):
        own = model.similarity([[text] for text in block])
        far = others.similarity([[text] for text in block])
        ordered = np.sort(far, axis=0)
        here = np.flatnonzero((queried >= start) & (queried < start + len(block)))
        for query in here:
            row, column = picture[query], queried[query] - start
            value = own[row, column]
            nearer = len(far) - int(np.searchsorted(ordered[:, column], value, side="left"))
            rank[query] = 1 + nearer - int((far[same[row], column] >= value).sum())
    many = np.bincount(picture)
    return {k: np.bincount(picture, rank <= k) / many for k in RECALL_AT}


def _same_photograph(release: Captioned, distractors: Captioned) -> list[Rows]:
    """For every picture, which distractors show its photograph."""
    of: dict[str, list[int]] = {}
    for row, name in enumerate(distractors.set_id.tolist()):
        of.setdefault(name, []).append(row)
    return [np.array(of.get(name, []), dtype=np.intp) for name in release.set_id.tolist()]
