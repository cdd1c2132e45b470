"""What a room gives to other rooms, it gives by a face: nothing imports past the `__init__` of a folder.

A room's face is its own `__init__`, or that of a folder directly inside it. In ground each module is a face.
"""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path

import pytest

import fairgate

pytestmark = pytest.mark.xdist_group("training")  # the face of integrations imports lightning

ROOT = Path(fairgate.__file__).parent
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
FACES = sorted(".".join(path.parent.relative_to(ROOT).parts) for path in ROOT.glob("*/**/__init__.py"))


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


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "ground"])
def test_no_other_room_imports_past_a_face_of(room: str) -> None:
    faces = {f"fairgate.{face}" for face in FACES if face.count(".") < 2}
    assert [
        (path, module)
        for path, module in imports()
        if path.parts[0] != room and module.startswith(f"fairgate.{room}.") and module not in faces
    ] == []


@pytest.mark.parametrize("package", FACES)
def test_every_name_of_the_face_is_there_and_no_module_hides_it_of(package: str) -> None:
    face = importlib.import_module(f"fairgate.{package}")
    names = getattr(face, "__all__", [])
    assert [name for name in names if not hasattr(face, name)] == []
    assert set(names) & {path.stem for path in (ROOT / package.replace(".", "/")).iterdir()} == set()
