"""`fairgate doctor`: is a gate run possible here, is anything switched off, does the gate fail when it should?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairgate.cli.console import FOUND, friendly, wide_console
from fairgate.suites import OPTIONS

if TYPE_CHECKING:
    from rich.table import Table

    from fairgate.selftest import Finding

TABLE_WIDTH = 120  # findings are sentences, and a log file has room for them
_MARKS = {"ok": "✓ ok", "warning": "! warning", "trouble": "✗ trouble"}
_COLOURS = {"ok": "green", "warning": "yellow", "trouble": "red"}


@friendly()
def doctor(
    suite: Annotated[list[str] | None, typer.Option(help="Suite to look at; repeatable (default: every one).")] = None,
    inject_bias: Annotated[
        float | None, typer.Option(metavar="STRENGTH", help="Plant this much bias (0.1) and see the gate fail.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the planted tables and reports here.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Read every row and picture of the datasets.")] = False,
    mlflow: Annotated[str | None, typer.Option(help=OPTIONS["mlflow"].help)] = None,
    device: Annotated[str | None, typer.Option(help=OPTIONS["device"].help)] = None,
    cache: Annotated[str | None, typer.Option(help=OPTIONS["cache"].help)] = None,
    allow_pickle: Annotated[bool, typer.Option(help="Load checkpoints that can run code; refused in CI.")] = False,
    root: Annotated[Path, typer.Option(help="The repository: fairness_suites/ and datasets/ are here.")] = Path(),
) -> None:
    """Check everything that a gate run needs. Exit code 0: nothing is wrong, 1: something is, 4: wrong usage."""
    from rich.console import Console

    from fairgate.selftest import SelfTestOptions, examine, healthy

    program = (sys.executable, "-P", "-m", __package__)
    options = SelfTestOptions(program, tuple(suite or ()), inject_bias, keep, full, mlflow, device, cache, allow_pickle)
    aside, console = Console(stderr=True), wide_console(TABLE_WIDTH)
    with aside.status("fairgate doctor") as status:

        def progress(what: str) -> None:
            status.update(f"fairgate doctor: {what}")
            if not aside.is_terminal and not what.endswith("images"):  # a log wants the steps, not each batch
                typer.echo(f"fairgate doctor: {what}", err=True)

        found = examine(root.resolve(), options, progress)
    console.print(_table(found))
    counts = {level: sum(one.level == level for one in found) for level in _MARKS}
    typer.echo(f"\n{counts['ok']} ok, {counts['warning']} warning(s), {counts['trouble']} in trouble")
    if not healthy(found):
        raise typer.Exit(FOUND)


def _table(found: list[Finding]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from fairgate.plain_text import clean

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("looked at", no_wrap=True)
    table.add_column("found", overflow="fold")
    before = ""
    for one in found:
        text = Text(clean(one.what, 2000))
        for name, part in (("ran:   ", one.ran), ("where: ", one.where), ("remedy:", one.remedy)):
            if part:
                text.append(f"\n{name} {clean(part, 2000)}", style="" if name == "remedy:" else "dim")
        area = "" if one.area == before else clean(one.area, 60)
        table.add_row(Text(_MARKS[one.level], style=_COLOURS[one.level]), area, text)
        before = one.area
    return table
