"""Open the models of a run, from MLflow's registry too; name the packages that take part."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fairgate.gate.preparation import Prepared
from fairgate.ground.errors import ModelError
from fairgate.metrics import METRICS
from fairgate.models import (
    FAMILIES,
    EmbeddingCache,
    ImageSource,
    Model,
    cache_key,
    local_paths,
    open_scorer,
    require_cache_outside,
    schemes,
)
from fairgate.probes import PROBES
from fairgate.records import ModelInfo
from fairgate.suites import Settings, default_cache, leaves

Progress = Callable[[str, int, int], None]
"""Called with what is being read, how many images are done, and how many there are."""

MLFLOW_MODEL = "mlflow-model:"


def open_model(
    uri: str, prepared: Prepared, settings: Settings, progress: Progress | None = None, base: Path | None = None
) -> Model:
    """The model of a URI, over the prepared dataset; relative paths start at `base`, or else at the repository."""
    uri, root = registered(uri, settings, prepared.root)[0], base or prepared.root
    common = _common(uri, prepared, settings, progress)
    return open_scorer(uri, prepared.dataset, base=root, allow_pickle=settings.allow_pickle, **common)


def open_instrument(
    prepared: Prepared, settings: Settings, progress: Progress | None, uri: str, pictures: ImageSource
) -> Model:
    """A model by which a probe reads what judged ones make: of this repository, the same for the candidate and for all
    that it is compared with. It may hold no pickled code, whatever the judged ones may.

    Raises ModelError for a file outside of the repository.
    """
    if any(leaves(path, prepared.root) for path in local_paths(uri)):
        raise ModelError(
            "a probe reads with a model outside of the repository, which it may not.",
            where=uri,
            remedy="put it into the repository (DVC can track it), or name one by a hub id",
        )
    return open_scorer(uri, pictures, base=prepared.root, **_common(uri, prepared, settings, progress))


def _common(uri: str, prepared: Prepared, settings: Settings, progress: Progress | None) -> dict[str, Any]:
    """How all models of a run are opened."""
    return {
        "device": settings.device,
        "cache": EmbeddingCache(settings.cache, prepared.root) if settings.cache is not None else None,
        "progress": None if progress is None else partial(progress, uri),
    }


def registered(uri: str, settings: Settings, root: Path) -> tuple[str, str | None]:
    """A URI that can be opened here, and `NAME/VERSION` if it came from MLflow's registry: fetched first, once.

    Raises ModelError, and SettingsError if the folder for fetched models is inside of the repository (`root`).
    """
    if not uri.startswith(MLFLOW_MODEL):
        return uri, None
    from fairgate.tracking import fetch_model

    folder = (settings.cache or default_cache(os.environ)) / "registered"
    require_cache_outside(folder, root)
    where = tracking_uri(settings.mlflow, uri)
    model = fetch_model(uri.removeprefix(MLFLOW_MODEL), where, folder, cache_key(root), root)
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


def model_info(uri: str, model: Model, registered: str | None = None) -> ModelInfo:
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
    )


def packages(prepared: Prepared, settings: Settings) -> dict[str, str]:
    """The installed packages that the suite's metrics and probes, and the model, are from."""
    suites = [definition.loaded.suite for definition in prepared.every_definition]
    return {
        **METRICS.packages_of(check.metric for suite in suites for check in suite.checks),
        **PROBES.packages_of(probe.kind for suite in suites for probe in suite.probes.values()),
        **FAMILIES.packages_of(schemes(settings.model)),
    }
