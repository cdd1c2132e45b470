"""`fairgate push`: send the runs that MLflow did not take when they were made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairgate.tracking import DEFAULT_QUEUE, DEFAULT_URI
from fairgate.tracking import push as send


def push(
    mlflow: Annotated[
        str, typer.Option("--mlflow", metavar="URI", envvar="FAIRGATE_MLFLOW", help="Store or server to send to.")
    ] = DEFAULT_URI,
    queue: Annotated[Path, typer.Option("--queue", metavar="DIR", help="Folder of waiting runs.")] = DEFAULT_QUEUE,
) -> None:
    """Send waiting runs to MLflow. Each is removed only after MLflow took it; a second push sends nothing twice.

    Exit code 0: nothing waits any more. 1: some runs still wait, and why.
    """
    results = send(queue, mlflow)
    for result in results:
        typer.echo(result.message, err=result.run_id is None)
    sent = sum(result.run_id is not None for result in results)
    if not results:
        typer.echo(f"Nothing waits in {queue}.")
    elif sent < len(results):
        typer.echo(f"{sent} of {len(results)} runs sent; the rest wait in {queue}.", err=True)
        raise typer.Exit(1)
