"""`fairgate history`: how a suite's numbers moved from commit to commit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairgate.ground.errors import SettingsError
from fairgate.interfaces.cli.console import wide_console, writing
from fairgate.tracking import DEFAULT_URI


def history(
    suite: Annotated[str, typer.Argument(help="Name of a suite whose runs MLflow keeps.")],
    check: Annotated[
        str | None, typer.Option(metavar="ITEM", help=r"Only this check, or this item: skew, skew\[doctor].")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Only checks of this metric, as the suite names it.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only items about this subject.")] = None,
    branch: Annotated[str | None, typer.Option(help="Only runs of this branch.")] = None,
    pull_requests: Annotated[bool, typer.Option("--pull-requests", help="Runs of pull requests too.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The newest N runs.")] = 100,
    mlflow: Annotated[
        str, typer.Option(metavar="URI", envvar="FAIRGATE_MLFLOW", help="Store or server to read.")
    ] = DEFAULT_URI,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it too: FILE.html or FILE.png.")] = None,
) -> None:
    """How a suite's numbers moved from commit to commit, and at which one.

    Runs are joined only where dataset and question are the same; elsewhere the line is cut. A number moved where two
    runs in a row differ by more than both their intervals allow. Exit code 0: shown, 4: nothing to show, and why.
    """
    from fairgate.reports import draw, history_html, history_table, span_words, terminal_lines
    from fairgate.tracking import past_runs, suite_history

    if out is not None and out.suffix.lower() not in (".html", ".png"):
        raise SettingsError(f"'{out.name}' is no picture.", where="--out", remedy="name it FILE.html or FILE.png")
    runs = past_runs(suite, mlflow, limit=limit, branch=branch, pull_requests=pull_requests)
    past = suite_history(suite, runs, check=check, metric=metric, subject=subject)
    console = wide_console(140)
    typer.echo(f"{past.suite}: {span_words(past)}")
    console.print(history_table(past))
    typer.echo("\n".join(terminal_lines(past)))
    if out is not None:
        with writing("the picture", str(out)):
            out.parent.mkdir(parents=True, exist_ok=True)
            if out.suffix.lower() == ".html":
                out.write_text(history_html(past), encoding="utf-8")
            else:
                draw(past, out)
        typer.echo(f"drawn: {out}")
