"""The runs of an evaluation: of the candidate, and of what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fairgate.data import Dataset
from fairgate.gate.counterparts import Counterpart
from fairgate.gate.models import Progress, model_info, open_instrument, open_model
from fairgate.gate.preparation import Prepared
from fairgate.gate.reading import Scores
from fairgate.models import Model
from fairgate.probes import Entropies, mean_entropies
from fairgate.records import BaselineInfo, DatasetInfo, Environment, ModelInfo, NeededApproval
from fairgate.suites import Settings, run_probes


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """A candidate, scored on the probes of each definition, and how others are opened and scored that it is compared
    with. `known` holds every checkpoint that this run has scored, with its scores, by fingerprint."""

    prepared: Prepared
    settings: Settings
    progress: Progress | None
    candidate: Model
    known: dict[str, tuple[Model, tuple[Scores, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.score_checkpoint(self.candidate)

    @property
    def scores(self) -> tuple[Scores, ...]:
        """The candidate's scores by definition."""
        return self.score_checkpoint(self.candidate)

    def open(self, uri: str, base: Path | None = None) -> Model:
        """The model of a URI, over the run's dataset."""
        return open_model(uri, self.prepared, self.settings, self.progress, base)

    def score(self, model: Model) -> tuple[Scores, ...]:
        """A model's scores by definition, also of a checkpoint that reads otherwise than its files say; definitions
        with equal probes share them."""
        suites, scores = [definition.loaded.suite for definition in self.prepared.definitions], list[Scores]()
        instruments = partial(open_instrument, self.prepared, self.settings, self.progress)
        for suite in suites:
            same = [other.probes for other in suites].index(suite.probes)
            known = same < len(scores)
            scores.append(scores[same] if known else run_probes(model, self.prepared.dataset.index, suite, instruments))
        return tuple(scores)

    def score_checkpoint(self, model: Model) -> tuple[Scores, ...]:
        """A checkpoint's scores by definition, as it reads by itself: from then on, no record of it counts instead."""
        if model.fingerprint not in self.known:
            self.known[model.fingerprint] = (model, self.score(model))
        return self.known[model.fingerprint][1]

    def compared(self, info: BaselineInfo, model: Model) -> ComparedRun:
        """A checkpoint, scored now, as what the candidate is compared with."""
        scores = self.score_checkpoint(model)
        return ComparedRun(info, model_info(info.uri, model), scores, entropies=tuple(map(entropies_of, scores)))


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A baseline or anchor: its model, its scores by definition, and the environment they were made in.

    `entropies` are the mean entropies of the answers by definition and probe; `no_entropy` says why there are none,
    and `scored_for_entropy` that the checkpoint was scored in this run for them alone. `notices` are shown next to the
    verdict, `weighed` is what a person has to approve. `counterpart` holds the candidate's scores with this
    checkpoint's tokenizer and preprocessing.
    """

    info: BaselineInfo
    model: ModelInfo
    scores: tuple[Scores, ...]
    environment: Environment | None = None
    entropies: tuple[Mapping[str, Entropies], ...] = ()
    no_entropy: str | None = None
    scored_for_entropy: bool = False
    notices: tuple[str, ...] = ()
    weighed: tuple[NeededApproval, ...] = ()
    counterpart: Counterpart = field(default_factory=Counterpart)


def dataset_info(dataset: Dataset) -> DatasetInfo:
    """The dataset as a record names it: by the identity that was computed, `unknown` where none could be."""
    manifest = dataset.manifest
    return DatasetInfo(
        name=dataset.name,
        version=dataset.version,
        fingerprint=dataset.identity or "unknown",
        counterfactual=manifest.counterfactual,
        attributes={name: list(groups) for name, groups in manifest.attributes.items()},
        notice=manifest.notice,
    )


def entropies_of(scores: Scores) -> dict[str, Entropies]:
    """Mean entropies of the answers by probe, as far as the probabilities of all labels are known."""
    return {name: mean_entropies(probe_scores) for name, probe_scores in scores.items() if probe_scores.contests}
