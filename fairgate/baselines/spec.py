"""Where a baseline comes from: a record on disk, a live checkpoint, or none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from fairgate.errors import BaselineError, did_you_mean

Kind = Literal["file", "model", "none"]


@dataclass(frozen=True, slots=True)
class BaselineSpec:
    """A parsed `--fairness-baseline`: `file:PATH`, `model:URI` or `none`."""

    kind: Kind
    target: str = ""

    def __str__(self) -> str:
        return self.kind if self.kind == "none" else f"{self.kind}:{self.target}"


def parse_baseline(text: str) -> BaselineSpec:
    """Parse a baseline option. Raises BaselineError for a kind that is not known."""
    kind, _, target = text.partition(":")
    if kind == "none" and not target:
        return BaselineSpec("none")
    if kind in ("file", "model") and target:
        return BaselineSpec("file" if kind == "file" else "model", target)
    near = did_you_mean(kind, get_args(Kind))
    raise BaselineError(
        f"'{text}' is not a baseline.",
        where="--fairness-baseline",
        remedy=" ".join(
            filter(None, [near, "write file:PATH (a results.json or its folder), model:URI (a checkpoint), or none"])
        ),
    )


def record_files(target: str, root: Path) -> tuple[Path, Path]:
    """`results.json` and `scores.parquet` of a `file:` baseline. Raises BaselineError when one is missing."""
    path = root / target
    results = path if path.suffix == ".json" else path / "results.json"
    scores = results.with_name("scores.parquet")
    for file in (results, scores):
        if not file.is_file():
            raise BaselineError(
                f"the baseline lacks {file.name}.",
                where=str(file),
                remedy="make one with `fairgate check SUITE --model URI --baseline none --report DIR`; keep it whole",
            )
    return results, scores
