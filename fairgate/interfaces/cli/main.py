"""The `fairgate` command."""

from __future__ import annotations

import atexit
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fairgate.ground.local_paths import require_local
from fairgate.ground.plugins import Registry
from fairgate.ground.working_folder import refuse_libraries
from fairgate.interfaces import end_quickly, use_installed_packages
from fairgate.interfaces.cli.console import INVALID, friendly
from fairgate.version import __version__


def _checked(name: str, thing: Any) -> Any:
    """A command of click, from a Typer app or a function."""
    if not isinstance(thing, typer.Typer):
        if not callable(thing):
            raise TypeError("it is neither a function nor a typer.Typer")
        thing, function = typer.Typer(add_completion=False), thing
        thing.command()(function)
    command = typer.main.get_command(thing)
    command.name = name
    return command


_OWN = {
    **{"init": "suite:init", "check": "check:check", "merge": "check:merge", "approve": "check:approve"},
    **{"audit": "studies:audit", "history": "tracking:history", "doctor": "doctor:doctor", "power": "studies:power"},
    **{"card": "report:card", "push": "tracking:push", "review": "review:review", "release": "review:release"},
    **{"baseline": "baseline:baseline_app", "build": "build:build_app", "dataset": "dataset:dataset_app"},
    **{"head": "mitigate:head_app", "mitigate": "mitigate:mitigate_app"},
    **{"report": "report:report_app", "study": "studies:study_app", "suite": "suite:suite_app"},
}
"""Command -> its module there, and its function or group of commands. A command is built when it is called."""


@cache
def _own(name: str) -> Any:
    """A command of fairgate, imported and built when it is called, or for the list of commands."""
    module, _, attribute = _OWN[name].partition(":")
    thing = getattr(import_module(f"{__package__}.{module}"), attribute)
    command = typer.main.get_group(thing) if isinstance(thing, typer.Typer) else _checked(name, thing)
    command.name = name
    return command


_TYPES = {"str": "TEXT", "path": "PATH", "int": "N", "float": "NUMBER"}


def _type_word(option: Any, ctx: Any) -> str:
    """What an option takes, for its help: Typer shows Python's types, such as `<list[str]>`."""
    python: str = type(option).display_type(option, ctx).strip("<>").removeprefix("list[").removesuffix("]")
    return _TYPES.get(python.removesuffix(" range").lower(), python)


def _of_paths(command: Any) -> Any:
    """A command, or a group with its commands, that refuses `s3://bucket/name` as a path.

    Its help is plain text: rich swallows words in brackets, and cuts long names in a terminal of 80 columns.
    """
    command.rich_markup_mode = None
    command.short_help = command.short_help or (command.help or "").partition("\n\n")[0]  # click cuts what it shortens
    if hasattr(command, "get_command"):
        find = type(command).get_command
        command.get_command = lambda ctx, name: (subcommand := find(command, ctx, name)) and _of_paths(subcommand)
        return command
    for option in command.params:
        option.display_type = partial(_type_word, option)
    run, options = type(command).invoke, {option.name: option.opts[0] for option in command.params}

    def invoke(ctx: Any) -> Any:
        for name, value in ctx.params.items():
            for path in value if isinstance(value, list | tuple) else [value]:
                if isinstance(path, Path):
                    require_local(path, options[name])
        return run(command, ctx)

    command.invoke = invoke
    return command


_USAGE: Any = typer.BadParameter.__mro__[1]
"""click's error of an option or argument, which Typer does not offer."""


@contextmanager
def _wrong_usage() -> Iterator[None]:
    """An error of an option or argument ends with fairgate's exit code: click's own is 2, which no page names."""
    try:
        yield
    except _USAGE as error:
        error.exit_code = INVALID
        raise


PLUGINS: Registry[Any] = Registry("command", _checked)
"""Commands by the entry points `fairgate.commands`; each is imported when it is called, or for the list of commands."""


def _options(group: Any, ctx: Any) -> set[str]:
    """The options of the command that the words of a context name, in groups of commands or not."""
    command = group
    for word in (*ctx._protected_args, *ctx.args):  # click has no other name for what is still to be run
        if word.startswith("-") or not hasattr(command, "get_command"):
            break
        command = command.get_command(ctx, word) or command
    return {name for parameter in command.params for name in parameter.opts}


class Commands(TyperGroup):
    """The commands below, and those that installed packages add; no package can take the name of one below."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click passes it
        """Their names: the package's own first."""
        return list(dict.fromkeys([*_OWN, *PLUGINS]))

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse what is before the command's name."""
        with _wrong_usage():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; its errors are printed, with its own names of options, and become its exit code."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a path may be no text of the terminal's encoding
        with friendly(options=_options(self, ctx)), _wrong_usage():
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click passes it
        """A command by name, None where there is none."""
        if cmd_name in _OWN:
            return _of_paths(_own(cmd_name))
        if cmd_name not in PLUGINS:
            return None
        with friendly():
            return _of_paths(PLUGINS[cmd_name])


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A regression test gate for the fairness of vision models.",
)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
    atexit.register(end_quickly)
    refuse_libraries()
    use_installed_packages()
