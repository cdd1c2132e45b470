"""The pages of promises name the tests that hold them, and these tests are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
PROMISES = ("gate", "hardening", "pull-requests", "trust")


@pytest.mark.parametrize("page", PROMISES)
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    named = re.findall(r"`((?:[\w-]+/)*test_\w+\.py)`", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    assert len(set(named)) > 4
    assert [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in TESTS)] == []
