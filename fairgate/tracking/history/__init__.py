"""How the numbers of a suite moved from commit to commit, and at which one."""

from fairgate.tracking.history.series import suite_history

__all__ = ["suite_history"]
