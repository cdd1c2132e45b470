"""May these two runs be compared at all? Different data, prompts or metrics would make a difference of their own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairgate.errors import BaselineError
from fairgate.probes import ProbeScores
from fairgate.records import DatasetInfo, RunRecord


def require_comparable(record: RunRecord, dataset: DatasetInfo, probes: Mapping[str, str], where: str) -> None:
    """Raise BaselineError, saying what differs, unless a record was made on the same data with the same probes.

    `probes` maps each probe that the checks compare to its digest (prompts, labels, metric version).
    """
    if record.dataset.fingerprint != dataset.fingerprint:
        raise BaselineError(
            f"the baseline was scored on dataset '{record.dataset.name}/{record.dataset.version}' "
            f"({record.dataset.fingerprint[:12]}), this run on '{dataset.name}/{dataset.version}' "
            f"({dataset.fingerprint[:12]}).",
            where=where,
            remedy="score the baseline's checkpoint on this release with `--fairness-baseline model:URI`",
        )
    differing = [name for name, digest in probes.items() if record.probes.get(name) != digest]
    if differing:
        raise BaselineError(
            f"the baseline asked other questions: prompts, labels or metric version of {', '.join(differing)} differ.",
            where=where,
            remedy="score the baseline's checkpoint with this suite: `--fairness-baseline model:URI`",
        )


def require_own_scores(record: RunRecord, digest: str, where: str) -> None:
    """Raise BaselineError unless the kept scores are, to the bit, those that the record was made from."""
    if record.scores_digest != digest:
        raise BaselineError(
            "the per-image scores are not those that the baseline's results.json was made from.",
            where=where,
            remedy="take results.json and scores.parquet from one run, or make the baseline again",
        )


def require_another_checkpoint(
    candidate: tuple[str, Mapping[str, ProbeScores]],
    baseline: tuple[str, Mapping[str, ProbeScores]],
    where: str,
) -> None:
    """Raise BaselineError when candidate and baseline (each a fingerprint and its scores) are one and the same, or two
    checkpoints with identical scores: either way nothing was compared."""
    if candidate[0] == baseline[0]:
        raise BaselineError(
            f"the baseline is the candidate: both are checkpoint {candidate[0][:12]}.",
            where=where,
            remedy="name the checkpoint from before the change as the baseline, or `none`",
        )
    shared = [name for name in candidate[1] if name in baseline[1]]
    if shared and all(np.array_equal(candidate[1][name].value, baseline[1][name].value) for name in shared):
        raise BaselineError(
            f"two different checkpoints ({candidate[0][:12]} and {baseline[0][:12]}) gave identical scores.",
            where=where,
            remedy="one of the files is probably not the model that was meant: check both URIs",
        )
