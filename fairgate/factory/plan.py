"""What a part's shards depend on, as a digest: when it changes, they are stale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.errors import RecipeError
from fairgate.factory.code import code_digest
from fairgate.generation.fingerprints import files_digest, model_fingerprint
from fairgate.hashing import digest
from fairgate.recipes import Part, Recipe

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


def _input_digest(name: str, path: Path) -> str:
    if not path.exists():
        raise RecipeError(
            f"the recipe reads '{name}', and it is not there.",
            where=str(path),
            remedy="check the path; if DVC tracks it, run `dvc pull`",
        )
    return files_digest(path)
