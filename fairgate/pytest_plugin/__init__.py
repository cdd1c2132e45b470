"""The pytest plugin: fairness suites as pytest items, and a `fairness` fixture for tests in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fairgate.pytest_plugin.session import GateSession

SESSION: pytest.StashKey[GateSession] = pytest.StashKey()
"""Where pytest's configuration holds this run's suites and records."""
