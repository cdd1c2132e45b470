"""The command that reproduces a run."""

from __future__ import annotations

import shlex

from fairgate.suites.settings import Settings


def command_line(suite: str, settings: Settings) -> str:
    """`pytest --fairness-suite ...` with what decides the verdict: suite, model, baseline, base, leniency."""
    words = ["pytest", "--fairness-suite", suite, "--fairness-model", settings.model]
    words += ["--fairness-baseline", settings.baseline]
    if settings.bases is not None:
        words += ["--fairness-base", " ".join(settings.bases) or "none"]
    if settings.on_inconclusive != "fail":
        words += ["--fairness-on-inconclusive", settings.on_inconclusive]
    return shlex.join(words)
