"""`fairgate doctor`: is a gate run possible here, is anything switched off, does the gate fail when it should?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairgate import reports
from fairgate.gate import selftest
from fairgate.ground.errors import clean
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import FOUND, wide_console

if TYPE_CHECKING:
    from rich.table import Table


_MARKS = {"ok": ("✓ ok", "green"), "warning": ("! warning", "yellow"), "trouble": ("✗ trouble", "red")}


def doctor(
    suite: Annotated[list[str] | None, typer.Option(help="Suite to look at; repeatable (default: every one).")] = None,
    inject_bias: Annotated[
        float | None, typer.Option(metavar="STRENGTH", help="Plant this much bias (0.1) and see the gate fail.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the planted tables and reports here.")] = None,
    mlflow: options.Mlflow = None,
    device: options.Device = None,
    cache: options.Cache = None,
    root: options.Root = Path(),
) -> None:
    """Check everything that a gate run needs. Exit code 0: nothing is wrong, 1: something is, 4: wrong usage."""
    from rich.console import Console

    program = (sys.executable, "-P", "-m", __package__)
    chosen = selftest.SelfTestOptions(program, tuple(suite or ()), inject_bias, keep, mlflow, device, cache)
    aside, console = Console(stderr=True), wide_console(120)
    with aside.status("fairgate doctor") as status:

        def progress(what: str) -> None:
            status.update(f"fairgate doctor: {what}")
            if not aside.is_terminal and not what.endswith("images"):  # a log wants the steps, not each batch
                typer.echo(f"fairgate doctor: {what}", err=True)

        findings = selftest.examine(root.resolve(), chosen, progress)
    console.print(_table(findings))
    counts = {level: sum(finding.level == level for finding in findings) for level in _MARKS}
    typer.echo(f"\n{counts['ok']} ok, {counts['warning']} warning(s), {counts['trouble']} in trouble")
    if not selftest.healthy(findings):
        raise typer.Exit(FOUND)


def _table(findings: list[selftest.Finding]) -> Table:
    from rich.text import Text

    rows, before = [], ""
    for finding in findings:
        text = Text(clean(finding.what, 2000))
        for name, part in (("ran:   ", finding.ran), ("where: ", finding.where), ("remedy:", finding.remedy)):
            if part:
                text.append(f"\n{name} {clean(part, 2000)}", style="" if name == "remedy:" else "dim")
        area = "" if finding.area == before else clean(finding.area, 60)
        rows.append((_MARKS[finding.level], area, text))
        before = finding.area
    return reports.text_table(("", "looked at", "~found"), rows)
