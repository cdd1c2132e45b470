"""docs/architecture.md lists the rooms of import-linter; every file that it or a decision names is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from documents import ROOT, name_of

PAGE = ROOT / "docs" / "architecture.md"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
ROWS = re.findall(r"^\| `(\w+)/` \|(.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_rooms_are_those_of_import_linter_in_its_order() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (each["layers"] for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    rooms = [room.strip() for layer in layers for room in layer.split("|")]
    assert [*(room for room, _ in ROWS), "version"] == rooms


@pytest.mark.parametrize("page", [PAGE, *DECISIONS], ids=name_of)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(r"`((?:fairgate|tests|benchmarks)/[\w/.]+)`", page.read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(("room", "row"), ROWS, ids=[room for room, _ in ROWS])
def test_every_file_that_the_row_of_a_room_names_is_there(room: str, row: str) -> None:
    named = re.findall(r"`(\w[\w/]*(?:\.py|/))`", row)
    assert named
    assert [path for path in named if not (ROOT / "fairgate" / room / path).exists()] == []


def test_a_decision_is_short_and_has_its_three_parts() -> None:
    assert len(DECISIONS) == 10
    for page in DECISIONS:
        text = page.read_text(encoding="utf-8")
        assert len(text.split()) <= 300, page.name
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "Consequences"], page.name
