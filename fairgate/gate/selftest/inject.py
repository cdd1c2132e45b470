"""A bias of known strength, planted in a model's scores: one group's images are recognised and found less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, logsumexp

from fairgate import models
from fairgate.data import Index
from fairgate.ground.errors import ModelError
from fairgate.ground.randomness import stream
from fairgate.probes import Probe, Rows
from fairgate.suites import Suite, run_probes

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Group:
    """The images that lose: their name, their parts (`dark`, `female`), which rows they are, and the checks that judge
    them on enough sets."""

    name: str
    parts: tuple[str, ...]
    rows: Bools
    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SuitePrompts:
    """The texts that a suite shows a model: those that compete as labels, and those that are averaged into queries.

    `queries` holds each query's prompts with the subject whose images compete for it, None for everybody's.
    """

    labels: tuple[str, ...]
    queries: tuple[tuple[tuple[str, ...], str | None], ...]

    @property
    def prompts(self) -> list[str]:
        """Every text once."""
        return list(dict.fromkeys([*self.labels, *(prompt for prompts, _ in self.queries for prompt in prompts)]))


def suite_prompts(suite: Suite, subjects: Sequence[str]) -> SuitePrompts:
    """Every prompt of a suite's probes for images of these subjects."""
    labels: dict[str, None] = {}
    queries: dict[tuple[tuple[str, ...], str | None], None] = {}
    for probe in suite.probes.values():
        labels |= {prompt: None for choice in probe.choices(subjects) for prompt in choice.prompts.values()}
        queries |= {(query.prompts, query.subject): None for query in probe.queries(subjects)}
    return SuitePrompts(tuple(labels), tuple(queries))


