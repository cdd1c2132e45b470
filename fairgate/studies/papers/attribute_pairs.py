"""One pair of attributes of a release under every model's searches: MaxSkew@K, the skew within groups, and shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from math import prod

import numpy as np
from numpy.typing import NDArray

from fairgate.data import Dataset
from fairgate.formulas.metrics import NullSkew, counts_at_k_weighted, ranking, relative_difference
from fairgate.formulas.statistics import Resamples, set_counts
from fairgate.ground.errors import MetricError, SettingsError
from fairgate.ground.randomness import stream
from fairgate.ground.text import slug
from fairgate.metrics import METRICS, Cell, Cells, Counts, Crossing, FairRankings, Floats, MetricRequest, measure
from fairgate.probes import ProbeScores
from fairgate.records import CROSS, Estimate, StudyCell, StudyFigure, StudyTable
from fairgate.studies.papers.contract import ResampledNumber, estimate_of, series_of

METRIC = "max_skew_at_k"
ALPHA, SEED = 0.05, 0


@dataclass(frozen=True, slots=True)
class SkewsWithin:
    """MaxSkew@k over `over` among the images of each of the `groups` of `fixed`: by model, with their relative
    difference (`apart`), and a fair ranker's."""

    over: str
    fixed: str
    k: int
    groups: list[str]
    values: Mapping[str, tuple[Estimate, ...]]
    apart: Mapping[str, float]
    fair: list[NullSkew]


