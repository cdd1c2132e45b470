"""Ten vision-language models on pairs of occupations: the overall scores of GenderBias-VL, to their last digit."""

from __future__ import annotations

import numpy as np
import pytest
from outputs import OUTPUTS, rows_of

from fairgate.formulas.metrics import group_means

FOLDER = OUTPUTS / "genderbias_vl"
CONTEXTS = ("VL", "V", "L")
NUMBERS = ("ipss", "bias", "acc")

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the published table is not next to this checkout")


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_overall_table_follows_from_the_pairs_in_both_orders_of_options(context: str) -> None:
    """Both orders are averaged, rounded to two digits, and then meant over pairs; of the bias, its size."""
    rows = list(rows_of(FOLDER / f"{context}bias_pairs.csv.gz"))
    published = {row["model_name"]: row for row in rows_of(FOLDER / "overall_published.csv")}
    names = list(published)
    pairs = {key: number for number, key in enumerate(dict.fromkeys(map(pair_of, rows)))}
    pair = np.array([pairs[pair_of(row)] for row in rows])
    model = np.array([names.index(key[0]) for key in pairs])
    for name in NUMBERS:
        orders = group_means(np.array([float(row[name]) for row in rows]), pair, len(pairs))
        assert set(orders.counts.tolist()) == {2}
        values = np.round(orders.mean, 2)
        overall = group_means(np.abs(values) if name == "bias" else values, model, len(names))
        assert set(overall.counts.tolist()) == {486}
        wanted = [published[one][f"{context}bias_{name}_ovl"] for one in names]
        assert [f"{value:.2f}" for value in overall.mean] == wanted, name


def pair_of(row: dict[str, str]) -> tuple[str, str, str]:
    return row["model"], row["occtm"], row["occtf"]
