"""What a suite may name: files of its own repository. A pull request writes suites, and what they name is reported."""

from __future__ import annotations

import re
from pathlib import Path

from fairgate.errors import SuiteError
from fairgate.models import local_path
from fairgate.suites.schema import Suite
from fairgate.suites.source import Source

# DVC can link what it tracks to a cache elsewhere; there, files are named by their content
_DVC_CACHE = re.compile(r"/files/md5/[0-9a-f]{2}/[0-9a-f]{30}$")


def require_inside(suite: Suite, source: Source, root: Path) -> None:
    """Raise SuiteError where the suite's model, baseline or anchor is a file outside of the repository, by `..`, as an
    absolute path or through a link. Whoever types a URI on the command line may name any file of theirs."""
    for key, text in (("model", suite.model), ("baseline", suite.baseline), ("anchor", suite.anchor)):
        if text is not None and any(leaves(path, root) for path in named_files(text)):
            option = "baseline" if key == "anchor" else key
            raise SuiteError(
                f"`{key}` names a file outside of the repository, which a suite may not.",
                where=source.where((key,)),
                remedy=f"put it into the repository (DVC can track it), or type it: --fairness-{option} '{text}'",
            )


def named_files(text: str) -> list[Path]:
    """The files and folders that a model URI or a baseline names; of a record, its two files."""
    kind, _, target = text.partition(":")
    if kind == "file":
        path = Path(target)
        return [path, path / "results.json", path / "scores.parquet", path.parent / "scores.parquet"]
    named = local_path(target if kind == "model" else text)
    return [] if named is None else [named]


def leaves(path: Path | None, root: Path) -> bool:
    """Whether a path, as it is written or through links, leads out of a repository."""
    if path is None:
        return False
    if path.parts[:1] and path.parts[0].startswith("~"):
        return True
    try:
        real = (root / path).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL: opening it says what is wrong
        return False
    return not real.is_relative_to(root.resolve()) and not (
        _DVC_CACHE.search(real.as_posix()) and not path.is_absolute()
    )
