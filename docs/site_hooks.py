"""What the site changes in pages that are also read on GitHub.

README and changelog become pages, and links that leave docs/ lead to the repository. Addresses of pages that moved
(redirects.yml) lead to the new pages.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

REPOSITORY = "https://github.com/OWNER/fairgate/blob/main/"
ROOT = Path(__file__).parents[1]
ALSO = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the site that are files of the repository's root."""
REDIRECTS: dict[str, str] = yaml.safe_load((ROOT / "docs" / "redirects.yml").read_text(encoding="utf-8"))
"""Old pages, or `page#anchor`, and where they are now; without suffixes."""
_CODE = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")
"""Code with an escaped bar, as GitHub wants it inside tables; Python-Markdown would show the backslash."""
_BLOCK = re.compile(r"<pre>(?=(?:(?!</pre>).)*[─│])", re.DOTALL)
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from the repository's root, and one for each old address."""
    from mkdocs.structure.files import File  # noqa: PLC0415 # tests read this file where mkdocs is not installed

    for name, page in ALSO.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_moved(text, ".", ".")))
    for old in [name for name in REDIRECTS if "#" not in name]:
        files.append(File.generated(config, f"{old}.html", content=redirect_page(old)))
    return files


def redirect_page(old: str) -> str:
    """A page without text that leads to a moved page, and from each of its anchors to the new one."""

    def address(target: str) -> str:
        page, _, anchor = target.partition("#")
        return posixpath.relpath(f"{page}.html", posixpath.dirname(old) or ".") + (f"#{anchor}" if anchor else "")

    new = address(REDIRECTS[old])
    anchors = {name.partition("#")[2]: address(to) for name, to in REDIRECTS.items() if name.startswith(f"{old}#")}
    script = (
        f"var anchors = {json.dumps(anchors)}, anchor = location.hash.slice(1), page = {json.dumps(new)};"
        'location.replace(anchors[anchor] || (anchor ? page.split("#")[0] + "#" + anchor : page));'
    )
    return (
        f'<!doctype html><meta charset="utf-8"><title>Moved</title><script>{script}</script>'
        f'<meta http-equiv="refresh" content="0; url={html.escape(new)}"><a href="{html.escape(new)}">Moved here</a>\n'
    )


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page that leave docs/."""
    if page.file.src_uri not in ALSO.values():
        folder = posixpath.dirname(page.file.src_uri)
        markdown = _moved(markdown, posixpath.join("docs", folder), folder)
    return _CODE.sub(lambda code: f"<code>{html.escape(code[1])}</code>".replace("\\|", "&#124;"), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Mark blocks with a drawn table: `site.css` breaks none of their lines."""
    return _BLOCK.sub('<pre class="drawn">', html)


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
