"""The reference pages say what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from documents import ROOT

from fairgate.suites.load import load_text

FOLDER = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_reference", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["suite.md", "commands.md"])
def test_a_page_is_the_one_that_is_generated(generator: ModuleType, page: str) -> None:
    written = (FOLDER / page).read_text(encoding="utf-8")
    assert written == generator.PAGES[page](), "run `python docs/reference/generate.py`"


def test_the_example_of_a_suite_is_a_suite(generator: ModuleType) -> None:
    loaded = load_text(generator.EXAMPLE.encode(), Path("jobs.yaml"), shown="jobs.yaml")
    assert [check.id for check in loaded.suite.checks] == ["useful", "groups", "crossings", "still-sure"]


def test_every_key_of_a_suite_is_explained(generator: ModuleType) -> None:
    """A key without a meaning ends its line of the table with an empty cell."""
    assert [
        line for line in generator.suite_page().splitlines() if line.startswith("|") and line.endswith("|  |")
    ] == []
