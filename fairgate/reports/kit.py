"""What every self-contained page shares: the look of report.html, its drawing macros, its policy of loading nothing."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

from fairgate.reports.html import _environment


def render_standalone(package: str, template: str, style: str, **context: Any) -> str:
    """A page from `templates/` of a package, in the look of report.html with a style sheet of its own added.

    Templates use the filters of report.html and may import its `draw.html.j2`. The style's hash is for the page's
    policy: nothing is fetched, and only this style is admitted.
    """
    from jinja2 import ChoiceLoader, PackageLoader

    loader = ChoiceLoader([PackageLoader(package, "templates"), PackageLoader("fairgate.reports", "templates")])
    shared = resources.files("fairgate.reports").joinpath("templates/report.css").read_text(encoding="utf-8")
    css = shared + resources.files(package).joinpath(f"templates/{style}").read_text(encoding="utf-8")
    css_hash = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode("ascii")
    made = _environment().overlay(loader=loader)
    return made.get_template(template).render(css=css, css_hash=css_hash, **context)
