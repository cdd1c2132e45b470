"""What the checks of an existing suite can decide: whether a harmless change passes them, and which loss fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from fairgate import gate
from fairgate.ground.errors import SuiteError
from fairgate.records import CheckPower, PowerRecord
from fairgate.studies.power.decidable import Simulation, outlook, with_losses
from fairgate.studies.power.harmless import harmless_changes
from fairgate.suites import Settings
from fairgate.tracking import environment


def suite_power(
    prepared: gate.Prepared,
    settings: Settings,
    *,
    command: str,
    like: Sequence[str] = (),
    progress: gate.Progress | None = None,
) -> PowerRecord:
    """What every regression check can decide on the suite's images, in runs that the gate's own rules decide.

    `like` are checkpoints (URIs) that are as good as the model, such as other seeds of its training. Raises SuiteError
    if the suite compares nothing with a baseline.
    """
    suite = prepared.loaded.suite
    if not any(check.against == "baseline" for check in prepared.planned):
        raise SuiteError(
            f"suite '{prepared.loaded.name}' compares nothing with a baseline, so that no regression is looked for.",
            where=prepared.loaded.path.name,
            remedy="add a check with `no_worse_than: baseline` and a margin",
        )
    scored = gate.score(prepared, replace(settings, baseline="none"), progress)
    changes, left_out = harmless_changes(prepared, settings, scored.scores, like, progress)
    simulation = Simulation(prepared, changes, progress)
    compared = [check for check in suite.checks if check.no_worse_than]
    suite = suite.model_copy(update={"checks": compared})
    measured = with_losses(outlook(simulation, suite, choose=False), simulation, suite)
    checks = [
        CheckPower(
            id=check.id,
            metric=check.metric,
            over=" × ".join(check.over) if isinstance(check.over, list) else check.over,
            tier=check.tier,
            margin=check.bound,
            passes=outlook_of.passes,
            loss=None if outlook_of.loss == math.inf else outlook_of.loss,
            needed=outlook_of.needed,
        )
        for check, outlook_of in zip(compared, measured.checks, strict=True)
    ]
    return PowerRecord(
        suite=prepared.loaded.name,
        suite_digest=prepared.loaded.digest,
        dataset=gate.dataset_info(prepared.dataset),
        model=scored.model,
        changes=[change.name for change in changes],
        left_out=left_out,
        runs=measured.runs,
        unit=measured.unit,
        units=measured.units,
        together=measured.together,
        checks=checks,
        environment=environment(prepared.root, scored.device),
        command=command,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
