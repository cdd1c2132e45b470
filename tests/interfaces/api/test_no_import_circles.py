"""Modules of the package form no circle: neither by imports nor through the names that registries hold as strings."""

from __future__ import annotations

import ast
from collections import defaultdict
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import fairgate

ROOT = Path(fairgate.__file__).parent
FILES = [path for path in ROOT.rglob("*.py*") if path.suffix in (".py", ".pyi")]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path) for path in FILES}
PACKAGES = {module_of(path.parent / "__init__.py") for path in FILES}


def named_in(path: Path) -> set[str]:
    """Modules that a file imports, anywhere in it and for types too, or names: whole, or after f"fairgate.PACKAGE."."""
    imported, texts = set(), set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = resolve_name("." * node.level + (node.module or ""), module_of(path.parent / "__init__.py"))
            whole = [f"{home}.{alias.name}" for alias in node.names]
            imported |= {name if name in MODULES else home for name in whole}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value.partition(":")[0])
    prefixes = {"", *(text for text in texts if text.endswith(".") and text[:-1] in PACKAGES - {"fairgate"})}
    named = {prefix + text for prefix in prefixes for text in texts} - PACKAGES  # by its name a package finds its files
    return (imported | named) & MODULES - {module_of(path)}


def test_no_module_imports_or_names_one_that_leads_back_to_it() -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        graph[module_of(path)] |= named_in(path)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names a circle
