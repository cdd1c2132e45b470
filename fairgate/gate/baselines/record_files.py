"""The two files of a saved record, results.json and scores.parquet, from a folder or a commit."""

from __future__ import annotations

from pathlib import Path

from fairgate.gate.baselines.git import Repository
from fairgate.gate.baselines.tracked import check_out, pointers_over
from fairgate.ground.errors import BaselineError
from fairgate.records import RESULTS, SCORES, RecordFiles

_MAKE_ONE = "make one with `fairgate baseline update {} --reason TEXT` and commit it"


def baseline_folder(suite: str) -> str:
    """Where a suite's baseline is committed."""
    return f"fairness_suites/baselines/{suite}"


def record_in_folder(target: str, root: Path) -> RecordFiles:
    """The files of a `file:` baseline, a results.json or its folder. Raises BaselineError when one is missing."""
    path = root / target
    results = path if path.suffix == ".json" else path / RESULTS
    scores = results.with_name(SCORES)
    for file in (results, scores):
        if file.is_file():
            continue
        pointer = file.with_name(f"{file.name}.dvc")
        fetch = (
            f"fetch it: `fairgate dataset pull {pointer}`"
            if pointer.is_file()
            else f"{_MAKE_ONE.format('SUITE')}; keep it whole"
        )
        raise BaselineError(f"the baseline lacks {file.name}.", where=str(file), remedy=fetch)
    return RecordFiles(results, scores)


def record_in_git(repository: Repository, commit: str, folder: str, into: Path) -> RecordFiles:
    """The files that were committed at a commit, by git itself or, for large scores, by DVC, written to `into`.

    Raises BaselineError when the commit has none, and when `into` cannot be written.
    """
    try:
        for name in (RESULTS, SCORES):
            content = repository.read(commit, f"{folder}/{name}")
            if content is not None:
                (into / name).write_bytes(content)
            elif pointers_over(repository, f"{folder}/{name}", commit):
                check_out(repository, commit, f"{folder}/{name}", into / "dvc")
                (into / "dvc" / folder / name).rename(into / name)
            else:
                merge = "merge the one that this change adds, reviewed: later changes are compared with it"
                here = (repository.root / folder / RESULTS).is_file()
                raise BaselineError(
                    f"no baseline is committed there: commit {commit[:7]} lacks {folder}/{name}.",
                    where=f"{folder} at {commit[:7]}",
                    remedy=merge if here else f"on the main branch, {_MAKE_ONE.format(Path(folder).name)}",
                )
    except OSError as error:
        raise BaselineError(
            f"the baseline could not be brought to this disk: {error.strerror or error}.",
            where=str(into),
            remedy="make room there, or set TMPDIR to a folder that can be written",
        ) from error
    return RecordFiles(into / RESULTS, into / SCORES, commit, f"{folder} at {commit[:7]}")
