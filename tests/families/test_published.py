"""Published layouts are judged as their libraries compute, or refused with the conversion or table to use."""

from __future__ import annotations

import csv

import pytest
from differential import Compared
from nightly import some
from published import TABLE, files_of, judge, rows

# the libraries warn of random weights
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("seeing_here")]
ROWS = rows()
with TABLE.open(encoding="utf-8", newline="") as handle:
    TABLED = {row["published"]: row for row in csv.DictReader(handle)}


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return Compared(tmp_path_factory.mktemp("published"))


@pytest.mark.parametrize("name", some(list(ROWS), 4))
def test_a_published_layout_is_judged_as_its_library_computes_or_refused(name: str, compared: Compared) -> None:
    found = judge(compared, name, ROWS[name])
    assert found.kind in ("equal", "refused"), found.said
    assert TABLED[name]["files"] == files_of(ROWS[name])


def test_the_table_of_published_layouts_has_every_row_and_no_other_outcome() -> None:
    assert list(TABLED) == list(ROWS)
    assert {row["outcome"] for row in TABLED.values()} <= {"equal", "refused"}
    assert all(row["files"] for row in TABLED.values())
    assert len(ROWS) >= 190
