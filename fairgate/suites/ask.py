"""A suite's probes put to a model: scores per image, by the name that checks know them by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairgate.probes import ProbeScores, Rows, associate, classify, retrieve
from fairgate.suites.distinct import require_distinct
from fairgate.suites.schema import AssociationProbe, Probe, RetrievalProbe, Suite, ZeroShotProbe


class Model(Protocol):
    """What probes ask of a scorer of `fairgate.models`."""

    def log_probabilities(self, prompts: Sequence[str]) -> NDArray[np.float64]: ...
    def similarity(self, ensembles: Sequence[Sequence[str]]) -> NDArray[np.float64]: ...
    def indistinct(self, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]: ...


def ask(model: Model, index: Rows, suite: Suite) -> dict[str, ProbeScores]:
    """Every probe's scores: under the probe's name, those of an association under `probe[word]`.

    Raises ModelError where the model reads different labels, subjects or words as the same text.
    """
    require_distinct(model, suite, list(dict.fromkeys(index.subject.tolist())))
    scores: dict[str, ProbeScores] = {}
    for name, probe in suite.probes.items():
        scores |= _answers(name, probe, model, index)
    return scores


def _answers(name: str, probe: Probe, model: Model, index: Rows) -> dict[str, ProbeScores]:
    if isinstance(probe, AssociationProbe):
        return {f"{name}[{word}]": one for word, one in associate(model, probe.words, probe.prompt).items()}
    if isinstance(probe, RetrievalProbe):
        return {name: retrieve(model, index.subject, probe.prompts_of)}
    scores = classify(model, index.subject, _truth(probe, index), probe.labels_of, probe.prompt)
    return {name: scores if probe.positive is None else replace(scores, correct=None)}


def _truth(probe: ZeroShotProbe, index: Rows) -> NDArray[Any]:
    """The label whose probability is measured, (images,)."""
    if probe.positive is not None:
        return np.full(len(index.subject), probe.positive, dtype=object)
    truth = index.subject if probe.truth == "subject" else index.attributes[probe.truth]
    word = {value: probe.word(value) for value in dict.fromkeys(truth.tolist())}
    return np.array([word[value] for value in truth.tolist()], dtype=object)
