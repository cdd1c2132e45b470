"""Links between pages lead somewhere, and the site lists every page."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from documents import PAGES, ROOT, anchors, name_of, prose

_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
_NAMED = re.compile(r"\b(docs/[\w/.-]+\.(?:md|csv|png|ya?ml))(?:#([\w-]+))?")
SOURCES = {".py", ".pyi", ".yml", ".yaml", ".json"}
FOLDERS = ["fairgate", "examples", ".github", "benchmarks", "tests", "gpu", "action.yml"]
MADE = {"index.md": "README.md", "changelog.md": "CHANGELOG.md"}
"""Pages that the site makes of files elsewhere (docs/site_hooks.py)."""


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    for path, heading in _LINK.findall(prose(page)):
        target = page.parent / path if path else page
        assert target.exists(), path
        if heading and target.suffix == ".md":
            assert heading in anchors(target), f"{path}#{heading}"


def test_the_site_lists_every_page_once() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"[\w/.-]+\.md", settings.partition("\nnav:")[2])
    there = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted([*there, *MADE])
    assert all((ROOT / name).is_file() for name in MADE.values())


def test_no_block_of_code_ends_the_list_that_it_is_in() -> None:
    """On the site, steps after one that is indented by less than four spaces are numbered from 1 again."""
    assert [name_of(page) for page in PAGES if re.search(r"^ {1,3}```", page.read_text("utf-8"), re.MULTILINE)] == []


def test_the_site_breaks_no_line_of_a_drawn_table(site: ModuleType) -> None:
    plain, drawn = "<pre><code>$ fairgate</code></pre>", "<pre><code>check\n─────</code></pre>"
    assert site.on_page_content(plain + drawn) == plain + drawn.replace("<pre>", '<pre class="drawn">')
    assert "pre.drawn" in (ROOT / "docs" / "site.css").read_text(encoding="utf-8")


def test_the_site_fetches_nothing_from_elsewhere() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert settings["theme"]["font"] is False
    assert "repo_url" not in settings  # the theme would fetch the repository's stars
    assert "http" not in str([settings.get("extra_css"), settings.get("extra_javascript")])


def test_the_readme_is_read_in_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def test_the_instructions_are_read_in_an_hour() -> None:
    pages = list((ROOT / "docs" / "use").glob("**/*.md"))
    assert len(pages) <= 14
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 13_000


def test_instructions_name_no_tests() -> None:
    for page in (ROOT / "docs" / "use").glob("**/*.md"):
        assert not re.findall(r"tests/|test_\w+\.py", prose(page)), page.name


@pytest.mark.parametrize("folder", FOLDERS)
def test_pages_that_messages_and_files_name_are_there(folder: str) -> None:
    root = ROOT / folder
    files = [path for path in root.rglob("*") if path.suffix in SOURCES and path.is_file()] if root.is_dir() else [root]
    named = {name for path in files for name in _NAMED.findall(path.read_text(encoding="utf-8"))}
    assert named
    for page, heading in named:
        assert (ROOT / page).is_file(), page
        assert not heading or heading in anchors(ROOT / page), f"{page}#{heading}"


def test_old_addresses_lead_to_pages_and_headings_that_are_there(site: ModuleType) -> None:
    for old, new in site.REDIRECTS.items():
        page, _, heading = new.partition("#")
        path = ROOT / "docs" / f"{re.sub(r'index$', 'README', page)}.md"
        assert path.is_file(), new
        assert not heading or heading in anchors(path), new
        assert not (ROOT / "docs" / f"{old.partition('#')[0]}.md").exists(), old
        assert old.partition("#")[0] in site.REDIRECTS, old


def test_an_old_page_leads_to_its_new_one_by_anchor(site: ModuleType) -> None:
    page = site.redirect_page("papers/gensynth")
    assert 'content="0; url=../evidence/papers/gensynth.html"' in page
    anchors_of = json.loads(re.findall(r"var anchors = (\{.*?\}), anchor", site.redirect_page("publishing"))[0])
    assert anchors_of["gitlab"] == "use/pull-requests.html#gitlab"
