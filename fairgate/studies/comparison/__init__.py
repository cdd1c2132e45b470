"""Many models on one suite's dataset and probes, compared as the papers' tables do; nothing here decides a gate."""

from fairgate.studies.comparison.many import AuditRun, audit_suites
from fairgate.studies.comparison.run import AuditOptions, audit, audited, command_of

__all__ = ["AuditOptions", "AuditRun", "audit", "audit_suites", "audited", "command_of"]
