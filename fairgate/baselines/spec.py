"""Where a baseline comes from: a record on disk, at the merge base or in MLflow, a live checkpoint, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from fairgate.errors import BaselineError, did_you_mean

Kind = Literal["git", "file", "mlflow", "model", "none"]

_KINDS = (
    "write git:REF (the baseline committed at the merge base), file:PATH (a results.json or its folder), "
    "mlflow:latest, mlflow:RUN_ID, model:URI (a checkpoint), or none"
)


@dataclass(frozen=True, slots=True)
class BaselineSpec:
    """A parsed `--fairness-baseline`: `git:REF`, `file:PATH`, `mlflow:latest|RUN_ID`, `model:URI` or `none`."""

    kind: Kind
    target: str = ""

    def __str__(self) -> str:
        return self.kind if self.kind == "none" else f"{self.kind}:{self.target}"


def parse_baseline(text: str, where: str = "--fairness-baseline") -> BaselineSpec:
    """Parse a baseline option. Raises BaselineError for a kind that is not known."""
    kind, _, target = text.partition(":")
    known = {name: name for name in get_args(Kind)}
    if kind in known and bool(target) == (kind != "none"):
        return BaselineSpec(known[kind], target)
    near = did_you_mean(kind, known) if kind not in known else None
    raise BaselineError(f"'{text}' is not a baseline.", where=where, remedy=" ".join(filter(None, [near, _KINDS])))
