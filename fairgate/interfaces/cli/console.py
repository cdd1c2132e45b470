"""What all commands share: exit codes and messages of errors, output files and consoles."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fairgate import reports
from fairgate.ground.errors import FairgateError, SettingsError, disk_errors, harmless
from fairgate.ground.png import png_of

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console


FOUND = 1
"""Exit code of a command that did its work and found something wrong."""
INVALID = 4
"""Exit code of a command that could not do its work: bad usage, missing or invalid input (pytest's usage error)."""

_SILENT = 30.0
"""Seconds between two lines of progress in a log."""

INTERRUPTED = 130
"""Exit code of a command that was ended by Ctrl-C, as shells have it."""


_OF_PYTEST = re.compile(r"--fairness-([a-z-]+)")


def options_of(text: str, options: Collection[str]) -> str:
    """A message with the command's own names of options: `--model` for pytest's `--fairness-model`."""
    if "pytest" in text:
        return text
    return _OF_PYTEST.sub(lambda match: f"--{match[1]}" if f"--{match[1]}" in options else match[0], text)


@contextmanager
def friendly(code: int = INVALID, options: Collection[str] = ()) -> Iterator[None]:
    """Print a FairgateError (problem, where, remedy) to stderr and exit with `code`, or with the error's own exit code;
    usable as a decorator too. `options` are those of the command that is run.

    Ctrl-C ends a command with a line and exit code 130. Any other exception is a defect and keeps its traceback.
    """
    try:
        yield
    except FairgateError as error:
        lines = f"error: {options_of(str(error), options)}".splitlines()
        if sys.stderr.isatty():
            lines = [part for line in lines for part in _wrapped(line, wide_console(120).width)]
        typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
        typer.echo("\n".join(lines).removeprefix("error: "), err=True)
        raise typer.Exit(getattr(error, "exit_code", code)) from error
    except KeyboardInterrupt as stop:
        typer.echo("\ninterrupted: nothing was concluded. Finished work is saved; run it again to go on.", err=True)
        raise typer.Exit(INTERRUPTED) from stop


def wide_console(width: int) -> Console:
    """A terminal's own width or COLUMNS; else at least `width` columns: a log file has room for them."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console.width = max(console.width, width)
    return console


def echo_prose(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines, wrapped between words in a terminal, commands before options; a log has them as they are."""
    width = _prose_width()
    for line in lines:
        typer.echo("\n".join(_wrapped(line, width) if width else [line]), err=err)


def _wrapped(line: str, width: int) -> list[str]:
    parts = reports.fitted(line, width)
    if parts != [line] or len(line) <= width:
        return parts
    indent = " " * (2 + len(line) - len(line.lstrip()))
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _prose_width() -> int:
    """The columns of a terminal, or of COLUMNS; 0 for a log, in which no line is wrapped."""
    console = wide_console(120)
    return console.width if console.is_terminal or os.environ.get("COLUMNS") else 0


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str | tuple[str, str]]], *, title: str, width: int = 0
) -> None:
    """Print a table of at least `width` columns: in a narrower terminal lines wrap, and nothing is cut."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(console.width, width)
    console.print(reports.text_table(columns, rows, title=title))


def print_facts(facts: Mapping[str, str | None]) -> None:
    """Print what is known, a line each: names in bold, and texts wrapped beside them in a terminal."""
    width = _prose_width()
    for name, text in facts.items():
        if text:
            shown = harmless(text)
            lines = (
                textwrap.wrap(shown, width - 12, break_long_words=False, break_on_hyphens=False)
                if width > 32
                else [shown]
            )
            typer.echo(typer.style(f"{name:<12}", bold=True) + f"\n{'':<12}".join(lines))


@contextmanager
def progress_line() -> Iterator[Callable[[str, int, int], None]]:
    """A line on stderr with how much is done of how much, while the block runs; outside of a terminal, where nothing is
    overwritten, a new line each `_SILENT` seconds."""
    from rich.console import Console
    from rich.text import Text

    console, told = Console(stderr=True), time.monotonic()

    def log(what: str, done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told >= _SILENT:
            told = time.monotonic()
            typer.echo(f"{what}: {done:,} of {total:,}", err=True)

    if not console.is_terminal:
        yield log
        return
    with console.status("fairgate") as status:
        yield lambda what, done, total: status.update(Text(f"{what}: {done:,} of {total:,}"))


def writing(what: str, where: str) -> AbstractContextManager[None]:
    """Raises SettingsError where the block cannot write `what`."""
    remedy = "name a place in a folder that can be written, and has room"
    return disk_errors(SettingsError, f"{what} cannot be written", where, remedy)


def write_report(texts: Mapping[Path, str | bytes]) -> None:
    """Write files, in folders that are made where they are not there, and print their names. Raises SettingsError."""
    for path, text in texts.items():
        with writing("the report", str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        typer.echo(f"report: {path}")


def write_png(out: Path, draw: Callable[[], Image]) -> Image:
    """Draw a picture and write it. Raises SettingsError for a name that is no PNG file's, before it is drawn, and where
    it cannot be written."""
    if out.suffix.lower() != ".png":
        raise SettingsError(
            "the picture cannot be written: it is a PNG.", where=f"--out {out}", remedy="name a file that ends in .png"
        )
    picture = draw()
    with writing("the picture", f"--out {out}"):
        out.write_bytes(png_of(picture))
    return picture
