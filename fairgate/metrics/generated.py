"""Who is perceived in generated pictures: shares of groups, corrected for the reader's measured error, and a target.

Equal pictures are one piece of evidence: they count as often as they were made, and are resampled together, as those
of a set are.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas.metrics import corrected_shares
from fairgate.ground.errors import ScoresError
from fairgate.ground.hashing import sha256_bytes
from fairgate.ground.randomness import stream
from fairgate.metrics.cell import Cell, Counts, Floats
from fairgate.metrics.contract import Answers, Drawn, Limits, Measure, Metric, MetricRequest
from fairgate.probes import ABSENT, PICTURE, REPEAT, GenerationProbe, scores_digest
from fairgate.records import MetricSpec

GENERATED = ("generation",)
DRAWS = 4000
"""Draws of an interval."""
JEFFREYS = 0.5
"""Added to the reader's counts in draws: of one without a mistake in 50 pictures, the error is not known to be 0."""
COUNTED = "that can be read, equal ones counted once"
picture_spec = partial(MetricSpec, probes=GENERATED, worst_set="{number}")


@dataclass(frozen=True, slots=True)
class PictureEvidence(Measure):
    """A measure with what its interval is made of: `seen` (kinds,) pictures by what was perceived, which weigh as much
    as `independent` different ones do."""

    seen: Floats = field(default_factory=lambda: np.empty(0))
    independent: float = 0.0


class OfPictures(Metric):
    """A number of how often each of several kinds of picture is seen."""

    @abstractmethod
    def kinds(self, r: MetricRequest, cell: Cell, answers: Answers) -> Floats:
        """Which kind each picture is, (images, kinds) of 0 and 1; no kind where it does not count."""

    @abstractmethod
    def number(self, r: MetricRequest, seen: Floats, confusion: Floats | None) -> Floats:
        """The value of counts (draws, kinds), under confusions (draws, groups, groups + 1)."""

    def counted(self, answers: Answers) -> NDArray[np.bool_]:
        """Which rows count, (dataset's images,): those that the sample has."""
        return ~absent_rows(answers)

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """All pictures; those of a set, and those that are equal, are resampled together."""
        kinds, weights, repeats = self.kinds(r, cell, answers), np.ones(len(cell.rows)), 0
        again = answers[0].more.get(REPEAT, np.zeros(len(answers[0].value)))[cell.rows] > 0
        if again.any():
            kinds, repeats = np.where(again[:, None], 0.0, kinds), int(again.sum())
        labels = generation_probe(r).labels
        independent_samples = labels is not None and labels.independent
        if independent_samples:
            _require_subjects(r, cell, ~absent_rows(answers)[cell.rows] & ~again)
            weights = _subject_weights(cell, self.counted(answers)[cell.rows] & ~again)
            kinds = kinds * weights[:, None]
        known = kinds.any(axis=1)
        if not known.any():
            raise ScoresError(
                f"check '{r.check}': nobody is perceived in any picture.",
                where=r.where,
                remedy="look at the pictures; a check of `readable` says how many can be read",
            )
        drawn_with, equal = cell.set_code, 0  # of equal pictures, the first one's set
        if PICTURE in answers[0].more:
            _, first, codes = np.unique(answers[0].more[PICTURE][cell.rows], return_index=True, return_inverse=True)
            drawn_with = cell.set_code[first][codes]
            equal = int(known.sum()) - len(np.unique(codes[known]))
        sizes = np.bincount(drawn_with[known], weights[known], minlength=cell.n_sets)
        seen, confusion, own = kinds.sum(axis=0), generation_probe(r).confusion, scores_digest({"": answers[0]})
        if independent_samples:  # sets of each sample in an order of its own: none are pairs
            drawn_with = stream(0, "independent", own).permutation(cell.n_sets)[drawn_with]
        independent = float(sizes.sum() ** 2 / (sizes**2).sum())

        def draw(counts: Counts) -> Drawn:
            drawn = counts[:, drawn_with].astype(np.float64) @ kinds
            drawn = np.where(drawn.sum(axis=1, keepdims=True) > 0, drawn, seen)
            sets = sha256_bytes(np.ascontiguousarray(counts).tobytes())
            # Ten pictures of women do not say that all are: one more, of any kind, and another one in the other run.
            rng, weight = stream(0, "one more", own, sets), sizes.sum() / independent
            one_more = np.eye(len(seen))[rng.integers(len(seen), size=len(drawn))]
            drawn = drawn + weight * rng.standard_exponential(len(drawn))[:, None] * one_more
            # The same sets meet the same reader: candidate and baseline differ by none of its error.
            return Drawn(self.number(r, drawn, drawn_readers(confusion, len(drawn), stream(0, "reader", sets))))

        return PictureEvidence(
            value=float(self.number(r, seen[None], None if confusion is None else confusion[None])[0]),
            draw=draw,
            badness=np.zeros(cell.n_sets),
            sets=int((sizes > 0).sum()),
            evidence=COUNTED,
            repeats=repeats,
            equal=equal,
            seen=seen,
            independent=independent,
        )

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """From draws of the shares of pictures, as many as are independent, and of the reader's counts."""
        assert isinstance(now, PictureEvidence)
        rng = stream(0, "interval", r.check, r.subject or "")
        seen = _shares_drawn(now.seen / now.seen.sum() * now.independent, DRAWS, rng)
        lo, hi = self.limits(r, seen, drawn_readers(generation_probe(r).confusion, DRAWS, rng), alpha)
        how = f"{1 - alpha:.0%} of draws, {now.independent:,.0f} independent pictures{self.about_reader(r, now.seen)}"
        return Limits(min(lo, now.value), max(hi, now.value), how)

    def about_reader(self, r: MetricRequest, seen: Floats) -> str:
        """What an interval says of the reader's error."""
        return ""

    def limits(self, r: MetricRequest, seen: Floats, readers: Floats | None, alpha: float) -> tuple[float, float]:
        """Quantiles of the number of every draw."""
        lo, hi = np.quantile(self.number(r, seen, readers), [alpha / 2, 1 - alpha / 2])
        return float(lo), float(hi)


