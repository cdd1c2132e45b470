"""A model's scores as a table with one column per prompt, in which a bias can be planted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

import numpy as np

from fairgate.ground.errors import ModelError
from fairgate.models import (
    Capability,
    Floats,
    LabelModel,
    Model,
    PrecomputedScores,
    SimilarityModel,
    equal_columns,
    log_softmax,
    require_capability,
)
from fairgate.probes import Rows
from fairgate.suites import Suite


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
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"log_probabilities", "similarity"})

    of: Mapping[str, Floats]
    scale: float
    probability: bool

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        """As of the model."""
        return log_softmax(self._stacked(prompts))

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> Floats:
        """As of the model."""
        return np.stack([self.query(prompts) for prompts in ensembles], axis=1)

    def indistinct(self, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        """As of the model."""
        return equal_columns(self.similarity(ensembles), ensembles)

    def query(self, prompts: Sequence[str]) -> Floats:
        """Similarity of every image to one averaged query, (images,)."""
        logits = self._stacked(prompts)
        return np.asarray(np.exp(logits).mean(axis=1) if self.probability else logits.mean(axis=1) / self.scale)

    def _stacked(self, prompts: Sequence[str]) -> Floats:
        """Columns of these prompts, (images, prompts). Raises ModelError for one that no probe declares."""
        if missing := [prompt for prompt in prompts if prompt not in self.of]:
            raise ModelError(
                f"a probe shows the model '{missing[0]}', which is in none of its choices or queries.",
                where=self.uri,
                remedy="give the probe `choices` or `queries` that hold every text that it shows",
            )
        return np.stack([self.of[prompt] for prompt in prompts], axis=1)

    def with_columns(self, changed: Mapping[str, Floats]) -> Columns:
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


def columns_of(model: Model, suite: SuitePrompts) -> Columns:
    """A model's scores on a suite's prompts as columns, from its capabilities.

    Label probabilities are columns as they are: a logit is known up to a number per image, which no softmax sees.
    Similarities are columns too, and stand for the labels as well where the label probabilities are a softmax over
    them. A column can hold one number where a model has two (one that competes, and a cosine, which is averaged and
    normalised anew): the difference goes to the prompts that only one query uses. Raises ModelError for a model that
    lacks what the prompts need.
    """
    if isinstance(model, PrecomputedScores) and model.values == "probability":
        return Columns(dict(zip(suite.prompts, model.logits(suite.prompts).T, strict=True)), 1.0, True)
    logits: dict[str, Floats] = {}
    if suite.labels:
        require_capability(model, "log_probabilities", "labels in which a bias is planted")
        columns = cast(LabelModel, model).log_probabilities(suite.labels).T
        logits = dict(zip(suite.labels, columns, strict=True))
    if not suite.queries and "similarity" not in model.capabilities:
        return Columns(logits, 1.0, False)
    require_capability(model, "similarity", "a query in which a bias is planted")
    ranker = cast(SimilarityModel, model)
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


def _softmax_of(columns: Mapping[str, Floats], prompts: Sequence[str]) -> Floats:
    return log_softmax(np.stack([columns[prompt] for prompt in prompts], axis=1))


def _scale(logits: Mapping[str, Floats], cosines: Mapping[str, Floats]) -> float:
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
