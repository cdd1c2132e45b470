"""What a candidate is compared with, and whether it may be."""

from fairgate.baselines.compare import require_another_checkpoint, require_comparable, require_own_scores
from fairgate.baselines.spec import BaselineSpec, parse_baseline, record_files

__all__ = [
    "BaselineSpec",
    "parse_baseline",
    "record_files",
    "require_another_checkpoint",
    "require_comparable",
    "require_own_scores",
]
