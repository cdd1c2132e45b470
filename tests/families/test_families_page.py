"""docs/reference/families.md says what works with what: every cell is run again and held against the page."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from families_page import BASES, PAGE, SECTIONS, WORKS, Cells, answered, read, render, run_nested, run_row, said
from family_files import FORMS, STORED, run_form
from family_probes import COLUMNS
from family_rows import ROWS
from family_runs import Bench, Cell, Refusal
from nightly import EVERYTHING, some

from fairgate.models import FAMILIES
from fairgate.probes import PROBES

_STALE = "run `make generate`"
pytestmark = [
    pytest.mark.usefixtures("seeing_here"),
    pytest.mark.xdist_group("families"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="module")
def page() -> dict[str, Cells]:
    return read(PAGE.read_text(encoding="utf-8"))


def hold(cells: Mapping[str, Cell], row: Mapping[str, str], what: str) -> None:
    assert {column: said(cell) for column, cell in cells.items()} == {column: row.get(column) for column in cells}, (
        f"{what}: {_STALE}"
    )
    refusals = [cell for cell in cells.values() if isinstance(cell, Refusal)]
    assert {cell.pictures_read for cell in refusals} <= {0}, "refused before a picture is read"


@pytest.mark.parametrize("key", some(list(ROWS), few=10))
def test_every_probe_does_with_a_model_what_the_page_says(key: str, bench: Bench, page: dict[str, Cells]) -> None:
    """On the first kind of every second family's models in a pull request, on all of them at night."""
    for kind in ROWS[key].kinds if EVERYTHING else ROWS[key].kinds[:1]:
        hold(run_row(bench, key, kind), page["probes"][key], kind)


@pytest.mark.parametrize("key", some(BASES, few=8))
def test_a_model_in_another_one_does_what_the_page_says(key: str, bench: Bench, page: dict[str, Cells]) -> None:
    hold(run_nested(bench, key, answered(page["probes"][key])), page["nested"][key], key)


@pytest.mark.parametrize("key", some(list(STORED), few=5))
def test_weights_in_a_form_are_read_or_refused_as_the_page_says(key: str, bench: Bench, page: dict[str, Cells]) -> None:
    """In a pull request one form of each model, another one for each; at night all of all."""
    place = list(STORED).index(key)
    forms = list(FORMS) if EVERYTHING else [list(FORMS)[place % len(FORMS)]]
    hold({name: run_form(bench, STORED[key], FORMS[name]) for name in forms}, page["files"][key], key)


def test_the_page_is_what_its_cells_render_as(page: dict[str, Cells]) -> None:
    assert all(set(cells) == set(SECTIONS[name].columns) for name, rows in page.items() for cells in rows.values()), (
        _STALE
    )
    assert render(page) == PAGE.read_text(encoding="utf-8"), _STALE


def test_every_family_and_every_kind_of_probe_has_its_place() -> None:
    """A new one belongs into family_rows.py or family_probes.py."""
    assert {key.partition("-")[0] for key in ROWS} == set(FAMILIES)
    assert {one.kind for one in COLUMNS.values()} == set(PROBES)


def test_every_probe_works_with_some_model_and_every_model_with_some_probe(page: dict[str, Cells]) -> None:
    rows = page["probes"].values()
    assert all(WORKS in cells.values() for cells in rows)
    assert all(any(cells[column] == WORKS for cells in rows) for column in COLUMNS)
