"""`fairgate report` and `fairgate card`: look at a run's report that somebody else made, and render it again from its
record, or as a model card, an annex and a badge."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fairgate import records, reports
from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import FairgateError, clean
from fairgate.interfaces.cli.console import write_report, writing

report_app = typer.Typer(no_args_is_help=True, help="Check, render and unpack the report of a run.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder that holds a results.json.")]


@report_app.command()
def check(
    folder: Folder,
    commit: Annotated[str | None, typer.Option(help="The commit that the run must have judged, in full.")] = None,
    pull_request: Annotated[
        list[int] | None,
        typer.Option(min=1, help="The pull request that it must have been of; repeatable, any of them."),
    ] = None,
) -> None:
    """Read a record strictly: its schema, its numbers, and whether they agree. Exit code 0: it is whole, whatever its
    verdict; 4: it is damaged, forged, or of another run."""
    record = _record(folder)
    made, remedy = record.environment, "take the report of the run in question"
    if commit is not None and made.git_commit != commit:
        raise FairgateError(
            f"the record is of commit {str(made.git_commit)[:40]!r}, not of {commit[:40]!r}.",
            where=str(folder),
            remedy=f"{remedy}; the gate must check out the pull request's head, not its merge",
        )
    if pull_request and made.pull_request not in pull_request:
        of = "no pull request" if made.pull_request is None else f"pull request {made.pull_request}"
        wanted = " or ".join(map(str, pull_request))
        raise FairgateError(f"the record is of {of}, not of {wanted}.", where=str(folder), remedy=remedy)
    decided = f"{reports.verdict_words(record)} ({reports.totals(record)})"
    typer.echo(f"{folder}: {clean(record.suite, 80)}: {decided}; the record is whole")


@report_app.command()
def render(
    folder: Folder,
    out: Annotated[Path, typer.Option(metavar="DIR", help="New folder for the rendered report.")],
    report_url: Annotated[str | None, typer.Option(help="Address that the comment links to.")] = None,
) -> None:
    """Render comment.md and report.html (without pictures) from a record, and from nothing else in its folder.

    results.json and metrics.json are written anew from what was read; scores.parquet, where there is one, is copied
    unread. The findings are in results.sarif (GitHub, editors) and gl-code-quality-report.json (GitLab) too, all at the
    suite's first line: which line defines a check is not in the record. Outputs of installed packages come last.
    """
    record = _record(folder)
    scores = folder / "scores.parquet"
    context = reports.OutputContext(
        suite_file=f"fairness_suites/{record.suite}.yaml",
        scores=scores.read_bytes if scores.is_file() else None,
        report_url=report_url,
    )
    with writing("the report", str(out)):
        out.mkdir(parents=True, exist_ok=True)
        for name, content in reports.rendered(record, context, "render", warn=partial(typer.echo, err=True)):
            atomic_write(out / name, content)
    typer.echo(f"rendered {out}")


@report_app.command()
def unpack(
    archive: Annotated[Path, typer.Argument(metavar="ZIP", help="The artifact of a gate's run.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder to unpack into.")],
) -> None:
    """Take results.json and scores.parquet out of an artifact, within limits; everything else stays in it."""
    left = reports.unpack_report(archive, folder)
    typer.echo(f"unpacked {folder}; {len(left)} other file(s) stay in the archive")


@report_app.command()
def tell(folder: Folder) -> None:
    """Report a record to a GitHub runner: annotations, a section of the job's summary, and `verdict` as the step's
    output. Elsewhere: nothing."""
    record = _record(folder)
    reports.tell_github(record, typer.echo, warn=partial(typer.echo, err=True))
    if output := os.environ.get("GITHUB_OUTPUT"):
        with Path(output).open("a", encoding="utf-8") as file:
            file.write(f"verdict={record.verdict}\n")


def _record(folder: Path) -> records.RunRecord:
    return reports.read_results(folder / "results.json")


def card(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A results.json, or the folder that holds one.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write model-card.md, annex.md, badge.svg and badge.json into this folder."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the model (default: as it is registered, else the last part of its address)."),
    ] = None,
) -> None:
    """Print a model card's section of a run: `model-index` metadata, as Hugging Face reads it, and a table.

    With --out, the section is a file, next to an annex (what was tested, on whom, how surely, and what was not, under
    the headings of the EU AI Act's Annex IV and NIST AI RMF; evidence, no claim of conformity) and a badge (an SVG, and
    JSON for a shields.io endpoint). All from the record alone, which is read strictly. Exit code 4: it is refused.
    """
    record = reports.read_results(run / "results.json" if run.is_dir() else run)
    if name is None and record.model.registered is None:
        called = f"note: the card calls the model '{reports.model_name(record)}', after its file; --name NAME names it"
        typer.echo(called, err=True)
    if out is None:
        typer.echo(reports.render_card(record, name), nl=False)
        return
    files = reports.rendered(record, reports.OutputContext(model_name=name), "card", warn=partial(typer.echo, err=True))
    write_report({out / file: content for file, content in files})
