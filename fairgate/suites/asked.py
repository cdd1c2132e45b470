"""What a suite asks a model: digests by which two runs are known to have asked the same, and how many prompts."""

from __future__ import annotations

from collections.abc import Sequence

from fairgate.hashing import digest
from fairgate.probes import METRIC_VERSION
from fairgate.suites.schema import AssociationProbe, Probe, Suite, ZeroShotProbe


def probe_digests(suite: Suite, metric_version: int = METRIC_VERSION) -> dict[str, str]:
    """What each probe asked, as its kind and a digest: runs that asked otherwise are not compared."""

    def asked(probe: Probe) -> str:
        # exclude_none: a key that a probe does not use leaves its digest as it was before there was such a key
        asked = digest({"probe": probe.model_dump(mode="json", exclude_none=True), "metric_version": metric_version})
        implicit = isinstance(probe, ZeroShotProbe) and probe.positive is not None
        return f"{'implicit_association' if implicit else probe.kind}:{asked}"

    return {name: asked(probe) for name, probe in suite.probes.items()}


def prompt_count(suite: Suite, subjects: Sequence[str]) -> int:
    """Number of different texts that the suite's probes show a model."""
    asked: set[str] = set()
    for probe in suite.probes.values():
        if isinstance(probe, AssociationProbe):
            asked.update(probe.prompt(word) for word in probe.words)
            continue
        for subject in subjects:
            if isinstance(probe, ZeroShotProbe):
                asked.update(probe.prompt(label) for label in probe.labels_of(subject))
            else:
                asked.update(probe.prompts_of(subject))
    return len(asked)
