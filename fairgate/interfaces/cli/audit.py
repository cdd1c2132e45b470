"""`fairgate audit`: many models on the datasets and probes of suites, in the tables of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import progress_line, wide_console, write_report

if TYPE_CHECKING:
    from fairgate.records import AuditCollection


def audit(  # noqa: PLR0913, PLR0917 - an option is a parameter
    suite: Annotated[list[str], typer.Argument(help="Names of suites in fairness_suites/.")],
    model: Annotated[list[str], typer.Option(help="Address of a checkpoint; repeat for each.")],
    report: Annotated[
        Path | None,
        typer.Option(help="Write audit.json, .html, .csv and .tex here; of several suites, a folder each and audits.*"),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write every number, one a row, to this file.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Write the tables for a paper to this file.")] = None,
    reference: Annotated[
        list[str] | None, typer.Option(help="Group that others are measured against (default: the first declared).")
    ] = None,
    margin: Annotated[float | None, typer.Option(help="Change of spread that counts as none (default: suite).")] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Where rankings are cut (default: as the suite does).")] = None,
    engine: Annotated[str, typer.Option(help="local, or ray: models are scored by its workers.")] = "local",
    workers: Annotated[int | None, typer.Option(help="Workers of ray (default: one per GPU, or core).")] = None,
    device: options.Device = None,
    cache: options.Cache = None,
    allow_pickle: options.AllowPickle = False,
    root: options.Root = Path(),
) -> None:
    """Compare models on one suite or several. What was scored is cached: run it again to go on after an interruption.

    Exit code 0: compared (an audit judges nothing), 4: a suite or an option is wrong.
    """
    from fairgate.reports import audit_lines, audit_tables
    from fairgate.studies.comparison import AuditOptions, AuditRun, audit_suites

    settings = AuditOptions(reference=tuple(reference or ()), margin=margin, k=k)
    run = AuditRun(root.resolve(), device, cache, allow_pickle)
    console = wide_console(120)
    with progress_line() as progress:
        audits = audit_suites(suite, model, settings, run, workers=_workers(engine, workers), progress=progress)
    for record in audits.audits:
        if len(suite) > 1:
            console.rule(record.suite)
        for table in audit_tables(record):
            console.print(table)
            console.print()
        typer.echo("\n".join(audit_lines(record)))
    for name, reason in audits.left_out.items():
        typer.echo(f"{name}: no model could be measured: {reason}")
    write_report(_files(audits, report, csv, latex, several=len(suite) > 1))


def _workers(engine: str, workers: int | None) -> tuple[str, int | None] | None:
    """The engine and its workers; None for this process."""
    return None if (engine, workers) == ("local", None) else (engine, workers)


def _files(
    audits: AuditCollection, report: Path | None, csv: Path | None, latex: Path | None, *, several: bool
) -> dict[Path, str]:
    """What is written, by its place."""
    from fairgate.reports import collection_html, comparison_html, render_csv, render_latex

    texts: dict[Path, str] = {}
    for record in audits.audits if report is not None else []:
        assert report is not None
        folder = report / record.suite if several else report
        texts[folder / "audit.json"] = record.model_dump_json(indent=2) + "\n"
        texts[folder / "audit.html"] = comparison_html(record)
        if several:
            texts |= {folder / "audit.csv": render_csv(record), folder / "audit.tex": render_latex(record)}
    if report is not None and several:
        texts[report / "audits.json"] = audits.model_dump_json(indent=2) + "\n"
        texts[report / "audits.html"] = collection_html(audits)
    name = "audits" if several else "audit"
    texts |= dict.fromkeys(filter(None, [csv, report and report / f"{name}.csv"]), render_csv(*audits.audits))
    return texts | dict.fromkeys(filter(None, [latex, report and report / f"{name}.tex"]), render_latex(*audits.audits))
