"""What a candidate is compared with, and whether it may be."""

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
from fairgate.baselines.record_files import Kept, baseline_folder, kept_in_folder, kept_in_git

__all__ = [
    "BaselineSpec",
    "Kept",
    "Repository",
    "baseline_folder",
    "environment_warnings",
    "kept_in_folder",
    "kept_in_git",
    "mismatch",
    "parse_baseline",
    "require_another_checkpoint",
    "require_nothing_vanished",
    "require_own_scores",
    "require_same_declaration",
]
