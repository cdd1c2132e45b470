"""What a part's shards depend on (settings, models, inputs, code), as a digest: when it changes, they are stale."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fairgate.builds.recipes import Part, Recipe
from fairgate.ground.errors import FairgateError, ModelError, RecipeError
from fairgate.ground.hashing import digest
from fairgate.ground.lazy_face import homes_of
from fairgate.models.generation import files_digest, model_fingerprint, modules_for

_COUNTED = (
    *("fairgate.builds.recipes.", "fairgate.builds.steps.", "fairgate.models.", "fairgate.formulas.metrics."),
    *("fairgate.ground.randomness.", "fairgate.ground.pixels."),
    *("fairgate.data.coco.", "fairgate.data.labels.", "fairgate.data.rows."),
)
"""What decides what a shard holds, with the packages of the recipe and of the adapters. The rest carries sets from one
place to another."""


def code_digest(recipe: Recipe) -> str:
    """Digest over the recipe's module, the adapters of its models, and what they import of fairgate's making.

    Comments, docstrings, layout, imports and modules do not enter: a definition that moves makes nothing stale.
    Python's own version may enter: it spells the parsed code.
    """
    return digest(sorted(set().union(*map(_statements, code_modules(recipe).values()))))


def code_modules(recipe: Recipe) -> dict[str, Path]:
    """The modules that count, by name, with their files."""
    modules: dict[str, Path] = {}
    waiting = [type(recipe).__module__, *(each for uri in recipe.models().values() for each in modules_for(uri))]
    counted = (*_COUNTED, *(f"{name.rpartition('.')[0] or name}." for name in waiting))
    while waiting:
        name = waiting.pop()
        path = None if name in modules else _source(name)
        if path is not None:
            modules[name] = path
            waiting.extend(each for each in _imports(path) if f"{each}.".startswith(counted))
    return modules


def _source(name: str) -> Path | None:
    """The file of a module; None for what is none (an imported function), or is not there. Nothing is imported."""
    package, _, rest = name.partition(".")
    if package == "fairgate":
        place = Path(__file__).parents[1].joinpath(*rest.split("."))
        return next((each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()), None)
    file = getattr(sys.modules.get(name), "__file__", None)
    return Path(file) if file else None


@cache
def _imports(path: Path) -> list[str]:
    names: list[str] = []
    packages: dict[str, str] = {}
    for node in ast.walk(ast.parse(path.read_bytes())):  # level by level: imports before what they are used in
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            homes = _homes(node.module)
            named = [homes.get(alias.name, (f"{node.module}.{alias.name}",))[0] for alias in node.names]
            names += [node.module, *named]
            packages |= {alias.asname or alias.name: each for alias, each in zip(node.names, named, strict=True)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in packages:
            names += _homes(packages[node.value.id]).get(node.attr, ())[:1]
    return names


@cache
def _homes(package: str) -> dict[str, tuple[str, str]]:
    """The modules that a package's lazy face takes its names from, as its stub says; none for another module."""
    path = _source(package)
    stub = path.with_suffix(".pyi") if path else None
    return homes_of(package, stub) if stub and stub.is_file() else {}


@cache
def _statements(path: Path) -> frozenset[str]:
    """A module's statements as Python would write them. What it imports counts by its own code."""
    module = _Meaning().visit(ast.parse(path.read_bytes()))
    return frozenset(ast.unparse(statement) for statement in module.body)


class _Meaning(ast.NodeTransformer):
    """Leaves out docstrings and imports. A body that has nothing else becomes `pass`."""

    def visit(self, node: ast.AST) -> Any:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if text or isinstance(node, ast.Import | ast.ImportFrom):
            return None
        self.generic_visit(node)
        if getattr(node, "body", None) == []:
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
        return node


@dataclass(frozen=True, slots=True)
class Dependency:
    """A model or a file that a recipe reads: `parts` use it; `digest` is empty where there is a `problem`."""

    name: str
    source: str
    parts: tuple[str, ...]
    model: bool
    digest: str = ""
    problem: FairgateError | None = None


