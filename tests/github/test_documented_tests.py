"""The pages of evidence name the tests that show what they promise, and these tests are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
EVIDENCE = sorted((ROOT / "docs" / "evidence").rglob("*.md"))
TRUST = ROOT / "docs" / "evidence" / "trust.md"


def named(text: str) -> list[str]:
    """Paths of test files."""
    return re.findall(r"`((?:[\w-]+/)*test_\w+\.py)`", text)


@pytest.mark.parametrize("page", EVIDENCE, ids=lambda page: page.stem)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    names = named(page.read_text(encoding="utf-8"))
    assert [name for name in names if not any(f"/{path}".endswith(f"/{name}") for path in TESTS)] == []


def test_every_promise_of_the_threat_table_names_a_test() -> None:
    rows = [line.strip("| ").split(" | ") for line in TRUST.read_text("utf-8").splitlines() if line.startswith("| ")]
    threats = [row for row in rows[1:] if len(row) == 4]
    assert len(threats) > 50
    assert [
        threat for threat, promise, test, _ in threats if not named(test) and "nothing is promised" not in promise
    ] == []
