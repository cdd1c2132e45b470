"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table


def text_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | tuple[str, str]]],
    *,
    title: str | None = None,
    wrap_first: bool = False,
    padding: tuple[int, int] | tuple[int, int, int, int] = (0, 1, 0, 0),
) -> Table:
    """A column whose name begins with `>` is aligned right. A cell is plain text, or text and its style: foreign text
    carries no markup. Only the first column may wrap."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding, title=title and Text(title))
    table.min_width = None if title is None else min(len(title), 100)  # rich would wrap the title of a narrow table
    table.title_justify = table.caption_justify = "left"
    for place, name in enumerate(columns):
        justify: Literal["left", "right"] = "right" if name.startswith(">") else "left"
        table.add_column(Text(name.removeprefix(">")), justify=justify, no_wrap=place > 0 or not wrap_first)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else Text(cell[0], style=cell[1]) for cell in row))
    return table
