"""A headless Chromium for the pages: the machine's own, for playwright downloads none.

Where it is missing the tests skip, unless FAIRGATE_BROWSER_TESTS=required says that it must be there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from axe_core import NotFetchedError, axe_source
from sites import write_sites

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairgate-browser-tests"


def _lacks(what: str) -> NoReturn:
    if os.environ.get("FAIRGATE_BROWSER_TESTS") == "required":
        pytest.fail(f"{what}, and FAIRGATE_BROWSER_TESTS=required asks for it", pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser. One a module: playwright's event loop would stand in the way of what other tests run."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        _lacks(f"no browser here: none of {', '.join(BROWSERS)}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=found, headless=True, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core as one script."""
    npm = shutil.which("npm")
    if npm is None:
        _lacks("no npm here, which fetches axe-core")
    try:
        return axe_source(CACHE, npm)
    except NotFetchedError as error:
        _lacks(str(error))


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Every page by name, written once."""
    return write_sites(tmp_path_factory.mktemp("sites"))
