"""Renders every HTML page: one self-contained file that loads nothing, with a shared style sheet; the filter of
report.html by check and by group; and the page on which raters mark images, with headers that admit nothing else.

Rules of style filter, so that the page runs no script: `:has` sees which option is chosen. A browser without `:has`
shows no filter, and everything.
"""

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
from fairgate.records import CheckResult, plain_notice
from fairgate.reports import formatting, next_steps, run_remarks, sentences
from fairgate.reports.data_table import table_id
from fairgate.reports.formatting import check_name
from fairgate.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

    from fairgate.data import Manifest


CHECKS: Final = 40
GROUPS: Final = 60


@dataclass(frozen=True, slots=True)
class PageFilter:
    """The checks and groups to choose from, each known by its place: a class has no foreign text."""

    checks: Sequence[str]
    groups: Sequence[str]

    @property
    def offered(self) -> bool:
        """Whether there is anything to choose."""
        return len(self.checks) > 1 or len(self.groups) > 1

    def of_check(self, check: CheckResult) -> str:
        """The classes of what shows a check: its own, and those of its groups."""
        groups = sorted({self.groups.index(group.group) for group in check.groups if group.group in self.groups})
        name = check_name(check)
        own = f" k{self.checks.index(name)}" if name in self.checks else ""
        return f"k{own}{''.join(f' h{at}' for at in groups)}"

    def of_group(self, name: str) -> str:
        """The classes of a group's row."""
        return f"g g{self.groups.index(name)}" if name in self.groups else "g"


def filter_of(checks: Sequence[CheckResult]) -> PageFilter:
    """The filter of a page that shows these checks: the first names of each kind, in their order."""
    names = dict.fromkeys(map(check_name, checks))
    groups = dict.fromkeys(group.group for check in checks for group in check.groups)
    return PageFilter(list(names)[:CHECKS], list(groups)[:GROUPS])


def filter_rules() -> str:
    """The style of any filter; the first option chooses everything."""
    chosen = "body:has(#by-{kind} option:nth-child({place}):checked) {hidden}"
    rules = [chosen.format(kind="check", place=at + 2, hidden=f".k:not(.k{at})") for at in range(CHECKS)]
    rules += [
        chosen.format(kind="group", place=at + 2, hidden=f":is(.k:not(.h{at}), tr.g:not(.g{at}))")
        for at in range(GROUPS)
    ]
    hidden = "\n".join(f"  {rule} {{ display: none; }}" for rule in rules)
    return f"@supports selector(:has(*)) {{\n  .filter {{ display: flex; }}\n{hidden}\n}}\n"


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
    notice = manifest.notice and plain_notice(manifest.notice)
    text = render_page("review", admit=_SERVED, name=manifest.name, notice=notice, instructions=instructions)
    more = {"frame-ancestors": "'none'", "require-trusted-types-for": "'script'", "trusted-types": "'none'"}
    return Page(text.encode(), {"Content-Security-Policy": page_policy("review", _SERVED | more), **_HEADERS})
