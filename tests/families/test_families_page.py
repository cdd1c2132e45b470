"""docs/families.md says which probe works with which model: every cell is run again and held against the page."""

from __future__ import annotations

import pytest
from families_page import PAGE, WORKS, Table, read, render, said
from family_probes import COLUMNS
from family_rows import ROWS
from family_runs import Bench, Refusal
from nightly import EVERYTHING

from fairgate.models import FAMILIES
from fairgate.probes import PROBES

_STALE = "run `python tests/families`"
pytestmark = [
    pytest.mark.xdist_group("families"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="module")
def page() -> Table:
    return read(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("key", list(ROWS))
def test_every_cell_is_what_its_run_says(key: str, bench: Bench, page: Table) -> None:
    """On the first kind of model in a pull request, on all of them at night."""
    row = ROWS[key]
    for kind in row.kinds if EVERYTHING else row.kinds[:1]:
        cells = {column: bench.run(row, column, kind) for column in COLUMNS}
        assert {column: said(cell) for column, cell in cells.items()} == page[key], f"{kind}: {_STALE}"
        read_first = {
            column: cell for column, cell in cells.items() if isinstance(cell, Refusal) and cell.pictures_read
        }
        assert not read_first, "refused after pictures were read"


def test_the_page_is_what_its_cells_render_as(page: Table) -> None:
    assert render(page) == PAGE.read_text(encoding="utf-8"), _STALE


def test_every_family_and_every_kind_of_probe_has_its_place() -> None:
    """A new one belongs into family_rows.py or family_probes.py."""
    assert {key.partition("-")[0] for key in ROWS} == set(FAMILIES)
    assert {one.kind for one in COLUMNS.values()} == set(PROBES)


def test_every_probe_works_with_some_model_and_every_model_with_some_probe(page: Table) -> None:
    assert all(WORKS in cells.values() for cells in page.values())
    assert all(any(cells[column] == WORKS for cells in page.values()) for column in COLUMNS)
