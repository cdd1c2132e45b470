"""MLflow: one run per evaluation, and a queue for the runs that a server did not take."""

from __future__ import annotations

from fairgate.tracking.queue import DEFAULT_QUEUE, LogOutcome, Pushed, log_or_queue, push
from fairgate.tracking.runs import DEFAULT_URI, log_run

__all__ = ["DEFAULT_QUEUE", "DEFAULT_URI", "LogOutcome", "Pushed", "log_or_queue", "log_run", "push"]