def generation_probe(r: MetricRequest) -> GenerationProbe:
    assert isinstance(r.asked, GenerationProbe)
    return r.asked


def _shares_drawn(counts: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Shares as they may be, (draws, kinds): one more picture of a kind by turns, Dirichlet without a prior. Of two
    kinds these are Clopper and Pearson's two distributions in equal parts, whose quantiles are mid-p limits."""
    more = np.eye(len(counts))[rng.integers(len(counts), size=draws)]
    sizes = counts + more
    drawn = np.where(sizes > 0, rng.standard_gamma(np.maximum(sizes, 1e-300)), 0.0)
    shares: Floats = drawn / drawn.sum(axis=1, keepdims=True)
    return shares


def drawn_readers(confusion: Floats | None, draws: int, rng: np.random.Generator) -> Floats | None:
    """Confusions as they may be, (draws, groups, groups + 1), each row a draw from the Dirichlet of its counts.

    Where no picture was unreadable, that column stays 0.
    """
    if confusion is None:
        return None
    some = confusion[:, -1].any()
    columns = confusion if some else confusion[:, :-1]
    confusions = np.stack([rng.dirichlet(row + JEFFREYS, draws) for row in columns], axis=1)
    return confusions if some else np.concatenate([confusions, np.zeros((draws, len(confusion), 1))], axis=2)


def _require_subjects(r: MetricRequest, cell: Cell, present: NDArray[np.bool_]) -> None:
    """Raises ScoresError unless a sample has pictures of every subject, in `min_sets` sets or all of the release's."""
    names, subject = np.unique(cell.subject.astype(str), return_inverse=True)

    def sets(rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        pairs = np.unique(np.stack([subject[rows], cell.set_code[rows]]), axis=1)
        return np.bincount(pairs[0], minlength=len(names))

    there, every = sets(present), sets(np.ones_like(present))
    if (few := np.flatnonzero(there < np.minimum(every, max(r.min_sets, 1)))).size:
        at = few[0]
        raise ScoresError(
            f"check '{r.check}': a sample has {there[at]:,} of {every[at]:,} pictures of '{names[at]}'.",
            where=r.where,
            remedy=f"label {min(every[at], r.min_sets):,} of each subject or more, of candidate and baseline",
        )


def _subject_weights(cell: Cell, counted: NDArray[np.bool_]) -> Floats:
    """What gives every subject the weight that it has in the release, whatever a sample lacks of it, (images,)."""
    _, subject = np.unique(cell.subject.astype(str), return_inverse=True)
    weights: Floats = (np.bincount(subject) / np.maximum(np.bincount(subject, counted), 1))[subject]
    return weights


class OfShares(OfPictures):
    """A number of the shares of groups among readable pictures, corrected for the reader's error."""

    @abstractmethod
    def of(self, r: MetricRequest, shares: Floats) -> Floats:
        """The value of shares (draws, groups)."""

    def kinds(self, r: MetricRequest, cell: Cell, answers: Answers) -> Floats:
        predicted = np.asarray(answers[0].predicted, dtype=object)[cell.rows]
        return np.stack([predicted == group for group in generation_probe(r).groups], axis=1).astype(np.float64)

    def number(self, r: MetricRequest, seen: Floats, confusion: Floats | None) -> Floats:
        shares = seen / seen.sum(axis=1, keepdims=True)
        return self.of(r, shares if confusion is None else corrected_shares(seen, confusion).shares)

    def about_reader(self, r: MetricRequest, seen: Floats) -> str:
        """Whether its error is in the interval, and whether a share was clipped."""
        confusion = generation_probe(r).confusion
        if confusion is None and generation_probe(r).labels is not None:
            return "; the labels are taken as they are"
        if confusion is None:
            return "; the reader's error was not measured, and is not in it"
        clipped = corrected_shares(seen, confusion).clipped
        return ", with the reader's error" + ("; a corrected share fell below 0, and is 0" if clipped else "")


def absent_rows(answers: Answers) -> NDArray[np.bool_]:
    """Rows of which a smaller sample has no picture, (dataset's images,)."""
    return answers[0].more.get(ABSENT, np.zeros(len(answers[0].value))) > 0
