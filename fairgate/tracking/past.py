"""Earlier runs of a suite as MLflow keeps them: numbers by their names there, and what tells comparable runs apart."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from fairgate.errors import TrackingError
from fairgate.records import RunRecord
from fairgate.records.history import PastRun, PastValue, Question
from fairgate.tracking import content
from fairgate.tracking.fetch import finished_runs
from fairgate.tracking.session import READ_REMEDY, redact, session, sqlite_path

if TYPE_CHECKING:
    from mlflow.entities import Run

MOST_RUNS = 100
"""Runs that are read where nothing else is said."""


def past_runs(
    suite: str,
    uri: str,
    *,
    limit: int = MOST_RUNS,
    branch: str | None = None,
    pull_requests: bool = False,
    may_be_new: bool = False,
    problem: str = "the history of suite '{suite}' could not be read from MLflow",
) -> list[PastRun]:
    """The newest finished runs of a suite, in the order of their commits where all know it, else of time; oldest first.

    Runs of pull requests are left out unless asked for: they stand beside the history, not in it. Raises TrackingError
    where MLflow does not answer or, unless it `may_be_new`, has no such experiment; `problem` is how it says so.
    """
    database = sqlite_path(uri)
    if may_be_new and database is not None and not database.exists():
        return []
    name = content.experiment_of(suite)
    with session(uri, problem.format(suite=suite), READ_REMEDY) as client:
        experiment = client.get_experiment_by_name(name)
        if experiment is None or experiment.lifecycle_stage == "deleted":
            if may_be_new:
                return []
            raise TrackingError(
                f"MLflow has no experiment '{name}'.",
                where=redact(uri),
                remedy="check the suite's name and the address; `fairgate check SUITE` records a run",
            )
        found: list[PastRun] = []
        for run in finished_runs(client, experiment.experiment_id):
            if len(found) == limit:
                break
            one = _past(run)
            if (pull_requests or one.pull_request is None) and branch in (None, one.branch):
                found.append(one)
    return in_order(found)


def in_order(runs: list[PastRun]) -> list[PastRun]:
    """By commit where every run knows how many commits led to it, else by time."""
    known = all(run.height is not None for run in runs)
    return sorted(runs, key=lambda run: (run.height or 0 if known else 0, run.started_ms, run.run_id))


def past_values(record: RunRecord, uri: str, *, limit: int = 60) -> list[PastValue]:
    """What earlier runs measured of the record's items, oldest first: only where dataset and question are the record's.

    Nothing where there were no runs yet. Raises TrackingError where MLflow does not answer.
    """
    stems, asked = content.stems(record), {part: _question(text) for part, text in content.questions(record).items()}
    values = []
    for run in past_runs(record.suite, uri, limit=limit, may_be_new=True, problem="MLflow did not take the run"):
        if run.fingerprint != record.dataset.fingerprint:
            continue
        for check in record.checks:
            stem, part = stems[check.item], content.check_part(check)
            before, now = run.questions.get(part), asked[part]
            if before is not None and now is not None and before.asked == now.asked and stem in run.metrics:
                value, lo, hi, bound = (run.metrics.get(f"{stem}{suffix}") for suffix in ("", "/lo", "/hi", "/bound"))
                values.append(PastValue(run.commit, run.created_at, check.item, value, lo, hi, bound, run.model))
    return values


def _past(run: Run) -> PastRun:
    tags, params = run.data.tags, run.data.params
    height = tags.get(content.HEIGHT, "")
    asked = {
        key.removeprefix(content.ASKED): question
        for key, text in params.items()
        if key.startswith(content.ASKED) and (question := _question(text)) is not None
    }
    return PastRun(
        run_id=str(run.info.run_id),
        created_at=tags.get(content.CREATED, ""),
        started_ms=int(run.info.start_time or 0),
        commit=tags.get(content.COMMIT),
        branch=tags.get(content.BRANCH),
        height=int(height) if height.isascii() and height.isdigit() else None,
        dirty=tags.get(content.DIRTY) == "true",
        pull_request=tags.get(content.PULL_REQUEST),
        verdict=tags.get(content.VERDICT, "error"),
        dataset=f"{tags.get(content.DATASET, '?')}/{tags.get(content.RELEASE, '?')}",
        fingerprint=tags.get(content.FINGERPRINT, ""),
        model=tags.get(content.MODEL),
        notice=tags.get(content.NOTICE),
        metrics={name: value for name, value in run.data.metrics.items() if math.isfinite(value)},
        questions=asked,
    )


def _question(text: str) -> Question | None:
    """None for a param that is not what `content.questions` writes: anyone may write to a shared server."""
    try:
        found = json.loads(text)
        metric, rule, asked = found["metric"], found["rule"], found["asked"]
        better, against = found.get("better"), found.get("against")
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if not all(isinstance(one, str) for one in (metric, rule, asked)):
        return None
    return Question(metric, better if better in ("higher", "lower") else None, rule, against and str(against), asked)
