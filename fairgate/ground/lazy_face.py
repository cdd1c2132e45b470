"""Faces of packages whose names are imported on first use: start-up imports only what a command needs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from fairgate.ground.spans import span


def lazy_face(package: str, file: str) -> tuple[Callable[[str], Any], list[str]]:
    """The `__getattr__` and `__all__` of a package whose stub, `__init__.pyi`, says which module each name is from.

    Type checkers read the same stub. Written here and not taken from a library, because the workflow that renders
    strangers' reports installs as little as can be.
    """
    homes = homes_of(package, Path(file).with_suffix(".pyi"))

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, own = homes[name]
        with span("import"):
            thing = getattr(import_module(module), own)
        setattr(sys.modules[package], name, thing)
        return thing

    return load, list(homes)


def homes_of(package: str, stub: Path) -> dict[str, tuple[str, str]]:
    """Every name of a lazy face, with the module that its stub takes it from and its name there."""
    taken = [node for node in ast.parse(stub.read_bytes()).body if isinstance(node, ast.ImportFrom)]
    return {
        alias.asname or alias.name: (f"{package}." * node.level + str(node.module), alias.name)
        for node in taken
        for alias in node.names
    }
