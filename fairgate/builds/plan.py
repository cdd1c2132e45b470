"""What a part's shards depend on (settings, models, inputs, code), as a digest: when it changes, they are stale."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import fairgate
from fairgate.errors import RecipeError
from fairgate.hashing import digest, sha256_file
from fairgate.models.files import read_config
from fairgate.models.hub import model_folder
from fairgate.models.making import ADAPTERS, Role, full_uri, open_model
from fairgate.recipes import Part, Recipe

_COUNTED = (
    *("fairgate.recipes.", "fairgate.steps.", "fairgate.models.", "fairgate.portraits.", "fairgate.randomness"),
    *(f"fairgate.data.{each}" for each in ("coco", "labels", "photographs", "pixels", "rows")),
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
            waiting.extend(each for each in _imports(path) if each.startswith(_COUNTED))
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


FORMAT = 1
"""Raised when shards are stored otherwise than before."""
_ABOUT = ("name", "licence", "notice")
"""Knobs that change the manifest and nothing else."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What all parts of a build stand on: the recipe, its models' and files' digests, its code, its limit."""

    recipe: Recipe
    models: Mapping[str, str]
    inputs: Mapping[str, str]
    code: str
    limit: int | None = None

    @classmethod
    def of(cls, recipe: Recipe, limit: int | None = None) -> Ground:
        """Hashes the files of every model and input. Raises ModelError or RecipeError for one that is not there."""
        models = {role: model_fingerprint(role, uri) for role, uri in recipe.models().items()}
        inputs = {name: _input_digest(name, path) for name, path in recipe.inputs().items()}
        return cls(recipe, models, inputs, code_digest(recipe), limit)

    def plan(self, part: Part, subject: str, before: str) -> dict[str, Any]:
        """Everything that a shard of a part depends on, as plain data; `before` names what the part before chose."""
        knobs = self.recipe.knobs.of_subject(subject).model_dump(mode="json")
        return {
            "format": FORMAT,
            "recipe": self.recipe.name,
            "part": part.name,
            "subject": subject,
            "knobs": {name: value for name, value in knobs.items() if name not in (*_ABOUT, *part.ignores)},
            "models": {role: found for role, found in self.models.items() if role not in part.ignores},
            "inputs": dict(self.inputs),
            "code": self.code,
            "before": before,
            "limit": self.limit,
        }


def plan_digest(plan: Mapping[str, Any]) -> str:
    """The plan's name."""
    return digest(dict(plan))


def what_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """In words, what makes shards of an old plan stale.

    >>> what_changed({"knobs": {"seed": 0}, "code": "a"}, {"knobs": {"seed": 1}, "code": "a"})
    'knobs seed'
    """
    told = []
    for name in new:
        was, now = old.get(name), new[name]
        if was == now:
            continue
        if isinstance(was, dict) and isinstance(now, dict):
            differing = sorted(key for key in {*was, *now} if was.get(key) != now.get(key))
            told.append(f"{name} {', '.join(differing)}")
        else:
            told.append({"before": "what the part before chose", "code": "the recipe's code"}.get(name, name))
    return "; ".join(told)


def model_fingerprint(role: str, uri: str) -> str:
    """Digest over the files that are loaded for a model's URI, taken without loading them where they can be found.

    Raises ModelError where the model is not there.
    """
    scheme, _, address = full_uri(uri).partition(":")
    if scheme == "hf" and address:
        return _hf_fingerprint(address, uri)
    for path in (address, address.rpartition(":")[2]):
        if path and Path(path).exists():
            return _files_digest(Path(path))
    if role not in get_args(Role):
        raise RecipeError(
            f"the model '{uri}' is no file or folder of this machine, and '{role}' is no role that could open it.",
            where=f"the recipe's models: {role}",
            remedy=f"check the path; roles: {', '.join(get_args(Role))}",
        )
    opened: str = open_model(role, uri).fingerprint  # type: ignore[arg-type] # one of them, as was just seen
    return opened


def _hf_fingerprint(address: str, uri: str) -> str:
    """Of a pipeline of diffusers or a folder of transformers; other files beside theirs do not count."""
    from fairgate.models.adapters.diffusion_files import Address, find_pipeline
    from fairgate.models.adapters.transformers_folder import find_folder

    main, _, options = address.partition("?")
    folder = model_folder(main, Path())
    if options or (folder / "model_index.json").is_file():
        named = Address.of(address, uri)
        found = {"base": find_pipeline(named, Path())}
        if named.refiner:
            found["refiner"] = find_pipeline(Address(named.refiner, variant=named.variant), Path())
        return digest({which: each.files.fingerprint() for which, each in found.items()})
    config = folder / "config.json"
    kind = read_config(config).get("model_type") if config.is_file() else None
    return find_folder(folder, (str(kind),), tokenizer=False, pickled=True).fingerprint


def _files_digest(path: Path) -> str:
    if path.is_file():
        return sha256_file(path)
    files = sorted(each for each in path.rglob("*") if each.is_file())
    return digest({str(each.relative_to(path)): sha256_file(each) for each in files})


def _input_digest(name: str, path: Path) -> str:
    if not path.exists():
        raise RecipeError(
            f"the recipe reads '{name}', and it is not there.",
            where=str(path),
            remedy="check the path; if DVC tracks it, run `dvc pull`",
        )
    return _files_digest(path)
