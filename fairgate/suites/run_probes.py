"""Run a suite's probes on a model; digests of their settings say whether two runs can be compared."""

from __future__ import annotations

from collections.abc import Sequence

from fairgate.hashing import digest
from fairgate.models import Capable, require_capability
from fairgate.probes import METRIC_VERSION, ProbeScores, Rows
from fairgate.suites.distinct import require_distinct
from fairgate.suites.schema import Suite


def run_probes(model: Capable, index: Rows, suite: Suite) -> dict[str, ProbeScores]:
    """Every probe's answers: under the probe's name, those of an association under `probe[word]`.

    Raises ModelError for a model that lacks what a probe needs, or that reads different labels, subjects or words as
    the same text.
    """
    for name, probe in suite.probes.items():
        require_capability(model, probe.needs, f"probe '{name}' ({probe.kind})")
    require_distinct(model, suite, list(dict.fromkeys(index.subject.tolist())))
    scores: dict[str, ProbeScores] = {}
    for name, probe in suite.probes.items():
        scores |= probe.run(name, model, index)
    return scores


def probe_digests(suite: Suite, metric_version: int = METRIC_VERSION) -> dict[str, str]:
    """By probe, its kind and a digest of its settings: runs whose digests differ are not compared."""
    found = {}
    for name, probe in suite.probes.items():
        # exclude_none: a key that a probe does not use leaves its digest as it was before there was such a key
        settings = digest({"probe": probe.model_dump(mode="json", exclude_none=True), "metric_version": metric_version})
        found[name] = f"{probe.digest_kind}:{settings}"
    return found


def prompt_count(suite: Suite, subjects: Sequence[str]) -> int:
    """Number of different texts that the suite's probes show a model."""
    return len({text for probe in suite.probes.values() for text in probe.texts(subjects)})
