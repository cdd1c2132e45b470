"""The models of an evaluation and their runs: of the candidate, and of what it is compared with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fairgate import models, tracking
from fairgate.data import Dataset
from fairgate.gate.preparation import Prepared
from fairgate.gate.reading import Counterpart, Scores, tempered
from fairgate.ground.errors import ModelError
from fairgate.metrics import METRICS
from fairgate.models.checkpoints import judging
from fairgate.probes import PROBES, Entropies, ProbeScores, mean_entropies
from fairgate.records import BaselineInfo, DatasetInfo, Environment, ModelInfo, NeededApproval
from fairgate.suites import PlannedCheck, Settings, default_cache, leaves, run_probes

Progress = Callable[[str, int, int], None]
"""Called with what is being read, how many images are done, and how many there are."""

MLFLOW_MODEL = "mlflow-model:"


def open_model(
    uri: str,
    prepared: Prepared,
    settings: Settings,
    progress: Progress | None = None,
    base: Path | None = None,
    views: int = 1,
) -> models.Model:
    """The model of a URI, over so many views of each image of the prepared dataset; relative paths start at `base`, or
    else at the repository."""
    uri, root = registered(uri, settings, prepared.root)[0], base or prepared.root
    common = _common(uri, prepared, settings, progress)
    source = prepared.source if views == 1 else models.Views(prepared.source, views)
    return models.open_scorer(uri, source, base=root, **common)


def open_instrument(
    prepared: Prepared, settings: Settings, progress: Progress | None, uri: str, pictures: models.ImageSource
) -> models.Model:
    """A model by which a probe reads what judged ones make: of this repository, the same for the candidate and for all
    that it is compared with.

    Raises ModelError for a file outside of the repository, and for a model behind a server.
    """
    if any(leaves(path, prepared.root) for path in models.local_paths(uri)):
        raise ModelError(
            "a probe reads with a model outside of the repository, which it may not.",
            where=uri,
            remedy="put it into the repository (DVC can track it), or name one by a hub id",
        )
    instrument = models.open_scorer(uri, pictures, base=prepared.root, **_common(uri, prepared, settings, progress))
    if getattr(instrument, "served", None):
        raise ModelError(
            "a probe reads with a model behind a server, which nothing binds to weights.",
            where=uri,
            remedy="name a checkpoint, which the suite can pin",
        )
    return instrument


def _common(uri: str, prepared: Prepared, settings: Settings, progress: Progress | None) -> dict[str, Any]:
    """How all models of a run are opened."""
    cache = None if settings.cache is None else models.EmbeddingCache(settings.cache, prepared.root)
    spread = prepared.distribution
    return {
        "device": settings.device if spread is None else spread.device,
        "cache": cache if spread is None else spread.cache,
        "progress": None if progress is None else partial(progress, uri),
        "seed": int(prepared.places[0].commit[:8], 16) if prepared.places else 0,
    }


def registered(uri: str, settings: Settings, root: Path) -> tuple[str, str | None]:
    """A URI that can be opened here, and `NAME/VERSION` if it came from MLflow's registry: fetched first, once.

    Raises ModelError, and SettingsError if the folder for fetched models is inside of the repository (`root`).
    """
    if not uri.startswith(MLFLOW_MODEL):
        return uri, None
    folder = (settings.cache or default_cache(os.environ)) / "registered"
    models.require_cache_outside(folder, root)
    where = tracking_uri(settings.mlflow, uri)
    model = tracking.fetch_model(uri.removeprefix(MLFLOW_MODEL), where, folder, models.cache_key(root), root)
    return model.local_uri, f"{model.name}/{model.version}"


def tracking_uri(mlflow: str | None, what: str) -> str:
    """The tracking URI of the options or the environment. Raises ModelError where there is none; `what` needs it."""
    uri = mlflow or os.environ.get("MLFLOW_TRACKING_URI")
    if uri:
        return uri
    raise ModelError(
        f"'{what}' is in MLflow, and MLflow is off.",
        where="--fairness-mlflow",
        remedy="give the tracking URI with --fairness-mlflow, or in MLFLOW_TRACKING_URI (it is only read from then)",
    )


def model_info(uri: str, model: models.Model, registered: str | None = None) -> ModelInfo:
    """A model as a record names it; without a logit scale where it has none, or does not name it."""
    scale = getattr(model, "logit_scale", None)
    return ModelInfo(
        uri=uri,
        fingerprint=model.fingerprint,
        precision=model.precision,
        registered=registered,
        preparation=model.preparation,
        logit_scale=None if scale is None else float(scale),
        tokenizer=model.tokenizer,
        preprocessing=model.preprocessing,
        frequencies=getattr(model, "frequencies", False),
        weights=models.count_weights(model),
        served=getattr(model, "served", None),
    )


def packages(prepared: Prepared, settings: Settings) -> dict[str, str]:
    """The installed packages that the suite's metrics and probes, and the model, are from."""
    suites = [definition.loaded.suite for definition in prepared.every_definition]
    return {
        **METRICS.packages_of(check.metric for suite in suites for check in suite.checks),
        **PROBES.packages_of(probe.kind for suite in suites for probe in suite.probes.values()),
        **models.FAMILIES.packages_of(models.schemes(settings.model)),
    }


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """A candidate, scored on the probes of each definition, and how others are opened and scored that it is compared
    with. `known` holds every checkpoint that this run has scored, with its scores, by fingerprint."""

    prepared: Prepared
    settings: Settings
    progress: Progress | None
    candidate: models.Model
    known: dict[str, tuple[models.Model, tuple[Scores, ...]]] = field(default_factory=dict)
    _opened: dict[str, tuple[str, Path | None]] = field(default_factory=dict)
    _viewed: dict[tuple[str, int], models.Model] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._opened[self.candidate.fingerprint] = (self.settings.model, None)
        self.score_checkpoint(self.candidate)

    @property
    def scores(self) -> tuple[Scores, ...]:
        """The candidate's scores by definition."""
        return self.score_checkpoint(self.candidate)

    def open(self, uri: str, base: Path | None = None) -> models.Model:
        """The model of a URI, over the run's dataset."""
        model = open_model(uri, self.prepared, self.settings, self.progress, base)
        self._opened.setdefault(model.fingerprint, (uri, base))
        return model

    def viewed(self, model: models.Model, views: int) -> models.Model:
        """A checkpoint that was opened, over so many views of each image. Raises ModelError for a table of answers."""
        if model.precision == models.PRECOMPUTED:
            raise ModelError(
                f"a probe takes the mean over {views} views of each image, and a table has no answers about views.",
                where=model.uri,
                remedy="remove `views` from the probe, or judge the model itself",
            )
        key = model.fingerprint, views
        if key not in self._viewed:
            uri, base = self._opened[model.fingerprint]
            with judging(self.prepared.root):
                again = open_model(uri, self.prepared, self.settings, self.progress, base, views)
            if _identity(again) != _identity(model):
                raise ModelError("its files changed during the run.", where=model.uri, remedy="run it again")
            if share := getattr(again, "share", None):
                share(model)
            self._viewed[key] = again
        return self._viewed[key]

    def score(self, model: models.Model, views: Callable[[int], models.Model] | None = None) -> tuple[Scores, ...]:
        """A model's scores by definition, also of a checkpoint that reads otherwise than its files say (`views` then
        opens it over views of each image); definitions with equal probes share them."""
        views = views or partial(self.viewed, model)
        suites, scores = [definition.loaded.suite for definition in self.prepared.definitions], list[Scores]()
        instruments = partial(open_instrument, self.prepared, self.settings, self.progress)
        for suite in suites:
            same = [other.probes for other in suites].index(suite.probes)
            known = same < len(scores)
            index = self.prepared.dataset.index
            scores.append(scores[same] if known else run_probes(model, index, suite, instruments, views))
        return tuple(scores)

    def score_checkpoint(self, model: models.Model) -> tuple[Scores, ...]:
        """A checkpoint's scores by definition, as it reads by itself: no record of it counts from then on. Those that
        were scored before leave the memory to it."""
        if model.fingerprint not in self.known:
            for other in (*(each for each, _ in self.known.values()), *self._viewed.values()):
                if release := getattr(other, "release", None):
                    release()
            self.known[model.fingerprint] = (model, self.score(model))
        return self.known[model.fingerprint][1]

    def compared(self, info: BaselineInfo, model: models.Model) -> ComparedRun:
        """A checkpoint, scored now, as what the candidate is compared with."""
        scores = self.score_checkpoint(model)
        return ComparedRun(info, model_info(info.uri, model), scores, entropies=tuple(map(entropies_of, scores)))


def _identity(model: models.Model) -> str:
    """A model's fingerprint, which is that of its files; of one behind a server, what that reports."""
    return getattr(model, "served", None) or model.fingerprint


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
        pictures=manifest.image_encoding != "none",
    )


def at_temperature_of(
    other: Mapping[str, ProbeScores], planned: Sequence[PlannedCheck], candidate: Mapping[str, ProbeScores]
) -> Scores:
    """The candidate's answers at the label temperature of another run, of the probes that checks compare at it."""
    return tempered(planned, dict(candidate), entropies_of(dict(other)), "baseline").scores


def entropies_of(scores: Scores) -> dict[str, Entropies]:
    """Mean entropies of the answers by probe, as far as the probabilities of all labels are known."""
    return {name: mean_entropies(probe_scores) for name, probe_scores in scores.items() if probe_scores.contests}
