"""The pages that people read: README, changelog, docs/, and those of examples/."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob(".github/*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
)
_FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    """A page as a test's id."""
    return page.relative_to(ROOT).as_posix()


def fences(page: Path) -> list[tuple[str, str]]:
    """Language and content of each block of code."""
    return _FENCE.findall(page.read_text(encoding="utf-8"))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Anchors of headings, as GitHub and Python-Markdown name them alike."""
    headings = re.findall(r"^#+ +(.+?)\s*$", prose(page), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
