from .many import AuditRun as AuditRun
from .many import audit_suites as audit_suites
from .run import AuditOptions as AuditOptions
from .run import audit as audit
