"""`fairgate build status`: a table of what is finished, dropped and spent."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairgate.errors import ModelError, RecipeError, harmless
from fairgate.factory import Factory, read_build
from fairgate.factory.plan import Ground
from fairgate.factory.status import PartStatus, part_states

WIDTH = 110
"""Columns of text that the table takes at least: in a narrower terminal lines wrap, and nothing is cut."""


def show_status(name: str, params: Path, out: Path, limit: int | None) -> None:
    """Print one build's table."""
    factory = Factory(name, read_build(name, params).recipe, out, limit)
    console = Console(highlight=False)
    console.width = max(console.width, WIDTH)
    if not factory.places.root.is_dir():
        console.print(escape(f"{name} ({factory.recipe.name}): not begun"), soft_wrap=True)
        return
    table = Table(
        title=f"{name} ({factory.recipe.name}): {factory.places.root}",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in ("subject", "part", "state", "shards", "started", "kept", "chosen"):
        table.add_column(column, no_wrap=True)
    for column in ("dropped", "work", "seconds"):
        table.add_column(column, overflow="fold")
    notes = []
    try:
        ground = Ground.of(factory.recipe, limit)
    except (ModelError, RecipeError) as error:
        ground = None
        notes.append(f"whether anything is stale is not known here: {error.problem}")
    for each in part_states(factory, ground):
        table.add_row(*[escape(cell) for cell in _cells(each)])
        if each.stale:
            notes.append(f"{each.subject}, {each.part}: made otherwise ({each.stale}); it would be set aside")
    console.print(table)
    for note in notes:
        console.print(escape(harmless(note)), soft_wrap=True)
    if factory.places.dataset.is_dir():
        console.print(f"dataset: {escape(str(factory.places.dataset))}", soft_wrap=True)


def _cells(each: PartStatus) -> list[str]:
    tally = each.tally
    return [
        harmless(each.subject),
        each.part,
        each.state,
        f"{each.shards:,}",
        f"{tally.started:,}",
        f"{tally.kept:,}",
        "" if each.chosen is None else f"{each.chosen:,}" + (f" of {each.wanted:,}" if each.short else ""),
        "\n".join(f"{harmless(reason)} {count:,}" for reason, count in tally.reasons.most_common()),
        "\n".join(f"{what} {count:,}" for what, count in sorted(tally.counts.items())),
        f"{tally.seconds:,.1f}",
    ]
