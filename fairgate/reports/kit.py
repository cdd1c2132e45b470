"""What every self-contained page shares: the look of report.html, its drawing macros, its policy of loading nothing."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

from fairgate.reports.html import _environment


def render_standalone(package: str, template: str, style: str, *, script: str | None = None, **context: Any) -> str:
    """A page from `templates/` of a package, in the look of report.html with a style sheet of its own added.

    Templates use the filters of report.html and may import its `draw.html.j2`. They get `css`, and `js` where a script
    is named, with hashes for the page's policy: nothing is fetched, and only this style and this script are admitted.
    """
    from jinja2 import ChoiceLoader, PackageLoader

    loader = ChoiceLoader([PackageLoader(package, "templates"), PackageLoader("fairgate.reports", "templates")])
    css = _text("fairgate.reports", "report.css") + _text(package, style)
    given = {"css": css, "css_hash": _hash(css)}
    if script is not None:
        js = _text(package, script)
        given |= {"js": js, "js_hash": _hash(js)}
    return _environment().overlay(loader=loader).get_template(template).render(**given, **context)


def _text(package: str, name: str) -> str:
    return resources.files(package).joinpath(f"templates/{name}").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """SHA-256 as a content security policy names it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
