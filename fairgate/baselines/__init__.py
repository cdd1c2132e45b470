"""Baselines: where their records come from, and whether a run can be compared with them."""

from fairgate.baselines.compare import (
    BaselineSpec,
    environment_warnings,
    mismatch,
    parse_baseline,
    require_another_checkpoint,
    require_nothing_vanished,
    require_own_scores,
    require_same_declaration,
)
from fairgate.baselines.git import Repository
from fairgate.baselines.record_files import (
    RESULTS,
    SCORES,
    RecordFiles,
    baseline_folder,
    record_in_folder,
    record_in_git,
)
from fairgate.baselines.tracked import changed_pointers, check_out

__all__ = [
    "RESULTS",
    "SCORES",
    "BaselineSpec",
    "RecordFiles",
    "Repository",
    "baseline_folder",
    "changed_pointers",
    "check_out",
    "environment_warnings",
    "mismatch",
    "parse_baseline",
    "record_in_folder",
    "record_in_git",
    "require_another_checkpoint",
    "require_nothing_vanished",
    "require_own_scores",
    "require_same_declaration",
]
