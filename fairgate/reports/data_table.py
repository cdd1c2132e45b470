"""Tables. One for a page has cells that hold the full number next to the rounded text: its script sorts and exports it.
One for a terminal has texts."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal

from fairgate.ground.errors import clean
from fairgate.ground.markdown import escape, table
from fairgate.ground.number_format import interval, number, p_value
from fairgate.records import Status, Verdict
from fairgate.reports.charts import Scale, Track, scale_for
from fairgate.reports.ci import inert
from fairgate.reports.formatting import SYMBOL

if TYPE_CHECKING:
    from rich.table import Table as TextTable
    from rich.text import Text

Look = Literal["heat", "bars", "bars subjects", "bars forest", "heat left", "heat left texts"]
SHADES: Final = 7
_COLUMNS: Final = 7
"""Columns of numbers that a table has in a terminal."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it is headed, with `under` below that; as it is called when it is handed out (`name`; of a drawn one,
    its visible heading), and as what goes with its numbers is called then (`aside`). `scale` is a drawn one's axis."""

    shown: str
    kind: Literal["number", "p", "text", "drawn"] = "number"
    under: str = ""
    name: str = ""
    aside: str = ""
    scale: Scale | None = None


@dataclass(frozen=True, slots=True)
class TableCell:
    """A number, a text or a drawing, with what is `under` it.

    `value` is what the table is sorted by and what is handed out with its limits; `export` takes its place when handed
    out, and `aside` goes with it. `shade` is 0 (none) to 7, towards what is worse or `better`; `verdict` is of
    the group that the number is of. `why` is shown on demand.
    """

    text: str = ""
    under: str = ""
    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    export: str | None = None
    aside: str | float | None = None
    shade: int = 0
    better: bool = False
    verdict: Verdict | None = None
    track: Track | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A row: `name` in full, and as `shown` where that differs. `mark` is the class of the sign of a clear effect;
    rows of one `heading` are together under it. `verdict` is of what the row is about, and `verdict_name` that verdict
    in words, if others than its own; `look` is a class of the row, and `note` is under the name."""

    name: str
    cells: Sequence[TableCell]
    shown: str = ""
    mark: str | None = None
    heading: str = ""
    verdict: Verdict | None = None
    verdict_name: str = ""
    look: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """`key` is unique in a page, `first` is the heading of the first column. `foot` are rows below the `lines`.
    `legend` explains marks and swatches. `more` rows are only in audit.csv."""

    key: tuple[str, ...]
    title: str
    first: str
    columns: Sequence[Column]
    lines: Sequence[Line]
    look: Look = "heat left"
    foot: Sequence[Line] = ()
    legend: Sequence[tuple[str, str]] = ()
    head: str = ""
    note: str = ""
    height: int = 26
    more: int = 0

    @property
    def bodies(self) -> list[tuple[str, list[Line]]]:
        """The lines by heading."""
        return [(heading, [*lines]) for heading, lines in groupby(self.lines, key=attrgetter("heading"))]

    @property
    def printed(self) -> list[tuple[int, Column]]:
        """The columns that are no drawings, with their places."""
        return [(at, column) for at, column in enumerate(self.columns) if column.kind != "drawn"]

    @property
    def rows(self) -> list[Line]:
        """All rows, those of the foot last."""
        return [*self.lines, *self.foot]


def table_id(*parts: str) -> str:
    """What a table is called in audit.html, its downloads and audit.tex: the same for the same question in every audit.

    Characters that an id cannot hold are replaced, and a digest keeps such names distinct.

    >>> table_id("pairs", "hard_labels"), table_id("effects", "labels", "correct", "skin_tone × gender", "line cook")
    ('pairs.hard_labels', 'effects.labels.correct.skin_tone-x-gender.line-cook-52fbfd')
    """
    return ".".join(filter(None, map(_id_part, parts)))


def _id_part(text: str) -> str:
    crossed = text.replace(" × ", "-x-")
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", crossed).strip("-")[:60]
    return plain if plain == crossed else f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:6]}".strip("-")


def exact(value: float | None, status: Status = "ok") -> float | None:
    """A number as it is sorted by and handed out: infinite where its status says so, None where there is none."""
    return math.inf if value is None and status == "infinite" else value


def number_cell(
    value: float | None, lo: float | None = None, hi: float | None = None, say: Callable[[float | None], str] = number
) -> TableCell:
    """A number, or what `say` makes of it, with its limits under it."""
    return TableCell(say(value), interval(lo, hi), value, lo, hi)


def p_cell(value: float | None) -> TableCell:
    """A p-value."""
    return TableCell(p_value(value), value=value)


def share_scale(shares: Iterable[float | None]) -> Scale:
    """A line for shares. Where all are one number, a stretch below it: never one beyond 1."""
    known = [share for share in shares if share is not None]
    return scale_for([*known, 0.9 * min(known)] if known and min(known) == max(known) else known)


def text_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | tuple[str, str] | Text]],
    *,
    title: str | None = None,
    padding: tuple[int, int] | tuple[int, int, int, int] = (0, 1, 0, 0),
) -> TextTable:
    """A column whose name begins with `>` is aligned right, and one with `~` may wrap. A cell is plain text, or text
    and its style: foreign text carries no markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as TextTable
    from rich.text import Text

    table = TextTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding, title=title and Text(title))
    table.min_width = None if title is None else min(len(title), 100)  # rich would wrap the title of a narrow table
    table.title_justify = table.caption_justify = "left"
    for name in columns:
        justify: Literal["left", "right"] = "right" if name.startswith(">") else "left"
        wraps = name.startswith("~")
        overflow: Literal["fold", "ellipsis"] = "fold" if wraps else "ellipsis"
        table.add_column(
            Text(name[1:] if name[:1] in (">", "~") else name), justify=justify, no_wrap=not wraps, overflow=overflow
        )
    for row in rows:
        texts = ((cell,) if isinstance(cell, str) else cell for cell in row)
        table.add_row(*(Text(*cell) if isinstance(cell, tuple) else cell for cell in texts))
    return table


