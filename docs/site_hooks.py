"""What the site changes in pages that are also read on GitHub.

README and changelog become pages, and links that leave docs/ lead to the repository.
"""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

REPOSITORY = "https://github.com/OWNER/fairgate/blob/main/"
ROOT = Path(__file__).parents[1]
ALSO = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the site that are files of the repository's root."""
_CODE = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")
"""Code with an escaped bar, as GitHub wants it inside tables; Python-Markdown would show the backslash."""
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from the repository's root."""
    for name, page in ALSO.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_moved(text, ".", ".")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page that leave docs/."""
    if page.file.src_uri not in ALSO.values():
        folder = posixpath.dirname(page.file.src_uri)
        markdown = _moved(markdown, posixpath.join("docs", folder), folder)
    return _CODE.sub(lambda code: f"<code>{html.escape(code[1])}</code>".replace("\\|", "&#124;"), markdown)


def _moved(text: str, folder: str, page_folder: str) -> str:
    """Links of a text in `folder` of the repository, for a page in `page_folder` of the site."""

    def target(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        if path in ALSO:
            path = posixpath.join("docs", ALSO[path])
        if path.startswith("docs/"):
            return posixpath.relpath(path.removeprefix("docs/"), page_folder)
        return REPOSITORY + path

    return _LINK.sub(target, text)
