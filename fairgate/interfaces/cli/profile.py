"""What `fairgate check --profile` prints and writes: where the run's time went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from fairgate.ground.atomic import atomic_write
from fairgate.ground.spans import Recording, recorded
from fairgate.interfaces.cli.console import print_table

TRACE = "fairgate-trace.json"


@contextmanager
def profiled(folder: Path) -> Iterator[None]:
    """Record the block, print the sums of its phases, and write its trace into a folder; a full disk is a warning."""
    try:
        with recorded() as recording:
            yield
    finally:
        _show(recording)
        _write(recording, folder / TRACE)


def _write(recording: Recording, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, recording.trace())
    except OSError as error:
        typer.echo(f"warning: the trace was not written: {error.strerror or error}.\n  where:  {path}", err=True)
        return
    typer.echo(f"trace: {path} (https://ui.perfetto.dev opens it)")


def _show(recording: Recording) -> None:
    phases = sorted(recording.phases.items(), key=lambda item: -item[1].seconds)
    rows = [
        (name, f"{phase.calls:,}", *_share(phase.seconds, recording), f"{phase.elsewhere:.3f}" * bool(phase.elsewhere))
        for name, phase in phases
    ]
    rest = recording.seconds - sum(phase.seconds for _, phase in phases)
    rows += [("other", "", *_share(rest, recording), ""), ("in all", "", *_share(recording.seconds, recording), "")]
    columns = ("~phase", ">calls", ">seconds", ">share", ">in other threads")
    print_table(columns, rows, title=f"Where {recording.seconds:.2f} s went, after start-up")


def _share(seconds: float, recording: Recording) -> tuple[str, str]:
    return f"{seconds:.3f}", f"{seconds / recording.seconds:.0%}"
