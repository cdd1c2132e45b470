"""`fairgate push`: send the runs that MLflow did not take when they were made, or a report that another job made.
`fairgate history`: how a suite's numbers moved from commit to commit, in the runs that MLflow keeps."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fairgate import records, reports, suites, tracking
from fairgate.ground.errors import FairgateError, SettingsError, TrackingError
from fairgate.interfaces.cli.console import echo_prose, friendly, wide_console, writing


def push(
    mlflow: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            envvar="FAIRGATE_MLFLOW",
            help="Store or server to send to (default: the one that each run was meant for).",
        ),
    ] = None,
    queue: Annotated[Path, typer.Option(metavar="DIR", help="Folder of waiting runs.")] = tracking.DEFAULT_QUEUE,
    folder: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="Send this report folder instead of what waits.")
    ] = None,
    wandb: Annotated[
        str | None,
        typer.Option(
            metavar="[ENTITY/]PROJECT",
            envvar="FAIRGATE_WANDB",
            help="With --from: send it to this project of Weights & Biases; to MLflow as well if --mlflow is given.",
        ),
    ] = None,
    pull_request: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="With --from: the pull request, whatever the record claims.")
    ] = None,
) -> None:
    """Send waiting runs to MLflow. Each is removed only after MLflow took it; a second push sends nothing twice.

    Without --mlflow, a run goes to the address that it was meant for, if this machine has queued it and is no CI
    runner. A run that somebody else queued, for example on a branch, needs the address.

    With --from DIR: send a report that another job made and that nobody vouches for. results.json is read strictly and
    written anew; scores.parquet goes with it, and SUITE.yaml if it is the suite that the record names; comment.md is
    made again. The folder's own pages are not sent. A record can claim to be of no pull request, and so become
    `mlflow:latest`: give --pull-request N. In a GitHub workflow of a pull request, or after one, that is known.

    Exit code 0: nothing waits any more. 1: some runs still wait, or the report was not taken, and why. 4: the report
    is not one.
    """
    if mlflow == "off":
        raise SettingsError("MLflow is off.", where="--mlflow, FAIRGATE_MLFLOW", remedy="name a store or server")
    if folder is not None:
        project = None if wandb == "off" else wandb
        _send_report(folder, mlflow if project else mlflow or tracking.DEFAULT_URI, project, pull_request)
        return
    if pull_request is not None:
        raise SettingsError(
            "runs that wait say themselves of which pull request they are.",
            where="--pull-request",
            remedy="leave it out, or name the report that another job made with --from",
        )
    _send_waiting(queue, mlflow)


def _send_waiting(queue: Path, mlflow: str | None) -> None:
    results = tracking.push(queue, mlflow)
    for result in results:
        typer.echo(result.message, err=result.run_id is None)
    sent = sum(result.run_id is not None for result in results)
    if not results:
        typer.echo(f"Nothing waits in {queue}.")
    elif sent < len(results):
        typer.echo(f"{sent} of {len(results)} runs sent; the rest wait in {queue}.", err=True)
        raise typer.Exit(1)


def _send_report(folder: Path, uri: str | None, project: str | None, pull_request: int | None) -> None:
    for path in folder.glob("*"):
        if path.is_symlink():  # in a folder that another job made, it could have this job send a file of its own
            raise TrackingError(
                "the report folder holds a link.", where=str(path), remedy="take the report again, as files"
            )
    record = reports.read_results(folder / "results.json")
    number = str(pull_request) if pull_request is not None else tracking.asking_pull_request(os.environ)
    with tempfile.TemporaryDirectory(prefix="fairgate-") as scratch:
        files = []
        for name, content in reports.rendered(
            record, reports.OutputContext(), "push", warn=partial(typer.echo, err=True)
        ):
            files.append(Path(scratch, name))
            files[-1].write_bytes(content)
        files += _scores(folder / "scores.parquet")
        files += _suite(folder, record)
        with friendly(1):
            known = {tracking.PULL_REQUEST: number} if number else {}
            sent = f"sent {', '.join(path.name for path in files)} as run"
            if uri is not None:
                run_id = tracking.log_run(record, files, uri=uri, more_tags=known)
                typer.echo(f"{sent} {run_id} of suite {record.suite!r}")
            if project is not None:
                outcome = tracking.log_to_wandb(record, files, project, tracking.WANDB_QUEUE, more_tags=known)
                typer.echo(outcome.message, err=outcome.run_id is None)
                if outcome.run_id is None:
                    raise typer.Exit(1)


def _scores(path: Path) -> list[Path]:
    if not path.is_file():
        return []
    if path.stat().st_size > 512 << 20:
        raise TrackingError(
            "the scores are larger than 512 MiB.", where=str(path), remedy="send the report without them"
        )
    with path.open("rb") as stream:
        start = stream.read(4)
        stream.seek(-min(4, path.stat().st_size), os.SEEK_END)
        if (start, stream.read()) != (b"PAR1", b"PAR1"):
            raise TrackingError("the scores are not a Parquet file.", where=str(path), remedy="take the report again")
    return [path]


def _suite(folder: Path, record: records.RunRecord) -> list[Path]:
    """The suite file, where it means what the record was made with."""
    path = next((entry for entry in folder.iterdir() if entry.name == f"{record.suite}.yaml" and entry.is_file()), None)
    if path is None:
        return []
    try:
        known = suites.load_suite(path, folder).digest == record.suite_digest
    except FairgateError as error:
        typer.echo(f"{path.name} is left out: {error.problem}", err=True)
        return []
    if not known:
        typer.echo(f"{path.name} is left out: it is not the suite that the record names.", err=True)
    return [path] if known else []


def history(
    suite: Annotated[str, typer.Argument(help="Name of a suite whose runs MLflow keeps.")],
    check: Annotated[
        str | None, typer.Option(metavar="ITEM", help="Only this check, or this item: skew, skew[doctor].")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="Only items about this subject.")] = None,
    branch: Annotated[str | None, typer.Option(help="Only runs of this branch.")] = None,
    pull_requests: Annotated[bool, typer.Option("--pull-requests", help="Runs of pull requests too.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The newest N runs.")] = 100,
    mlflow: Annotated[
        str, typer.Option(metavar="URI", envvar="FAIRGATE_MLFLOW", help="Store or server to read.")
    ] = tracking.DEFAULT_URI,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it too, on a page: FILE.html.")] = None,
) -> None:
    """How a suite's numbers moved from commit to commit, and at which one.

    Runs are joined only where dataset and question are the same; elsewhere the line is cut. A number moved if two
    runs in a row differ by more than both their intervals allow. Exit code 0: shown, 4: nothing to show, and why.
    """
    if out is not None and out.suffix.lower() != ".html":
        raise SettingsError(f"'{out.name}' is no page.", where="--out", remedy="name it FILE.html")
    runs = tracking.past_runs(suite, mlflow, limit=limit, branch=branch, pull_requests=pull_requests)
    past = tracking.suite_history(suite, runs, check=check, subject=subject)
    console = wide_console(140)
    typer.echo(f"{past.suite}: {reports.span_words(past)}")
    console.print(reports.history_table(past, console.width))
    echo_prose(reports.terminal_lines(past))
    if out is not None:
        with writing("the page", str(out)):
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(reports.history_html(past), encoding="utf-8")
        typer.echo(f"drawn: {out}")
