"""The metrics of a suite's checks for which the audit has no table of their own, of every model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fairgate import gate
from fairgate.records import CheckResult, MetricRow, MetricsAudit, Refusal
from fairgate.suites import PlannedCheck, decide, probe_digests

_TABLED: Final[Mapping[str, frozenset[str]]] = {
    "zero_shot_classification": frozenset({"fairness", "accuracy", "p_true", "group_gap"}),
    "implicit_association": frozenset({"group_gap"}),
    "retrieval": frozenset({"max_skew_at_k", "recall_at_k"}),
    "association": frozenset({"max_skew_at_k"}),
}
"""By what an audit compares models by, the metrics that its tables are of."""
_MEASURED: Final = MetricRow.model_fields.keys() & CheckResult.model_fields.keys() - {"subject"}
"""What a row takes from a check's result as it is."""


def compare_metrics(
    prepared: gate.Prepared, opened: Mapping[str, gate.Scored], compared: Mapping[str, str]
) -> list[MetricsAudit]:
    """By probe, the value of each such metric for every model, as the suite's checks look at it.

    `compared` says as what a probe is compared; a probe that is not among them has all its metrics here.
    """
    suite, index = prepared.loaded.suite, prepared.dataset.index
    tabled = {probe: _TABLED[kind] for probe, kind in compared.items()}
    planned = _once([one for one in prepared.planned if one.check.metric not in tabled.get(one.check.probe, ())])
    digests, found = probe_digests(suite), list[MetricsAudit]()
    for probe in dict.fromkeys(one.check.probe for one in planned):
        of_probe = [one for one in planned if one.check.probe == probe]
        rows, refusals = list[MetricRow](), list[Refusal]()
        for model, scored in opened.items():
            for result in decide(of_probe, index, suite, scored.scores, {}, {}):
                if result.verdict == "error":
                    about = {"subject": result.subject or result.word, "over": result.over}
                    refusals.append(Refusal(what=result.metric, model=model, reason=result.reason, **about))
                else:
                    subject, measured = result.subject or result.word, result.model_dump(include=_MEASURED)
                    rows.append(MetricRow(model=model, subject=subject, check=result.id, **measured))
        found.append(MetricsAudit(name=probe, digest=digests[probe], rows=rows, refusals=refusals))
    return found


def _once(planned: Sequence[PlannedCheck]) -> list[PlannedCheck]:
    """The first of the checks that measure the same: they differ in their bounds, or in what they are compared with."""
    found: dict[tuple[object, ...], PlannedCheck] = {}
    for one in planned:
        measured = one.check.probe, one.check.metric, one.check.settings.model_dump_json()
        found.setdefault((*measured, one.subject, one.words, one.groupings), one)
    return list(found.values())
