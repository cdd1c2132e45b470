"""Reads LaTeX tables back, strictly: a command, an environment or a brace that is not expected is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMANDS = {
    *("textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar", "infty", "times"),
    *("begin", "end", "centering", "caption", "label", "toprule", "midrule", "bottomrule", "Delta", "to", "cdot"),
}


@dataclass(frozen=True)
class TexTable:
    """One table: its caption, label, column letters, header and cells, as they stand in the source."""

    caption: str
    label: str
    columns: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables_of(text: str) -> list[TexTable]:
    """Every table of a source, after looking at every character that LaTeX gives a meaning."""
    source = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    source = source.replace("$<$0.001", "0.001").replace("$\\Delta F_M$", "change of the metric")
    commands = set(re.findall(r"\\([A-Za-z]+)", source))
    assert commands <= _COMMANDS, commands - _COMMANDS
    bare = re.sub(r"\\([\\&%$#_{}]|[A-Za-z]+)", "", re.sub(r"\\label\{[^{}]*\}", "", source))
    assert not re.search(r"[%#_~^\\<>|]", bare)
    assert not re.search(r"(?<!\{)\*|\*(?!\})", bare)
    assert source.count("{") - source.count("\\{") == source.count("}") - source.count("\\}")
    assert len(re.findall(r"(?<!\\)\$", source)) % 2 == 0
    found = re.findall(r"\\begin\{table\}(.*?)\\end\{table\}", source, re.DOTALL)
    assert source.count("\\begin{table}") == source.count("\\end{table}") == len(found)
    return [_table(body) for body in found]


def _table(body: str) -> TexTable:
    lines = body.strip().splitlines()
    assert lines[0] == "\\centering"
    assert [lines[4], lines[6], *lines[-2:]] == ["\\toprule", "\\midrule", "\\bottomrule", "\\end{tabular}"]
    caption = re.fullmatch(r"\\caption\{(.*)\}", lines[1])
    label = re.fullmatch(r"\\label\{([A-Za-z0-9_.:-]+)\}", lines[2])
    columns = re.fullmatch(r"\\begin\{tabular\}\{([lr]+)\}", lines[3])
    assert caption
    assert label
    assert columns
    header, *rows = (_cells(line) for line in [lines[5], *lines[7:-2]])
    for row in [header, *rows]:
        assert len(row) == len(columns[1]), row
    return TexTable(caption[1], label[1], columns[1], header, tuple(rows))


def _cells(line: str) -> tuple[str, ...]:
    assert line.endswith(" \\\\")
    cells = tuple(re.split(r" (?<!\\)& ", line.removesuffix(" \\\\")))
    assert not any(cell.startswith(("[", "*")) for cell in cells)  # `\\` would take it for its own
    assert not any(re.search(r"(?<!\\)&", cell) for cell in cells)
    return cells
