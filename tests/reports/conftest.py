"""Fixtures of the report tests."""

from __future__ import annotations

import pytest
from example_records import example_record

from fairgate.records import RunRecord


@pytest.fixture(scope="session")
def record() -> RunRecord:
    """The example run."""
    return example_record()
