"""Arrays as a small repository in a folder: a release of labels, two tables of numbers, and a suite for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from fairgate import data, suites
from fairgate.ground.errors import SettingsError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_RANKS = 0.5
"""Margin of agreement in ranks of numbers that nearly all differ: one number for everybody loses 1, another training of
the same model far less."""


def write_repository(
    root: Path,
    scores: ArrayLike,
    baseline: ArrayLike,
    groups: Mapping[str, ArrayLike] | ArrayLike,
    *,
    margin: float,
    min_sets: int,
) -> None:
    """Write the suite `arrays` for two arrays, (images,), and one or several of groups. Raises SettingsError."""
    import pandas as pd

    now, before = _numbers("scores", scores), _numbers("baseline", baseline)
    given = groups if isinstance(groups, Mapping | pd.DataFrame) else {"group": groups}
    columns = {str(name): np.asarray(column).astype(str) for name, column in given.items()}
    for name, column in {"baseline": before, **columns}.items():
        if column.shape != now.shape:
            raise SettingsError(
                f"'{name}' has the shape {column.shape}, and scores have {now.shape}.",
                where="check_arrays",
                remedy="give one entry for every image, in the same order",
            )
    files = [f"{row:07d}" for row in range(len(now))]
    columns_of = data.ImportColumns({name: [] for name in columns}, "image", image="file")
    plan = data.plan_import(pd.DataFrame({"file": files, **columns}), None, columns_of, data.ColumnGrouping({}, {}))
    plan.write("arrays", root=root / data.FOLDER)
    for name, numbers in (("scores", now), ("baseline", before)):
        pd.DataFrame({"file": files, "number": numbers}).to_csv(root / f"{name}.csv", index=False)
    (root / suites.FOLDER).mkdir()
    right = all(array.min() >= 0 and array.max() <= 1 for array in (now, before))
    text = yaml.safe_dump(_suite(list(columns.values()), margin, min_sets, right=right), sort_keys=False)
    (root / suites.FOLDER / "arrays.yaml").write_text(text, encoding="utf-8")


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty((0, 0))
    if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
        raise SettingsError(
            f"'{name}' is not a number for every image.",
            where="check_arrays",
            remedy="give one finite number per image: 1 or 0 for a right or wrong answer, or P(true label)",
        )
    return numbers


def _suite(columns: list[NDArray[Any]], margin: float, min_sets: int, *, right: bool) -> dict[str, Any]:
    """Groups are crossed if every crossing can be judged. Numbers between 0 and 1 say how right a model is: it is of
    use as long as it is right; with other numbers, as long as they rank images as before."""
    cells = np.unique(np.stack(columns), axis=1, return_counts=True)[1]
    crossed = len(cells) == np.prod([len(np.unique(column)) for column in columns]) and cells.min() >= min_sets
    useful, mean = ("right_share", "right_share") if right else ("number_agreement", "mean_number")
    compared = {"probe": "scores", "no_worse_than": "baseline"}
    over = "crossed" if len(columns) > 1 and crossed else "each"
    return {
        "schema": 1,
        "suite": "arrays",
        "dataset": "arrays",
        "model": "numbers:scores.csv",
        "baseline": "model:numbers:baseline.csv",
        "groups": {"min_sets": min_sets},
        "probes": {"scores": {"kind": "number"}},
        "checks": [
            {"id": "still-useful", "metric": useful, **compared, "margin": margin if right else _RANKS},
            {"id": "no-group-loses", "metric": mean, "over": over, **compared, "margin": margin},
        ],
    }
