"""The reference pages say what the code says."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
from documents import ROOT, fences

from fairgate.metrics import METRICS
from fairgate.probes import PROBES
from fairgate.suites import Suite
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


def test_pages_and_the_code_in_them_are_as_generated(generator: ModuleType) -> None:
    stale = [page.name for page, text in generator.pages().items() if page.read_text(encoding="utf-8") != text]
    assert stale == [], "run `make generate`"


def test_no_metric_and_no_probe_is_missing(generator: ModuleType) -> None:
    metrics = re.findall(r"^## (\w+)$", generator.metrics_page(), re.MULTILINE)
    probes = re.findall(r"^## (\w+)$", generator.probes_page(), re.MULTILINE)
    assert metrics == [metric.spec.name for metric in METRICS.own()]
    assert probes == [kind for probe in PROBES.own() for kind in get_args(probe.model_fields["kind"].annotation)]


def test_code_is_filled_in_as_it_is_now(generator: ModuleType) -> None:
    page = "<!-- source: fairgate/models/hf.py HuggingFace, to open -->\n```python\nold\n```\nand more"
    lines = generator.with_sources(page).splitlines()
    assert "class HuggingFace(FolderFamily):" in lines
    assert lines[-3].startswith("        return TwoTowers(")
    assert lines[-2:] == ["```", "and more"]


def test_the_example_of_a_suite_is_a_suite(generator: ModuleType) -> None:
    loaded = load_text(generator.EXAMPLE.encode(), Path("jobs.yaml"), shown="jobs.yaml")
    assert [check.id for check in loaded.suite.checks] == ["useful", "groups", "crossings", "still-sure"]


def test_every_key_of_a_suite_is_explained(generator: ModuleType) -> None:
    """A key without a meaning ends its line of the table with an empty cell."""
    assert [
        line
        for page in (generator.suite_page(), generator.probes_page())
        for line in page.splitlines()
        if line.startswith("|") and line.endswith("|  |")
    ] == []


def test_every_mapping_in_a_probe_has_a_table_of_its_keys(generator: ModuleType) -> None:
    """What a probe's key leads to (`questions`, `reader`) is as much part of a suite as the key."""
    page, schema = generator.probes_page(), Suite.model_json_schema(by_alias=True)["$defs"]
    held = {
        part: keys
        for name, probe in schema.items()
        if name.endswith("Probe")
        for part in re.findall(r"#/\$defs/(\w+)", json.dumps(probe))
        if (keys := schema[part].get("properties"))
    }
    assert {"QuestionSettings", "Reader"} <= set(held)
    for part, keys in held.items():
        for key, facts in keys.items():
            assert any(
                line.startswith(f"| `{key}` |") and facts["description"] in line for line in page.splitlines()
            ), (
                part,
                key,
            )


def test_suites_of_the_instructions_are_suites() -> None:
    shown = [
        text
        for page in (ROOT / "docs" / "use").glob("*.md")
        for language, text in fences(page)
        if language == "yaml" and text.startswith("schema:")
    ]
    assert len(shown) >= 3
    for text in shown:
        name = re.findall(r"^suite: (\w+)$", text, re.MULTILINE)[0]
        assert load_text(text.encode(), Path(f"{name}.yaml"), shown=name).suite.checks
