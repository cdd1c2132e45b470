"""One audit for many tests to read."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_toy import audit_of
from toy_repository import Toy, toy_repository

from fairgate.records.comparison import AuditRecord


@pytest.fixture(scope="session")
def audited_toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A repository that no test writes to."""
    return toy_repository(tmp_path_factory.mktemp("audited"))


@pytest.fixture(scope="session")
def toy_audit(audited_toy: Toy) -> AuditRecord:
    """base, tuned and biased, compared."""
    root: Path = audited_toy.root
    return audit_of(root, "base", "tuned", "biased")