def dependencies_of(recipe: Recipe) -> list[Dependency]:
    """Everything that a recipe reads, models first, hashed where it is there."""
    needs = []
    for role, uri in recipe.models().items():
        parts = tuple(part.name for part in recipe.parts() if role not in part.ignores)
        try:
            needs.append(Dependency(role, uri, parts, True, model_fingerprint(role, uri)))
        except (ModelError, RecipeError) as error:
            needs.append(Dependency(role, uri, parts, True, problem=error))
    every = tuple(part.name for part in recipe.parts())
    for name, path in recipe.inputs().items():
        missing = None
        if not path.exists():
            missing = RecipeError(
                f"the recipe reads '{name}', and it is not there.",
                where=str(path),
                remedy="check the path; if DVC tracks it, run `dvc pull`",
            )
        needs.append(Dependency(name, str(path), every, False, "" if missing else files_digest(path), missing))
    return needs


FORMAT = 1
"""Raised when shards are stored otherwise than before."""
_ABOUT = ("name", "licence", "notice")
"""Settings that change the manifest and nothing else."""
_SHOWN = {"knobs": "settings", "before": "what the part before chose", "code": "the recipe's code"}
"""Keys of a plan as messages name them; stored plans and manifests call the settings `knobs`."""


@dataclass(frozen=True, slots=True)
class BuildDependencies:
    """What all parts of a build depend on: the recipe, the digests of its models, files and code, its limit."""

    recipe: Recipe
    models: Mapping[str, str]
    inputs: Mapping[str, str]
    code: str
    limit: int | None = None

    @classmethod
    def of(cls, recipe: Recipe, limit: int | None = None, last: str | None = None) -> BuildDependencies:
        """Hashes the files of every input, and of the models that the parts up to `last` use (None: of every model).

        Raises ModelError or RecipeError for one that is not there, and names all of several.
        """
        names, needs = [part.name for part in recipe.parts()], dependencies_of(recipe)
        if last is not None:
            begun = names[: names.index(last) + 1]
            needs = [each for each in needs if not each.model or not set(begun).isdisjoint(each.parts)]
        missing = [(each, each.problem) for each in needs if each.problem is not None]
        if missing:
            first = missing[0][1]
            if len(missing) == 1:
                raise first
            named = ", ".join(f"{each.name} ({each.source})" for each, _ in missing)
            raise type(first)(
                f"the recipe '{recipe.name}' reads {len(missing)} things that cannot be used: {named}.",
                where=first.where,
                remedy="`fairgate build preflight` with the build's name says of each what to do. The first: "
                f"{first.remedy}",
            )
        digests = {each.name: each.digest for each in needs}
        models = {role: digests[role] for role in recipe.models() if role in digests}
        inputs = {name: digests[name] for name in recipe.inputs()}
        return cls(recipe, models, inputs, code_digest(recipe), limit)

    def plan(self, part: Part, subject: str, before: str) -> dict[str, Any]:
        """Everything that a shard of a part depends on, as plain data; `before` names what the part before chose."""
        settings = self.recipe.settings.of_subject(subject).model_dump(mode="json")
        return {
            "format": FORMAT,
            "recipe": self.recipe.name,
            "part": part.name,
            "subject": subject,
            "knobs": {name: value for name, value in settings.items() if name not in (*_ABOUT, *part.ignores)},
            "models": {role: fingerprint for role, fingerprint in self.models.items() if role not in part.ignores},
            "inputs": dict(self.inputs),
            "code": self.code,
            "before": before,
            "limit": self.limit,
        }


def what_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """In words, what makes shards of an old plan stale.

    >>> what_changed({"knobs": {"seed": 0}, "code": "a"}, {"knobs": {"seed": 1}, "code": "a"})
    'settings seed'
    """
    changes = []
    for name in new:
        was, now = old.get(name), new[name]
        if was == now:
            continue
        if isinstance(was, dict) and isinstance(now, dict):
            differing = sorted(key for key in {*was, *now} if was.get(key) != now.get(key))
            changes.append(f"{_SHOWN.get(name, name)} {', '.join(differing)}")
        else:
            changes.append(_SHOWN.get(name, name))
    return "; ".join(changes)
