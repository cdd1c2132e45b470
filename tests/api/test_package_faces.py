"""What a package gives to other packages, it gives by its face: nothing imports past another package's `__init__`."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path

import pytest

import fairgate

ROOT = Path(fairgate.__file__).parent
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


@cache
def imports() -> list[tuple[Path, str]]:
    """Every file of the package with each module that it imports, or imports from."""
    found = []
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found += [(path.relative_to(ROOT), alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.append((path.relative_to(ROOT), node.module))
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_no_other_package_imports_past_the_face_of(package: str) -> None:
    inside = f"fairgate.{package}."
    assert [each for each in imports() if each[0].parts[0] != package and each[1].startswith(inside)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_the_face_is_there_and_no_module_hides_it_of(package: str) -> None:
    face = importlib.import_module(f"fairgate.{package}")
    names = getattr(face, "__all__", [])
    assert [name for name in names if not hasattr(face, name)] == []
    assert set(names) & {path.stem for path in (ROOT / package).iterdir()} == set()
