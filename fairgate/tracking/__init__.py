"""MLflow: one run per evaluation, a queue for the runs that a server did not take, baselines and models from it."""

from __future__ import annotations

from fairgate.tracking.content import PULL_REQUEST
from fairgate.tracking.environment import asking_pull_request
from fairgate.tracking.fetch import FetchedRun, fetch_record, past_runs, past_values
from fairgate.tracking.queue import DEFAULT_QUEUE, LogOutcome, Pushed, log_or_queue, push, waiting
from fairgate.tracking.registry import RegisteredModel, fetch_model, tag_model_version
from fairgate.tracking.runs import DEFAULT_URI, log_run
from fairgate.tracking.session import redact, sqlite_path

__all__ = [
    "DEFAULT_QUEUE",
    "DEFAULT_URI",
    "PULL_REQUEST",
    "FetchedRun",
    "LogOutcome",
    "Pushed",
    "RegisteredModel",
    "asking_pull_request",
    "fetch_model",
    "fetch_record",
    "log_or_queue",
    "log_run",
    "past_runs",
    "past_values",
    "push",
    "redact",
    "sqlite_path",
    "tag_model_version",
    "waiting",
]
