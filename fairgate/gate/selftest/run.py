"""Run all checks of the self-test."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fairgate import gate
from fairgate.gate.baselines import BaselineSpec
from fairgate.gate.selftest import machine
from fairgate.gate.selftest.finding import Finding, Progress, of_error, trouble
from fairgate.gate.selftest.proof import prove
from fairgate.gate.selftest.pytest_setup import look_at_pytest, read_ini
from fairgate.gate.selftest.suite_inputs import look_at_drift, look_at_models, look_at_suite
from fairgate.gate.selftest.workflows import look_at_workflows
from fairgate.ground.errors import FairgateError, SettingsError
from fairgate.suites import OPTIONS, Settings, cache_folder, suite_names, suite_path
from fairgate.tracking import DEFAULT_QUEUE


@dataclass(frozen=True, slots=True)
class SelfTestOptions:
    """Options of `fairgate doctor`; None takes a gate run's default.

    `program` are the words that start `fairgate`, `suites` those to examine (default: all), `inject` the strength of
    bias to plant and `keep` a folder for its tables and reports.
    """

    program: Sequence[str]
    suites: Sequence[str] = ()
    inject: float | None = None
    keep: Path | None = None
    mlflow: str | None = None
    device: str | None = None
    cache: str | None = None


def examine(root: Path, options: SelfTestOptions, progress: Progress = lambda _what: None) -> list[Finding]:
    """Run every check; a finding stops no other check.

    Raises SuiteError for a suite that does not exist, SettingsError for a strength out of range.
    """
    if options.inject is not None and not 0 < options.inject < 1:
        raise SettingsError(
            f"the strength is {options.inject:g}.",
            where="--inject-bias",
            remedy="give a probability to take away, between 0 and 1, such as 0.1",
        )
    names = list(dict.fromkeys(options.suites)) or suite_names(root)
    for name in options.suites:
        suite_path(name, root)
    ini = read_ini(root)

    def configured(name: str) -> str | None:
        return os.environ.get(OPTIONS[name].environment) or ini.get(OPTIONS[name].ini)

    progress("python, packages, device")
    device = options.device or configured("device")
    cache = cache_folder(options.cache or configured("cache"), os.environ)
    findings = machine.look_at_machine(device or "auto", cache, root)
    if not names:
        findings.append(
            trouble("suites", "there is no suite in fairness_suites/.", remedy="see README.md for a first one")
        )
    planned: dict[str, tuple[gate.Prepared, Settings]] = {}
    for name in names:
        progress(f"suite {name}: baseline, waivers")
        try:
            prepared = gate.prepare(name, root)
            typed = {"device": options.device, "mlflow": options.mlflow, "cache": options.cache}
            settings = gate.settings_of(prepared, ini=ini.get, **typed)
        except FairgateError as error:
            findings.append(of_error(f"suite {name}", error))
            continue
        planned[name] = (prepared, settings)
        findings += look_at_suite(prepared, settings, datetime.now(UTC).date())
        findings += look_at_models(prepared, settings)
        findings += look_at_drift(prepared)
    for ref, dataset in {
        definition.dataset.manifest.ref: definition.dataset for definition, _ in planned.values()
    }.items():
        progress(f"dataset {ref}")
        findings += machine.look_at_dataset(dataset)
    progress("pytest, environment")
    findings += look_at_pytest(root, {name: len(definition.planned) for name, (definition, _) in planned.items()}, ini)
    findings += look_at_workflows(root)
    progress("git, DVC, MLflow")
    findings += machine.look_at_git(root, _compared_refs(planned.values()))
    findings += machine.look_at_dvc(root)
    uri = options.mlflow or configured("mlflow") or OPTIONS["mlflow"].default
    findings += machine.look_at_mlflow(None if uri == "off" else uri, root / DEFAULT_QUEUE, datetime.now(UTC))
    if options.inject is not None:
        for name, (_, settings) in planned.items():
            findings += prove(name, root, settings, options.inject, progress, options.program, options.keep)
    return findings


def _compared_refs(planned: Iterable[tuple[gate.Prepared, Settings]]) -> list[str]:
    """The git references that suites compare with, as baseline or anchor, each once."""
    named = [
        text.removeprefix("git:")
        for prepared, settings in planned
        for text in (settings.baseline, prepared.loaded.suite.anchor)
        if text and text.startswith("git:")
    ]
    specs = [BaselineSpec("git", text) for text in named]
    return list(dict.fromkeys(spec.pinned[1] if spec.pinned else spec.target for spec in specs))