@dataclass(frozen=True)
class AttributePair:
    """One pair of attributes of one release, with every model's similarity of each image to its own subject's query."""

    data: Dataset
    pair: Crossing
    answers: Mapping[str, Floats]
    cut: int | None
    """Where rankings are cut; None: one place per crossed group."""
    draws: int

    @cached_property
    def cells(self) -> Cells:
        return Cells(self.data.index)

    @cached_property
    def name(self) -> str:
        return slug(f"{self.data.name}-{'-'.join(self.pair)}")

    @property
    def title(self) -> str:
        return f"{self.data.name}, {CROSS.join(self.pair)}"

    @property
    def k(self) -> int:
        return self.cut or prod(len(self.data.manifest.attributes[name]) for name in self.pair)

    @cached_property
    def skews(self) -> Mapping[str, Mapping[str, Estimate]]:
        """MaxSkew@K by subject and model."""
        return {
            subject: {
                model: self.estimate(self.cells.of(subject, (self.pair,)), self.k, value, "skew", subject)
                for model, value in self.answers.items()
            }
            for subject in self.data.manifest.subjects
        }

    def request(self, k: int) -> MetricRequest:
        """MaxSkew at a cut."""
        settings = METRICS[METRIC].Settings.model_validate({"k": k})
        return MetricRequest("skew", METRIC, "captions", settings, (self.pair,), where=self.data.manifest.ref)

    def estimate(self, cell: Cell, k: int, value: Floats, *names: str) -> Estimate:
        """MaxSkew of a cell, averaged over its subjects, with its interval, or the reason why there is none."""
        if k > (least := int(np.unique(cell.subject, return_counts=True)[1].min())):
            raise SettingsError(
                f"a ranking of {least} images was cut at {k}.",
                where=f"{self.data.manifest.ref}, {CROSS.join(self.pair)}",
                remedy=f"choose --k up to {least}, or a release with more sets of each subject",
            )
        request = self.request(k)
        now = measure(request, cell, [ProbeScores(value)])
        drawn = within_subjects(cell, self.draws, stream(SEED, "intersections", *names))
        try:
            redone = now.draw(drawn)
        except MetricError as error:  # sets that differ in size: a resample of small ones ends above the cut
            return Estimate(value=now.value, n=cell.n_sets, why=error.problem)
        limits = METRICS[METRIC].interval(request, cell, now, redone, ALPHA)
        return estimate_of(now.value, limits, cell.n_sets)

    def fair(self, cell: Cell, k: int, rankings: FairRankings) -> NullSkew:
        """What a perfectly fair ranker has."""
        null = METRICS[METRIC].fair_chance(self.request(k), cell, rankings)
        assert null is not None
        return null

    @cached_property
    def fair_by_subject(self) -> Mapping[str, NullSkew]:
        rankings = FairRankings()
        return {subject: self.fair(self.cells.of(subject, (self.pair,)), self.k, rankings) for subject in self.skews}

    def distribution(self) -> StudyTable:
        """Figures 2 (left) and 5 as numbers: the distribution of MaxSkew@K over subjects."""
        nulls = [self.fair_by_subject[entry] for entry in self.skews]
        rows: list[list[StudyCell]] = []
        for model in self.answers:
            values = np.array([float(of[model].value or 0.0) for of in self.skews.values()])
            five = np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist()
            beyond = sum(value > null.p95 for value, null in zip(values, nulls, strict=True))
            level = sum(value < 1e-9 for value in values)
            rows.append([model, float(values.mean()), *five, len(values), int(level), int(beyond)])
        median, p95 = (float(np.median([getattr(entry, name) for entry in nulls])) for name in ("median", "p95"))
        return StudyTable(
            name=f"max-skew-{self.name}",
            title=f"MaxSkew@{self.k} over subjects: {self.title}",
            source="figures 2 (left) and 5",
            columns=["model", "mean", "least", "25%", "median", "75%", "most", "subjects", "at 0", "beyond chance"],
            rows=rows,
            note=f"A fair ranker has {median:.3f} half of the time, and is under {p95:.3f} in 95 of 100 rankings; "
            "'beyond chance' counts subjects above that, 'at 0' those without any skew.",
        )

    def by_subject(self) -> StudyTable:
        """Every subject's MaxSkew@K, the most skewed first."""
        first = next(iter(self.answers))
        order = sorted(self.skews, key=lambda subject: -(self.skews[subject][first].value or 0.0))
        fair = self.fair_by_subject
        return StudyTable(
            name=f"subjects-{self.name}",
            title=f"MaxSkew@{self.k} of each subject: {self.title}",
            source="figures 2 (left) and 5",
            columns=["subject", *self.answers, "a fair ranker, median", "a fair ranker, 95%"],
            rows=[
                [subject, *self.skews[subject].values(), fair[subject].median, fair[subject].p95] for subject in order
            ],
        )

    @cached_property
    def within(self) -> list[SkewsWithin]:
        """Either attribute within each group of the other, averaged over subjects."""
        sides = []
        for over, fixed in permutations(self.pair):
            codes, groups = self.data.index.codes(fixed)
            k = max(len(self.data.manifest.attributes[over]), self.k // len(groups))
            side = replace(self, pair=(over,))
            whole = side.cells.of(None, ((over,),))
            inside = [_inside(whole, np.asarray(codes) == at) for at in range(len(groups))]
            values = {
                model: tuple(side.estimate(ranking, k, value, over, groups[at]) for at, ranking in enumerate(inside))
                for model, value in self.answers.items()
            }
            apart = {
                model: relative_difference([[float(estimate.value or 0.0) for estimate in of]])
                for model, of in values.items()
            }
            fair = [side.fair(ranking, k, FairRankings()) for ranking in inside]
            sides.append(SkewsWithin(over, fixed, k, groups, values, apart, fair))
        return sides

    def within_tables(self) -> Iterator[StudyTable]:
        """Figure 2 (right): the skew of one attribute among the images of each group of the other."""
        for side in self.within:
            rows: list[list[StudyCell]] = [[model, *of, side.apart[model]] for model, of in side.values.items()]
            rows.append(["a fair ranker, median", *(null.median for null in side.fair), None])
            rows.append(["a fair ranker, 95%", *(null.p95 for null in side.fair), None])
            yield StudyTable(
                name=f"within-{slug(side.fixed)}-{self.name}",
                title=f"MaxSkew@{side.k} over {side.over} within each {side.fixed}: {self.title}",
                source="figure 2 (right)",
                columns=["model", *side.groups, "relative difference"],
                rows=rows,
                note="Averaged over subjects. The relative difference is (largest - smallest) / smallest. Where skews "
                "are small, it is large by chance alone.",
            )

    def within_figures(self) -> Iterator[StudyFigure]:
        """The same as bars."""
        for side in self.within:
            yield StudyFigure(
                name=f"within-{slug(side.fixed)}-{self.name}-figure",
                title=f"MaxSkew over {side.over} within each {side.fixed}: {self.title}",
                source="figure 2 (right)",
                kind="bars",
                x_label=side.fixed,
                y_label=f"mean MaxSkew@{side.k} over {side.over} (nats)",
                series=[series_of(model, side.groups, of) for model, of in side.values.items()],
                reference={"a fair ranker, median": float(np.mean([null.median for null in side.fair]))},
            )

    def shares(self, subject: str, over: Crossing) -> tuple[list[str], Mapping[str, list[Estimate]]]:
        """Each group's share of a subject's top K, by model, with percentiles under resampled sets."""
        cell = self.cells.of(subject, (over,))
        names, by_model = list(cell.groups[0]), {}
        sets = Resamples(cell.n_sets, self.draws, stream(SEED, "shares", subject))
        drawn = np.concatenate([np.ones((1, cell.n_sets), dtype=np.int32), sets.rows(cell.n_sets, self.draws)])
        for model, value in self.answers.items():
            order = ranking(value[cell.rows][None], cell.group_codes[0], self.k, groups=len(names))[0]
            codes, members = cell.group_codes[0][order], cell.set_code[order]
            counts = counts_at_k_weighted(codes, drawn, self.k, groups=len(names), sets=members) / self.k
            by_model[model] = [
                ResampledNumber(float(share), redone, cell.n_sets).estimate(f"{share:.0%} in every resample")
                for share, redone in zip(counts[0], counts[1:].T, strict=True)
            ]
        return names, by_model

    def share_tables(self, subjects: Sequence[str]) -> Iterator[StudyTable]:
        """Figure 3: the groups in the top K of a subject, of either attribute and of both."""
        for subject in subjects:
            rows: list[list[StudyCell]] = []
            for over in ((self.pair[0],), (self.pair[1],), self.pair):
                names, by_model = self.shares(subject, over)
                rows += [[name, *(of[at] for of in by_model.values())] for at, name in enumerate(names)]
            yield StudyTable(
                name=f"shares-{slug(subject)}-{self.name}",
                title=f"Shares of groups in the top {self.k} of '{subject}': {self.title}",
                source="figure 3",
                columns=["group", *self.answers],
                rows=rows,
                note="A share without an interval is the same in every resample of the sets.",
            )

    def share_figures(self, subjects: Sequence[str]) -> Iterator[StudyFigure]:
        """The same as bars."""
        for subject in subjects:
            for over in ((self.pair[0],), (self.pair[1],), self.pair):
                names, by_model = self.shares(subject, over)
                whole = self.cells.of(subject, (over,)).group_images()
                even = {"share in the gallery": 1 / len(names)} if len(set(whole.tolist())) == 1 else {}
                yield StudyFigure(
                    name=f"shares-{slug(subject)}-{slug('-'.join(over))}-{self.name}-figure",
                    title=f"Groups in the top {self.k} of '{subject}': {self.data.name}, {CROSS.join(over)}",
                    source="figure 3",
                    kind="bars",
                    x_label=CROSS.join(over),
                    y_label=f"share of the top {self.k}",
                    series=[series_of(model, names, of) for model, of in by_model.items()],
                    reference=even,
                )


def within_subjects(cell: Cell, draws: int, rng: np.random.Generator) -> Counts:
    """Multiplicities (draws, sets) of sets drawn within each subject, so that every draw holds each of them."""
    first = np.unique(cell.set_code, return_index=True)[1]
    subject = cell.subject[first]
    counts = np.empty((draws, cell.n_sets), dtype=np.int32)
    for name in dict.fromkeys(subject.tolist()):
        mine = np.flatnonzero(subject == name)
        counts[:, mine] = set_counts(len(mine), draws, rng)
    return counts


def _inside(cell: Cell, chosen: NDArray[np.bool_]) -> Cell:
    """The images of a cell that are kept, a mask over all rows of the dataset."""
    here = chosen[cell.rows]
    sets, code = np.unique(cell.set_code[here], return_inverse=True)
    codes = tuple(coding[here] for coding in cell.group_codes)
    return Cell(cell.rows[here], code.astype(np.int64), cell.set_ids[sets], cell.subject[here], codes, cell.groups)
