"""Many models on many suites: scored here, or by the workers of an engine, and compared suite by suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from fairgate import gate
from fairgate.engines import Task, open_engine
from fairgate.ground.errors import CapabilityError, SettingsError
from fairgate.records import AuditCollection
from fairgate.studies.comparison.run import AuditOptions, answers_of, audit, command_of
from fairgate.suites import Settings

Answers = gate.Scored | CapabilityError


@dataclass(frozen=True, slots=True)
class AuditRun:
    """Where the suites are, and the options under which models are scored. It can be pickled."""

    root: Path
    device: str | None = None
    cache: str | None = None

    def settings(self, prepared: gate.Prepared, models: Sequence[str]) -> list[tuple[str, Settings]]:
        """Models with the settings under which each is scored: nothing to compare with, and nothing logged."""
        typed: dict[str, Any] = {"device": self.device, "cache": self.cache}
        return [(uri, gate.settings_of(prepared, model=uri, baseline="none", mlflow="off", **typed)) for uri in models]


def audit_suites(
    suites: Sequence[str],
    models: Sequence[str],
    options: AuditOptions,
    run: AuditRun,
    *,
    workers: tuple[str, int | None] | None = None,
    progress: gate.Progress | None = None,
) -> AuditCollection:
    """Compare models on every suite. `workers` names an engine and how many, None for this process.

    Answers are cached as the gate's are, so that an audit that was interrupted goes on where it was. A suite for which
    no model has what its probes need is left out, and the record says so. Raises SettingsError for a suite named twice,
    and what `audit` raises; CapabilityError where nothing is left.
    """
    twice = [name for name in dict.fromkeys(suites) if suites.count(name) > 1]
    if twice:
        raise SettingsError(f"suite '{twice[0]}' was named twice.", where="SUITE", remedy="name each suite once")
    prepared = {name: gate.prepare(name, run.root) for name in suites}  # what is wrong with one is known before any
    ready: Mapping[str, Mapping[str, Answers]] = {}
    if workers is not None:
        ready = _by_workers(prepared, models, run, workers, progress)
    audits, left_out, lacking = [], dict[str, str](), CapabilityError("no suite was named.", where="SUITE")
    for name, suite in prepared.items():
        command = command_of([name], models, options)
        named = run.settings(suite, models)
        try:
            audits.append(audit(suite, named, options, command=command, progress=progress, ready=ready.get(name)))
        except CapabilityError as error:
            left_out[name], lacking = error.problem, error
    if not audits:
        raise lacking
    return AuditCollection(audits=audits, left_out=left_out, command=command_of(suites, models, options))


def _by_workers(
    prepared: Mapping[str, gate.Prepared],
    models: Sequence[str],
    run: AuditRun,
    workers: tuple[str, int | None],
    progress: gate.Progress | None,
) -> dict[str, dict[str, Answers]]:
    """Answers by suite and model, of an engine's workers; a pair of a suite and a model is a task."""
    by_model: dict[str, dict[str, Answers]] = {name: {} for name in prepared}
    pairs = [(name, uri) for name in prepared for uri in models]

    def done(task: Task, answers: Answers) -> bool:
        name, uri = task.payload
        by_model[name][uri] = answers
        if progress is not None:
            progress("models scored", sum(map(len, by_model.values())), len(pairs))
        return True

    name, count = workers
    with closing(open_engine(name, workers=count, device=run.device or "auto")) as engine:
        bench = partial(_worker, run)
        engine.run(partial(next, (Task(at, pair, bench) for at, pair in enumerate(pairs)), None), done)
    return by_model


def _worker(run: AuditRun, device: str, _: object) -> Callable[[tuple[str, str]], Answers]:
    """A worker, which scores one model on one suite at a time."""
    run, prepare = replace(run, device=device), cache(partial(gate.prepare, root=run.root))

    def work(pair: tuple[str, str]) -> Answers:
        suite, uri = pair
        [(_, settings)] = run.settings(prepare(suite), [uri])
        return answers_of(prepare(suite), uri, settings)

    return work
