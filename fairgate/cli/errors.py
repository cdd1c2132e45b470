"""How a command ends when something is wrong: the three parts of the error on stderr, and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from fairgate.errors import FairgateError

FOUND = 1
"""Exit code of a command that did its work and found something wrong."""
INVALID = 4
"""Exit code of a command that could not do its work: bad usage, missing or invalid input (pytest's usage error)."""

INTERRUPTED = 130
"""Exit code of a command that was ended by Ctrl-C, as shells have it."""


@contextmanager
def friendly(code: int = INVALID) -> Iterator[None]:
    """Print a FairgateError (problem, where, remedy) to stderr and exit with `code`, or with the error's own exit code;
    usable as a decorator too.

    Ctrl-C ends a command with a line and exit code 130. Any other exception is a defect and keeps its traceback.
    """
    try:
        yield
    except FairgateError as error:
        print_error(error)
        raise typer.Exit(getattr(error, "exit_code", code)) from error
    except KeyboardInterrupt as stop:
        typer.echo("\ninterrupted: nothing was concluded. What is finished is kept; run it again to go on.", err=True)
        raise typer.Exit(INTERRUPTED) from stop


def print_error(error: FairgateError) -> None:
    """The error's three parts on stderr."""
    typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
    typer.echo(str(error), err=True)
