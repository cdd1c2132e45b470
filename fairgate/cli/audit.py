"""`fairgate audit`: many models on one suite's dataset and probes, in the tables of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairgate.cli import options
from fairgate.cli.console import progress_line, wide_console, write_report


def audit(  # noqa: PLR0913, PLR0917 - an option is a parameter
    suite: options.Suite,
    model: Annotated[list[str], typer.Option(help="Address of a checkpoint; repeat for each.")],
    report: Annotated[Path | None, typer.Option(help="Write audit.json, .html, .csv and .tex here.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write every number, one a row, to this file.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Write the tables for a paper to this file.")] = None,
    reference: Annotated[
        list[str] | None, typer.Option(help="Group that others are measured against (default: the first declared).")
    ] = None,
    margin: Annotated[float | None, typer.Option(help="Change of spread that counts as none (default: suite).")] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Where rankings are cut (default: as the suite does).")] = None,
    device: options.Device = None,
    cache: options.Cache = None,
    allow_pickle: options.AllowPickle = False,
    root: options.Root = Path(),
) -> None:
    """Compare models. Exit code 0: compared (an audit judges nothing), 4: the suite or an option is wrong."""
    from fairgate import gate
    from fairgate.comparison import AuditOptions, audited, command_of
    from fairgate.comparison import audit as compare
    from fairgate.reports import audit_lines, audit_tables, comparison_html, render_csv, render_latex

    prepared = gate.prepare(suite, root.resolve())
    models = audited(prepared, model, device=device, cache=cache, allow_pickle=allow_pickle)
    settings = AuditOptions(reference=tuple(reference or ()), margin=margin, k=k)
    console = wide_console(120)
    with progress_line() as progress:
        command = command_of(suite, model, settings)
        record = compare(prepared, models, settings, command=command, progress=progress)
    for table in audit_tables(record):
        console.print(table)
        console.print()
    typer.echo("\n".join(audit_lines(record)))
    texts: dict[Path, str] = {}
    if report is not None:
        texts[report / "audit.json"] = record.model_dump_json(indent=2) + "\n"
        texts[report / "audit.html"] = comparison_html(record)
    texts |= dict.fromkeys(filter(None, [csv, report and report / "audit.csv"]), render_csv(record))
    write_report(texts | dict.fromkeys(filter(None, [latex, report and report / "audit.tex"]), render_latex(record)))
