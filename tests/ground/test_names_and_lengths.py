"""A class name means one thing in the whole package."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import fairgate


def test_no_two_public_classes_have_one_name() -> None:
    modules = [ast.parse(path.read_bytes()) for path in Path(fairgate.__file__).parent.rglob("*.py")]
    classes = [node.name for tree in modules for node in tree.body if isinstance(node, ast.ClassDef)]
    assert [name for name, count in Counter(classes).items() if count > 1 and not name.startswith("_")] == []


def test_no_file_of_the_package_has_more_than_350_lines() -> None:
    root = Path(fairgate.__file__).parent
    lengths = {path.relative_to(root).as_posix(): path.read_bytes().count(b"\n") for path in root.rglob("*.py")}
    assert {name: lines for name, lines in lengths.items() if lines > 350} == {}