@dataclass(frozen=True, slots=True)
class Columns:
    """Logits of every prompt, (images,) each; answers probes as the table of scores will.

    `probability` marks a table of probabilities, whose logits are their logarithms; else `scale` times a cosine (or
    whatever unit the model ranks by).
    """

    uri: ClassVar[str] = "the table of planted scores"
    capabilities: ClassVar[frozenset[models.Capability]] = frozenset({"log_probabilities", "similarity"})

    of: Mapping[str, models.Floats]
    scale: float
    probability: bool

    def log_probabilities(self, prompts: Sequence[str]) -> models.Floats:
        """As of the model."""
        return models.log_softmax(self._stacked(prompts))

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> models.Floats:
        """As of the model."""
        return np.stack([self.query(prompts) for prompts in ensembles], axis=1)

    def indistinct(self, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        """As of the model."""
        return models.equal_columns(self.similarity(ensembles), ensembles)

    def query(self, prompts: Sequence[str]) -> models.Floats:
        """Similarity of every image to one averaged query, (images,)."""
        logits = self._stacked(prompts)
        return np.asarray(np.exp(logits).mean(axis=1) if self.probability else logits.mean(axis=1) / self.scale)

    def _stacked(self, prompts: Sequence[str]) -> models.Floats:
        """Columns of these prompts, (images, prompts). Raises ModelError for one that no probe declares."""
        if missing := [prompt for prompt in prompts if prompt not in self.of]:
            raise ModelError(
                f"a probe shows the model '{missing[0]}', which is in none of its choices or queries.",
                where=self.uri,
                remedy="give the probe `choices` or `queries` that hold every text that it shows",
            )
        return np.stack([self.of[prompt] for prompt in prompts], axis=1)

    def with_columns(self, changed: Mapping[str, models.Floats]) -> Columns:
        """The same with some columns replaced."""
        return Columns({**self.of, **changed}, self.scale, self.probability)

    def write(self, path: Path, rows: Rows) -> str:
        """Write the table; its model URI."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        values = {prompt: np.exp(column) if self.probability else column for prompt, column in self.of.items()}
        names = {"set_id": pa.array(rows.set_id, pa.string()), "member": pa.array(rows.member, pa.string())}
        table = pa.table({**names, **{prompt: pa.array(column, pa.float64()) for prompt, column in values.items()}})
        pq.write_table(table, path)
        return f"scores:{path}?" + (
            "values=probability" if self.probability else f"values=logit&logit_scale={self.scale!r}"
        )


def columns_of(model: models.Model, suite: SuitePrompts) -> Columns:
    """A model's scores on a suite's prompts as columns, from its capabilities.

    Label probabilities are columns as they are: a logit is known up to a number per image, which no softmax sees.
    Similarities are columns too, and stand for the labels as well where the label probabilities are a softmax over
    them. A column can hold one number where a model has two (one that competes, and a cosine, which is averaged and
    normalised anew): the difference goes to the prompts that only one query uses. Raises ModelError for a model that
    lacks what the prompts need.
    """
    if isinstance(model, models.PrecomputedScores) and model.values in ("probability", "frequency"):
        return Columns(dict(zip(suite.prompts, model.logits(suite.prompts).T, strict=True)), 1.0, True)
    logits: dict[str, models.Floats] = {}
    if suite.labels:
        models.require_capability(model, "log_probabilities", "labels in which a bias is planted")
        columns = cast(models.LabelModel, model).log_probabilities(suite.labels).T
        logits = dict(zip(suite.labels, columns, strict=True))
    if not suite.queries and "similarity" not in model.capabilities:
        return Columns(logits, 1.0, False)
    models.require_capability(model, "similarity", "a query in which a bias is planted")
    ranker = cast(models.SimilarityModel, model)
    cosines = dict(zip(suite.prompts, ranker.similarity([[prompt] for prompt in suite.prompts]).T, strict=True))
    scale = _scale(logits, cosines)
    scaled = Columns({prompt: scale * column for prompt, column in cosines.items()}, scale, False)
    if logits and not np.allclose(_softmax_of(scaled.of, suite.labels), _softmax_of(logits, suite.labels), atol=1e-6):
        scaled = Columns({**cosines, **logits}, 1.0, False)
    for prompts, _ in suite.queries:
        used = {*suite.labels, *(prompt for query, _ in suite.queries if query != prompts for prompt in query)}
        own = [prompt for prompt in dict.fromkeys(prompts) if prompt not in used]
        if len(prompts) > 1 and own:
            left_over = (ranker.similarity([prompts])[:, 0] - scaled.query(prompts)) * len(prompts) * scaled.scale
            scaled = scaled.with_columns({prompt: scaled.of[prompt] + left_over / len(own) for prompt in own})
    return scaled


def _softmax_of(columns: Mapping[str, models.Floats], prompts: Sequence[str]) -> models.Floats:
    return models.log_softmax(np.stack([columns[prompt] for prompt in prompts], axis=1))


def _scale(logits: Mapping[str, models.Floats], cosines: Mapping[str, models.Floats]) -> float:
    """How many logits a cosine is worth: by the two labels that are farthest apart about one image. 1 where no labels
    compete. A bias on all prompts alike changes no softmax."""
    if not logits:
        return 1.0
    logit = np.stack(list(logits.values()), axis=1)
    cosine = np.stack([cosines[label] for label in logits], axis=1)
    image = int(np.ptp(cosine, axis=1).argmax())
    high, low = int(cosine[image].argmax()), int(cosine[image].argmin())
    apart = float(cosine[image, high] - cosine[image, low])
    scale = float(logit[image, high] - logit[image, low]) / apart if apart > 0 else 1.0
    return scale if scale > 0 else 1.0


NOISE: Final = 1e-4
"""Standard deviation of the innocent change, relative to a column's."""
_LEFT: Final = 1e-3
"""Share of P(true) that an image keeps whose P(true) is below the strength."""


def can_plant(probe: Probe, index: Index) -> bool:
    """Whether a bias can be planted in a probe's answers: it names the labels whose probability falls, or it ranks."""
    subjects = list(dict.fromkeys(index.subject.tolist()))
    return bool(probe.queries(subjects)) or (bool(probe.choices(subjects)) and probe.truths(index) is not None)


def planted(
    columns: Columns, suite: Suite, prompts: SuitePrompts, index: Index, group: Group, strength: float
) -> Columns:
    """The columns with `strength` taken from the group.

    In a classification, P(true label) (or P(positive label)) of each image falls by it; of two probes that share the
    prompt, one loses that much and none more. In a query, the probability that an image of the group ranks before one
    of another group falls by it, by a shift of the prompts that no classification uses, where there are any.
    """
    taken = _taken_from_labels(columns, suite, index, group, strength)
    shifted = columns.with_columns({prompt: columns.of[prompt] - delta for prompt, delta in taken.items()})
    if columns.probability:
        return shifted
    for query, subject in prompts.queries:
        free = [prompt for prompt in dict.fromkeys(query) if prompt not in prompts.labels]
        rows = np.ones(len(index), dtype=bool) if subject is None else index.subject == subject
        inside, outside = rows & group.rows, rows & ~group.rows
        if not free or not inside.any() or not outside.any():
            continue
        before, now = columns.query(query), shifted.query(query)
        target = max(_ranks_before(before[inside], before[outside]) - strength, 0.0)
        sunk = _shift_to(target, now[inside], now[outside]) * columns.scale * len(query) / len(free)
        shifted = shifted.with_columns({prompt: shifted.of[prompt] - sunk * inside for prompt in free})
    return shifted


def jittered(columns: Columns, suite: str) -> Columns:
    """The columns as an innocent change leaves them: moved by a ten-thousandth of their spread."""
    rng = stream(0, "doctor", suite)
    moved = {
        prompt: column + NOISE * column.std() * rng.standard_normal(len(column))
        for prompt, column in columns.of.items()
    }
    if columns.probability:
        moved = {prompt: np.minimum(column, 0.0) for prompt, column in moved.items()}
    return columns.with_columns(moved)


def losses(suite: Suite, index: Index, before: Columns, after: Columns, group: Group) -> dict[str, float]:
    """By probe, the group's mean loss in P(true), or in the probability of ranking before others (mean of queries).

    Probes in which nothing can be planted are left out.
    """
    then, now = run_probes(before, index, suite), run_probes(after, index, suite)
    lost_by_probe: dict[str, list[float]] = {}
    for name, scores in then.items():
        probe = name.partition("[")[0]
        kind = suite.probes[probe]
        if not can_plant(kind, index):
            continue
        if kind.compared_as != "ranking":
            lost = [float((scores.value - now[name].value)[group.rows].mean())]
        else:
            galleries = [np.ones(len(index), dtype=bool)]
            if not kind.ranked_words:
                galleries = [index.subject == subject for subject in dict.fromkeys(index.subject.tolist())]
            lost = [_sunk(scores.value, now[name].value, rows, group.rows) for rows in galleries]
        lost_by_probe.setdefault(probe, []).extend(lost)
    return {probe: float(np.mean(lost)) for probe, lost in lost_by_probe.items()}


def _taken_from_labels(
    columns: Columns, suite: Suite, index: Index, group: Group, strength: float
) -> dict[str, models.Floats]:
    """By prompt, what the true label's logit must lose for P(true) to fall by the strength."""
    taken: dict[str, models.Floats] = {}
    subjects = list(dict.fromkeys(index.subject.tolist()))
    for truths, choices in ((probe.truths(index), probe.choices(subjects)) for probe in suite.probes.values()):
        for choice in [] if truths is None else choices:
            logits = np.stack([columns.of[prompt] for prompt in choice.prompts.values()], axis=1)
            rows = group.rows & (index.subject == choice.subject)
            for place, (label, prompt) in enumerate(choice.prompts.items()):
                here = rows & (truths == label)
                if not here.any():
                    continue
                odds = logits[here, place] - logsumexp(np.delete(logits[here], place, axis=1), axis=1)
                p = expit(odds)
                after = np.maximum(p - strength, np.maximum(_LEFT * p, np.finfo(np.float64).tiny))
                least = taken.setdefault(prompt, np.full(len(index), np.inf))
                least[here] = np.minimum(least[here], odds - logit(after))
    return {prompt: np.where(np.isfinite(delta), delta, 0.0) for prompt, delta in taken.items()}


def _ranks_before(inside: models.Floats, outside: models.Floats) -> float:
    """Probability that one of `inside` ranks before one of `outside`, equals counted half."""
    ordered = np.sort(outside)
    below = np.searchsorted(ordered, inside, "left") + np.searchsorted(ordered, inside, "right")
    return float(below.mean()) / (2 * len(outside))


def _shift_to(target: float, inside: models.Floats, outside: models.Floats) -> float:
    """The smallest shift down (up, where negative) of `inside` after which it ranks first as rarely as the target."""
    low, high = float(inside.min() - outside.max()) - 1e-9, float(inside.max() - outside.min()) + 1e-9
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _ranks_before(inside - middle, outside) <= target else (middle, high)
    return high


def _sunk(before: models.Floats, after: models.Floats, rows: Bools, group: Bools) -> float:
    inside, outside = rows & group, rows & ~group
    if not inside.any() or not outside.any():
        return 0.0
    return _ranks_before(before[inside], before[outside]) - _ranks_before(after[inside], after[outside])
