"""The demonstration data registers by entry points, and the rest of fairgate does not know it."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "fairgate"


def test_no_other_file_names_the_embedded_world_not_even_in_a_string() -> None:
    others = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    naming = [path for path in others if b"portraits" in path.read_bytes()]
    assert {path.relative_to(PACKAGE).parts[0] for path in naming} == {"portraits"}


def test_what_it_registers_is_installed_and_loads() -> None:
    declared = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]["entry-points"]
    for group in ("fairgate.commands", "fairgate.roles"):
        installed = {entry.name: entry for entry in metadata.entry_points(group=group)}
        for name, value in declared[group].items():
            assert installed[name].value == value, "install fairgate again: pip install --no-deps -e ."
            assert callable(installed[name].load())
