"""Audits of the toy repository, in which a bias is planted by name."""

from __future__ import annotations

from pathlib import Path

from fairgate import gate
from fairgate.records.comparison import (
    AuditRecord,
    ClassificationAudit,
    EffectRow,
    ImplicitAudit,
    PairRow,
    RetrievalAudit,
)
from fairgate.studies.comparison import AuditOptions, audit
from fairgate.suites import resolve

OFF = {"baseline": "none", "mlflow": "off", "cache": "off"}


def uri(name: str) -> str:
    """The address of a table of logits."""
    return f"scores:{name}.csv?values=logit"


def audit_of(root: Path, *names: str, suite: str = "jobs", options: AuditOptions | None = None) -> AuditRecord:
    """An audit of tables of logits by name."""
    prepared = gate.prepare(suite, root)
    models = [(uri(name), resolve(prepared.loaded.suite, {**OFF, "model": uri(name)})) for name in names]
    return audit(prepared, models, options or AuditOptions(), command="fairgate audit jobs")


def classification(record: AuditRecord) -> ClassificationAudit:
    """Its zero-shot probe."""
    return next(probe for probe in record.probes if isinstance(probe, ClassificationAudit))


def implicit(record: AuditRecord) -> ImplicitAudit:
    """Its implicit association."""
    return next(probe for probe in record.probes if isinstance(probe, ImplicitAudit))


def ranked(record: AuditRecord) -> RetrievalAudit:
    """Its probe that ranks."""
    return next(probe for probe in record.probes if isinstance(probe, RetrievalAudit))


def pair_of(record: AuditRecord, first: str, second: str, subject: str | None = None) -> PairRow:
    """Two models on a subject."""
    pairs = classification(record).pairs
    return next(pair for pair in pairs if (pair.first, pair.second, pair.subject) == (first, second, subject))


def effects_of(record: AuditRecord, model: str, outcome: str, subject: str | None) -> dict[str, EffectRow]:
    """Effects of crossed groups by name."""
    over = classification(record).effects[-1].over
    return {
        row.group: row
        for row in classification(record).effects
        if (row.model, row.outcome, row.subject, row.over) == (model, outcome, subject, over)
    }
