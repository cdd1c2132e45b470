"""How the numbers of a suite moved from commit to commit, and at which one."""

from fairgate.history.series import History, Move, Point, Series, suite_history

__all__ = ["History", "Move", "Point", "Series", "suite_history"]
