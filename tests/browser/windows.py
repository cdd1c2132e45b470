"""A page in a window that hears everything: what it says on the console, and whatever it asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextmanager
def opened(browser: Browser, path: Path, *, bypass_csp: bool = False) -> Iterator[Page]:
    """The page in a window of its own. Its policy is in force unless bypassed; what it says or asks for is an error."""
    context = browser.new_context(
        color_scheme="light", bypass_csp=bypass_csp, reduced_motion="reduce", viewport={"width": 1280, "height": 900}
    )
    context.set_default_timeout(60_000)  # a runner may be busy
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("request", lambda request: said.append(f"request: {request.url}") if not _own(request.url, path) else None)
    page.on("requestfailed", lambda request: said.append(f"failed: {request.url}"))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert said == []


def _own(url: str, path: Path) -> bool:
    """Whether this is the file itself, or a picture that stands in it."""
    return url.partition("#")[0] == path.as_uri() or url.startswith("data:image/")


def unfold(page: Page) -> None:
    """Open everything that is folded."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
