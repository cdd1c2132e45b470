"""What all commands share: exit codes and messages of errors, output files, consoles, and reports to GitHub runners."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fairgate.errors import FairgateError, SettingsError

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console

    from fairgate.records import RunRecord


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
        typer.echo("\ninterrupted: nothing was concluded. Finished work is saved; run it again to go on.", err=True)
        raise typer.Exit(INTERRUPTED) from stop


def wide_console(width: int) -> Console:
    """A terminal's own width, or at least `width` columns: a log file has room for them."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, width)
    return console


@contextmanager
def progress_line() -> Iterator[Callable[[str, int, int], None]]:
    """A line on stderr that says how many images are done of how many, while the block runs."""
    from rich.console import Console

    with Console(stderr=True).status("fairgate") as status:
        yield lambda what, done, total: status.update(f"{what}: {done:,}/{total:,} images")


def print_error(error: FairgateError) -> None:
    """The error's three parts on stderr."""
    typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
    typer.echo(str(error), err=True)


@contextmanager
def writing(what: str, out: Path) -> Iterator[None]:
    """Raises SettingsError where the block cannot write `what` to `--out`."""
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"{what} cannot be written ({error.strerror or error}).",
            where=f"--out {out}",
            remedy="name a place in a folder that can be written, and has room",
        ) from error


def write_report(texts: Mapping[Path, str]) -> None:
    """Write files, in folders that are made where they are not there, and print their names. Raises SettingsError."""
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise SettingsError(
                f"the report cannot be written ({error.strerror or error}).",
                where=str(path),
                remedy="name a folder that can be written, and has room",
            ) from error
        typer.echo(f"report: {path}")


def write_png(out: Path, draw: Callable[[], Image]) -> Image:
    """Draw a picture and write it. Raises SettingsError for a name that is no PNG file's, before it is drawn, and where
    it cannot be written."""
    if out.suffix.lower() != ".png":
        raise SettingsError(
            "the picture cannot be written: it is a PNG.", where=f"--out {out}", remedy="name a file that ends in .png"
        )
    picture = draw()
    with writing("the picture", out):
        picture.save(out, "PNG")
    return picture


def tell_github(record: RunRecord, environment: Mapping[str, str] | None = None) -> None:
    """Print annotations where GITHUB_ACTIONS is `true`, and append to the file that GITHUB_STEP_SUMMARY names.

    Does nothing elsewhere. A summary that cannot be written is said on stderr and changes nothing.
    """
    env = os.environ if environment is None else environment
    if env.get("GITHUB_ACTIONS") == "true":
        from fairgate.reports import github_annotations

        for line in github_annotations(record):
            typer.echo(line)
    if summary := env.get("GITHUB_STEP_SUMMARY"):
        from fairgate.reports import append_summary

        trouble = append_summary(record, Path(summary))
        if trouble is not None:
            typer.echo(trouble, err=True)
