"""Links between pages lead somewhere, and the site lists every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from documents import PAGES, ROOT, name_of, prose

_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
MADE = {"index.md": "README.md", "changelog.md": "CHANGELOG.md"}
"""Pages that the site makes of files elsewhere (docs/site_hooks.py)."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    for path, heading in _LINK.findall(prose(page)):
        target = page.parent / path if path else page
        assert target.exists(), path
        if heading and target.suffix == ".md":
            assert heading in _anchors(target), f"{path}#{heading}"


def test_the_site_lists_every_page_once() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"[\w/-]+\.md", settings.partition("\nnav:")[2])
    there = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted([*there, *MADE])
    assert all((ROOT / name).is_file() for name in MADE.values())


def test_the_site_fetches_nothing_from_elsewhere() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert settings["theme"]["font"] is False
    assert "repo_url" not in settings  # the theme would fetch the repository's stars
    assert "http" not in str([settings.get("extra_css"), settings.get("extra_javascript")])


def test_the_readme_is_read_in_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def _anchors(page: Path) -> set[str]:
    """Anchors of headings, as GitHub and Python-Markdown name them alike."""
    headings = re.findall(r"^#+ +(.+?)\s*$", prose(page), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
