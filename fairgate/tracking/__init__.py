"""MLflow: one run per evaluation, a queue for the runs that a server did not take, baselines and models from it."""

from __future__ import annotations

from fairgate.tracking.fetch import FetchedRun, fetch_record, past_runs, past_values
from fairgate.tracking.queue import DEFAULT_QUEUE, LogOutcome, Pushed, log_or_queue, push
from fairgate.tracking.registry import RegisteredModel, fetch_model, tag_model_version
from fairgate.tracking.runs import DEFAULT_URI, log_run

__all__ = [
    "DEFAULT_QUEUE",
    "DEFAULT_URI",
    "FetchedRun",
    "LogOutcome",
    "Pushed",
    "RegisteredModel",
    "fetch_model",
    "fetch_record",
    "log_or_queue",
    "log_run",
    "past_runs",
    "past_values",
    "push",
    "tag_model_version",
]
