"""`fairgate dataset pull`: what DVC tracks, without running DVC on a branch's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairgate.cli.console import friendly

NO_VERDICT = 3


@friendly(NO_VERDICT)
def pull(
    targets: Annotated[
        list[str] | None,
        typer.Argument(help="Pointers (datasets.dvc) or tracked paths; all of *.dvc and dvc.lock when left out."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="The branch whose .dvc/config counts, such as origin/main. Left out, the default branch in CI, and "
            "this working tree elsewhere."
        ),
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace and remove files that differ from their pointer.")] = False,
    root: Annotated[Path, typer.Option(help="The repository, to which targets are relative.")] = Path(),
) -> None:
    """Fetch the datasets and checkpoints that DVC tracks. Exit code 0: they are here, 3: that was not possible.

    DVC itself does not run: which remote is read, and with which login, is decided by the base's .dvc/config. Paths are
    checked before anything is written, and objects before they take their place. Run it again to go on.
    """
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    from fairgate.baselines import Repository
    from fairgate.baselines import pull as fetch

    with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("fetching", total=None)
        done = fetch(
            Repository(root.resolve()),
            targets or (),
            base=base,
            force=force,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if not done:
        typer.echo("DVC tracks nothing here")
    for one in done:
        what = f"{one.fetched:,} fetched ({one.bytes / 1e6:,.1f} MB)" if one.fetched else "nothing to fetch"
        typer.echo(f"{one.path}: {one.files:,} file(s), {what}  [{one.pointer}]")
