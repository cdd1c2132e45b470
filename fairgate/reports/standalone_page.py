"""Renders every HTML page: one self-contained file that loads nothing, with a shared style sheet; and the page on which
raters mark images, with headers that admit nothing else."""

from __future__ import annotations

import base64
import functools
import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from fairgate.ground import number_format
from fairgate.ground.errors import clean
from fairgate.ground.markdown import web_address
from fairgate.reports import formatting, next_steps, run_remarks, sentences
from fairgate.reports.data_table import table_id
from fairgate.reports.page_filter import filter_rules
from fairgate.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

    from fairgate.data import Manifest

_NOTHING: Final[Mapping[str, str]] = {}


def render_page(name: str, /, *, look: str | None = None, admit: Mapping[str, str] = _NOTHING, **context: Any) -> str:
    """The page of `templates/NAME.html.j2`, which extends `page.html.j2`, with base.css and NAME.css and .js inside, or
    with the `look` of another page.

    `admit` adds to the page's policy, which admits this style and this script alone.
    """
    css, js = _own(look or name)
    template = _environment().get_template(f"{name}.html.j2")
    return template.render(css=css, js=js, policy=page_policy(look or name, admit), version=__version__, **context)


def page_policy(name: str, admit: Mapping[str, str] = _NOTHING) -> str:
    """The content security policy of a page: nothing is fetched, and only its own style and script are admitted."""
    css, js = _own(name)
    policy = {"default-src": "'none'", **admit, "style-src": _source(css)}
    policy |= {"script-src": _source(js)} if js else {}
    policy |= {"base-uri": "'none'", "form-action": "'none'"}
    return "; ".join(f"{key} {value}" for key, value in policy.items())


def _own(name: str) -> tuple[str, str]:
    """A page's style sheet, on top of the one that all share, and its script."""
    rules = filter_rules() if name == "run" else ""
    return _text("base.css") + _text(f"{name}.css") + rules, _text(f"{name}.js")


def data_uri(kind: str, data: bytes) -> str:
    """A picture as a page holds it."""
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def _text(name: str) -> str:
    """A file of templates/; nothing where there is none."""
    file = resources.files("fairgate.reports").joinpath(f"templates/{name}")
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _exact(value: float) -> str:
    """All digits of a number, as scripts read it."""
    return str(value) if isinstance(value, int) else repr(float(value)).replace("inf", "Infinity")


@functools.cache
def _environment() -> Environment:
    """Templates call functions of these modules by their names, as filters and globals."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("fairgate.reports", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    words = {
        name: word
        for module in (formatting, sentences, run_remarks, next_steps, number_format)
        for name, word in inspect.getmembers(module, inspect.isfunction)
        if word.__module__ == module.__name__ and not name.startswith("_")
    }
    made.filters |= words | {"clean": clean, "exact": _exact, "link": web_address}
    made.globals |= words | {"DECIDERS": run_remarks.DECIDERS, "SYMBOL": formatting.SYMBOL, "table_id": table_id}
    return made


_SERVED: Final = {"img-src": "'self'", "connect-src": "'self'"}
_HEADERS: Final = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Page:
    """`html`, and the headers of every answer of its server."""

    html: bytes
    headers: dict[str, str]


def render_review(manifest: Manifest, instructions: Sequence[str]) -> Page:
    """The page of a dataset. What is in the data reaches it as JSON and is set as text; no markup is made of it."""
    text = render_page("review", admit=_SERVED, name=manifest.name, notice=manifest.notice, instructions=instructions)
    more = {"frame-ancestors": "'none'", "require-trusted-types-for": "'script'", "trusted-types": "'none'"}
    return Page(text.encode(), {"Content-Security-Policy": page_policy("review", _SERVED | more), **_HEADERS})
