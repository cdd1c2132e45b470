"""The `fairgate` command."""

from __future__ import annotations

import io
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fairgate.ground.plugins import Registry
from fairgate.ground.working_folder import refuse_libraries
from fairgate.interfaces.cli.approve import approve
from fairgate.interfaces.cli.audit import audit
from fairgate.interfaces.cli.baseline import baseline_app
from fairgate.interfaces.cli.build import build_app
from fairgate.interfaces.cli.card import card
from fairgate.interfaces.cli.check import check
from fairgate.interfaces.cli.console import friendly
from fairgate.interfaces.cli.dataset import dataset_app
from fairgate.interfaces.cli.doctor import doctor
from fairgate.interfaces.cli.head import head_app
from fairgate.interfaces.cli.history import history
from fairgate.interfaces.cli.init import init
from fairgate.interfaces.cli.mitigate import mitigate_app
from fairgate.interfaces.cli.power import power
from fairgate.interfaces.cli.push import push
from fairgate.interfaces.cli.report import report_app
from fairgate.interfaces.cli.review import release, review
from fairgate.interfaces.cli.study import study_app
from fairgate.interfaces.cli.suite import suite_app
from fairgate.interfaces.installed import use_installed_packages


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

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names: the package's own first."""
        return list(dict.fromkeys([*super().list_commands(ctx), *PLUGINS]))

    def invoke(self, ctx: Any) -> Any:
        """Run a command; its errors are printed, with its own names of options, and become its exit code."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a path may be no text of the terminal's encoding
        with friendly(options=_options(self, ctx)):
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by name, None where there is none."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in PLUGINS:
            return own
        with friendly():
            return PLUGINS[cmd_name]


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A regression test gate for the fairness of vision models.",
)

for command in (init, check, approve, audit, history, card, doctor, power, push, review, release):
    app.command()(command)
app.add_typer(baseline_app, name="baseline")
app.add_typer(build_app, name="build")
app.add_typer(dataset_app, name="dataset")
app.add_typer(head_app, name="head")
app.add_typer(mitigate_app, name="mitigate")
app.add_typer(report_app, name="report")
app.add_typer(study_app, name="study")
app.add_typer(suite_app, name="suite")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False) -> None:
    if version:
        from fairgate.version import __version__

        typer.echo(__version__)
        raise typer.Exit
    refuse_libraries()
    use_installed_packages()
