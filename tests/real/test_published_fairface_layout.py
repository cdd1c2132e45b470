"""FairFace as `fairgate dataset get` reads it, on the real labels and photographs that are here."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path

import pytest
from fairface import PHOTOGRAPHS, SCORES

from fairgate.data.published import get_published
from fairgate.data.published.fairface import COUNTS

pytestmark = pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason="the photographs are not beside this checkout")


def labels() -> list[dict[str, str]]:
    with gzip.open(SCORES / "fairface_val_labels.csv.gz", "rt", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def test_the_sizes_of_groups_are_those_of_the_authors_table() -> None:
    rows = labels()
    assert {name: dict(Counter(row[name] for row in rows)) for name in COUNTS} == COUNTS


def test_real_photographs_in_the_authors_layout_become_a_release(tmp_path: Path) -> None:
    here = {path.name for path in PHOTOGRAPHS.glob("*.jpg")}
    mine = [row for row in labels() if Path(row["file"]).name in here]
    (tmp_path / "given" / "val").mkdir(parents=True)
    for row in mine:
        (tmp_path / "given" / row["file"]).write_bytes((PHOTOGRAPHS / Path(row["file"]).name).read_bytes())
    with (tmp_path / "given" / "fairface_label_val.csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(mine[0]))
        writer.writeheader()
        writer.writerows(mine)
    made = get_published("fairface", tmp_path / "cache", folder=tmp_path / "given", root=tmp_path / "datasets")
    assert made.manifest.n_rows == len(here) == 252
    assert set(made.manifest.counts.intersections["race × gender"].values()) == {18}
    assert made.manifest.image_encoding == "JPEG"
