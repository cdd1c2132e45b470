"""Named roots: folders of the machine that runs fairgate, for models that no repository holds (`hf:@models/clip`).

`@models/clip` is `clip` in the folder that the environment variable FAIRGATE_ROOT_MODELS names. Nothing of the
repository says where a root is: a branch that could would choose what the machine reads. A record holds the name,
`@models/clip`, and the fingerprint of the files. And the repository whose models are judged: a branch decides what lies
in it, and it is never the machine's.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from fairgate.ground.errors import ModelError, listed, suggestion

PREFIX = "FAIRGATE_ROOT_"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_JUDGED: ContextVar[Path | None] = ContextVar("judged", default=None)


def is_rooted(address: str | Path) -> bool:
    """Whether a path of a URI is under a root; a folder of the repository that is called so is `./@models`."""
    return str(address).startswith("@")


def rooted_path(address: str, base: Path) -> Path:
    """The path that `@ROOT/PATH` names on this machine; `base` is the repository, which a root is no part of.

    Raises ModelError for a root that is not set, is no absolute path of a folder, or lies in the repository, for a
    path that leaves it, by `..` or through a link, and, where the root is above the repository, for one that leads
    into that, or holds it.
    """
    name, _, rest = address.removeprefix("@").partition("/")
    root, repositories = _root(name, address), [base.resolve(), *repositories_of(base)]
    if any(map(root.is_relative_to, repositories)):
        raise ModelError(
            f"the root '{name}' lies in the repository, where a branch decides what it holds.",
            where=f"{PREFIX}{name.upper()}",
            remedy="name the path itself, without a root, or keep the models in a folder elsewhere",
        )
    path = root / rest
    if ".." in Path(rest).parts or rest.startswith("/") or not path.resolve().is_relative_to(root):
        raise ModelError(
            f"the path leaves the root '{name}', by `..` or through a link.",
            where=address,
            remedy="name a file or folder that lies in the root itself",
        )
    real = path.resolve()
    if any(real.is_relative_to(one) or one.is_relative_to(real) for one in repositories):
        raise ModelError(
            f"the path leads from the root '{name}' to the repository, where a branch decides what there is.",
            where=address,
            remedy="name the path in the repository itself, without a root, or keep the model in a folder elsewhere",
        )
    return path


def _root(name: str, address: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ModelError(
            f"'@{name}' names no root: small letters, digits and `_` do.",
            where=address,
            remedy=f"write @models/PATH, with {PREFIX}MODELS set to a folder; a path of this name is ./@{name}",
        )
    variable = f"{PREFIX}{name.upper()}"
    folder = os.environ.get(variable, "")
    if not folder:
        known = sorted(key.removeprefix(PREFIX).lower() for key in os.environ if key.startswith(PREFIX))
        has = f"it has {listed([f'@{each}' for each in known])}" if known else "it has none"
        raise ModelError(
            f"the root '{name}' is not set on this machine ({has}).",
            where=address,
            remedy=suggestion(
                name, known, f"set it where fairgate runs, to the folder that holds the models: {variable}=/path/of/it"
            ),
        )
    if not Path(folder).is_absolute() or not Path(folder).is_dir():
        raise ModelError(
            f"the root '{name}' is '{folder}', which is no folder."
            if Path(folder).is_absolute()
            else f"the root '{name}' is '{folder}', which depends on the folder that fairgate is started in.",
            where=variable,
            remedy=f"set {variable} to the absolute path of a folder",
        )
    return Path(folder).resolve()


@contextlib.contextmanager
def judging(root: Path) -> Iterator[None]:
    """While a checkpoint is opened from a copy (a baseline's, in a scratch folder): `root` is what it is a copy of."""
    token = _JUDGED.set(root)
    try:
        yield
    finally:
        _JUDGED.reset(token)


def repositories_of(base: Path) -> list[Path]:
    """The tops of the git work trees that hold `base`, and what it is a copy of; without git, none."""
    found = (_work_tree(one) for one in (base, _JUDGED.get()) if one is not None)
    return [top for top in found if top is not None]


def _work_tree(folder: Path) -> Path | None:
    real = folder.resolve()
    return next((top for top in (real, *real.parents) if (top / ".git").exists()), None)
