"""The pages on the papers have a row for every table and figure of each paper, and no row is empty."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from documents import ROOT

PAPERS = ROOT / "docs" / "evidence" / "papers"
PRINTED = {
    "diffusion-perturbations.md": (8, 2),
    "downstream-social-bias.md": (7, 21),
    "intersectional-counterfactuals.md": (9, 5),
    "so-b-it.md": (4, 8),
    "gensynth.md": (9, 4),
}
"""By page, how many tables and figures the paper prints, numbered from 1."""


def rows(page: str) -> Iterator[list[str]]:
    """Cells of the rows of every table that is about the paper's own: their first cell names a table or a figure."""
    for line in (PAPERS / page).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and re.match(r"(tables?|figures?) \d", cells[0], re.I):
            yield cells


def compared(page: str) -> Iterator[list[str]]:
    """Cells of the rows of the table that is headed by `paper` and `command`."""
    table = False
    for line in (PAPERS / page).read_text(encoding="utf-8").splitlines():
        table = line.startswith("|") and (table or line.split("|")[2].strip() == "command")
        if table and not line.startswith("|--"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def named(text: str) -> set[tuple[str, int]]:
    """The tables and figures that a cell names: `Figures 4 to 6, table 1`."""
    found: set[tuple[str, int]] = set()
    for kind, numbers in re.findall(r"\b(table|figure)s?\s+((?:\d+(?:,? and |,? to |, |-|–)?)+)", text.lower()):
        for first, last in re.findall(r"(\d+)(?:(?: to |-|–)(\d+))?", numbers):
            found |= {(kind, number) for number in range(int(first), int(last or first) + 1)}
    return found


@pytest.mark.parametrize("page", PRINTED)
def test_every_table_and_figure_of_a_paper_has_a_row(page: str) -> None:
    tables, figures = PRINTED[page]
    wanted = {("table", number + 1) for number in range(tables)} | {("figure", number + 1) for number in range(figures)}
    missing = wanted - set().union(*(named(cells[0]) for cells in rows(page)))
    assert not missing, sorted(missing)


@pytest.mark.parametrize("page", PRINTED)
def test_every_row_names_its_command_or_the_reason_for_having_none(page: str) -> None:
    head, *lines = compared(page)
    assert len(lines) >= sum(PRINTED[page]) / 2
    for cells in lines:
        assert len(cells) == len(head) == 4, cells
        assert any(cells[2:]), cells
        reason = re.search(r"not (reproducible|measured)", " ".join(cells[2:]))
        assert cells[1] not in {"", "-", "none"} or reason, cells


@pytest.mark.parametrize("page", PRINTED)
def test_every_mitigation_that_a_page_judges_is_made_by_its_commands(page: str) -> None:
    lines = (PAPERS / page).read_text(encoding="utf-8").splitlines()
    commands = "\n".join(line for line in lines if line.startswith(("    ", "$ ")))
    made = set(re.findall(r"fairgate mitigate [a-z-]+ (\S+)", commands))
    assert set(re.findall(r"=debiased:([^?\s]+)\?", commands)) <= made


@pytest.mark.parametrize("page", PRINTED)
def test_no_command_of_a_page_is_cut_short_by_dots(page: str) -> None:
    lines = (PAPERS / page).read_text(encoding="utf-8").splitlines()
    cut = [line for line in lines if line.startswith(("    ", "$ ")) and re.search(r"(^|\s)\.\.\.(\s|$)", line)]
    assert not cut


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "evidence" / "papers.md").read_text(encoding="utf-8")
    assert all(f"papers/{page}" in index for page in PRINTED)
    assert {path.name for path in PAPERS.glob("*.md")} == set(PRINTED)


def test_ranges_and_lists_of_numbers_are_read() -> None:
    assert named("Figures 4 to 6, table 1") == {("figure", 4), ("figure", 5), ("figure", 6), ("table", 1)}
    assert named("Tables 6 and 7") == {("table", 6), ("table", 7)}
    assert named("Figure 3, left") == {("figure", 3)}
