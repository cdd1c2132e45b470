"""The version of the code that a recipe runs: a digest over what its modules do, not over how they are written."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import fairgate
from fairgate.generation import full_uri
from fairgate.generation.registry import ADAPTERS
from fairgate.hashing import digest
from fairgate.recipes import Recipe

_COUNTED = (
    *("fairgate.recipes.", "fairgate.steps.", "fairgate.checkpoints.", "fairgate.models."),
    *("fairgate.generation.", "fairgate.portraits.", "fairgate.randomness."),
    *(f"fairgate.data.{each}." for each in ("coco", "labels", "photographs", "pixels", "rows")),
)
"""What decides what a shard holds. The rest carries sets from one place to another."""


def code_digest(recipe: Recipe) -> str:
    """Digest over the recipe's module, the adapters of its models, and what they import of fairgate's making.

    Comments, docstrings and layout do not enter. Python's own version may: it spells the parsed code.
    """
    return digest({name: _meaning(path) for name, path in sorted(code_modules(recipe).items())})


def code_modules(recipe: Recipe) -> dict[str, Path]:
    """The modules that count, by name, with their files."""
    start = type(recipe).__module__
    adapters = {
        ADAPTERS[key]
        for uri in recipe.models().values()
        for key in ADAPTERS
        if key[0] == full_uri(uri).partition(":")[0]
    }
    return _reached([start, *sorted(adapters)])


def _reached(names: Iterable[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        path = None if name in found else _source(name)
        if path is not None:
            found[name] = path
            waiting.extend(each for each in _imports(path) if f"{each}.".startswith(_COUNTED))
    return found


def _source(name: str) -> Path | None:
    """The file of a module; None for what is none (an imported function), or is not there. Nothing is imported."""
    package, _, rest = name.partition(".")
    if package == "fairgate":
        place = Path(fairgate.__file__).parent.joinpath(*rest.split("."))
        return next((each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()), None)
    file = getattr(sys.modules.get(name), "__file__", None)
    return Path(file) if file else None


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _meaning(path: Path) -> str:
    """The code as Python would write it, without docstrings."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_text(each)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