def printed(source: str, table: Table, most: int = 20, width: int = 120) -> Iterator[TextTable]:
    """A table without its drawings for a terminal, cut after `most` rows and some columns; of wide ones, limits are
    under their numbers. Columns that `width` has no room for follow in tables of their own, with what tells the rows
    apart: their names, and if some are equal the texts beside them."""
    columns, rows = table.printed[:_COLUMNS], table.rows[:most]
    cut = [f"first {most} of {len(table.rows) + table.more:,} rows"] if len(table.rows) + table.more > most else []
    cut += [f"first {_COLUMNS} of {len(table.printed)} columns"] if len(table.printed) > _COLUMNS else []
    between = "\n" if len(columns) > 2 else " "
    names = [f"~{clean(table.first, 40)}", *(clean(line.shown or line.name, 60) for line in rows)]
    cells = [[_head_words(column), *(_cell_words(line.cells[at], between) for line in rows)] for at, column in columns]
    title = clean(f"{source}: {table.title}", 200) + (f" ({', '.join(cut)})" if cut else "")
    keys, room = [names], width - min(_breadth(names), width // 3)
    if len(set(names)) < len(names):
        for _ in takewhile(lambda column: column[1].kind == "text", columns):
            if room - _breadth(cells[0]) < width // 3:
                break
            keys.append(cells.pop(0))
            room -= _breadth(keys[-1])
    for place, part in enumerate(_side_by_side(cells, room)):
        head, *body = zip(*keys, *part, strict=True)
        text = text_table(head, body, title="further columns" if place else title)
        if any(cell.endswith(" *") for column in part for cell in column):
            text.caption = "* Mood’s test and the paired test disagree, for the reason below"
        yield text


def _breadth(column: Sequence[str]) -> int:
    """What a column takes in a terminal, with the space beside it."""
    from rich.cells import cell_len

    return 2 + max(cell_len(line) for text in column for line in text.lstrip("~>").split("\n"))


def _side_by_side(columns: Sequence[list[str]], room: int) -> list[list[list[str]]]:
    """Columns in groups that have room beside each other."""
    groups, left = [list[list[str]]()], room
    for column in columns:
        if groups[-1] and _breadth(column) > left:
            groups, left = [*groups, []], room
        groups[-1].append(column)
        left -= _breadth(column)
    return groups


def _head_words(column: Column) -> str:
    name = clean(f"{column.shown} {column.under}", 40)
    return name if column.kind == "text" else f">{name}"


def _cell_words(cell: TableCell, between: str) -> str:
    """A number, and its limits or what else belongs to it; `*` where a pair's tests disagree."""
    parts = [cell.text, "*"] if cell.why else [cell.text, cell.under]
    return (" " if cell.why else between).join(clean(part, 60) for part in parts if part)


def markdown_table(source: Table, clip: int, most: int | None = None) -> str:
    """The first rows of a table as Markdown, each with its verdict; names are cut at `clip` characters."""
    rows = []
    for line in source.rows[:most]:
        name = escape(f"{line.heading}: {line.name}" if line.heading else line.name, clip)
        cells = (escape(f"{line.cells[at].text} {line.cells[at].under}") for at, _ in source.printed)
        verdict = f"{SYMBOL[line.verdict]} {line.verdict_name or line.verdict}" if line.verdict else ""
        rows.append([verdict, f"{name} ({line.note})" if line.note else name, *cells])
    return table(["", source.first, *(escape(column.shown) for _, column in source.printed)], rows)


def fold_name(item: str, width: int) -> str:
    """Lines of at most a column's `width`, broken after a hyphen or a space or before a bracket or an @ if possible.

    >>> fold_name("no-group-loses@anchor", 16)
    'no-group-loses\\n@anchor'
    """
    lines = [""]
    for piece in re.split(r"(?<=[- ])|(?=[\[@])", clean(item, 90)):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        whole = lines.pop() + piece
        lines += [whole[at : at + width] for at in range(0, len(whole), width)] or [whole]
    return "\n".join(inert(line.rstrip()) for line in lines)
