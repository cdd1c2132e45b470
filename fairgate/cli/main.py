"""The `fairgate` command."""

from __future__ import annotations

from typing import Annotated

import typer

from fairgate.cli.audit import audit
from fairgate.cli.baseline import baseline_app
from fairgate.cli.build import build_app
from fairgate.cli.check import check
from fairgate.cli.dataset import dataset_app
from fairgate.cli.demo import demo
from fairgate.cli.doctor import doctor
from fairgate.cli.history import history
from fairgate.cli.portraits import portraits_app
from fairgate.cli.power import power
from fairgate.cli.push import push
from fairgate.cli.report import report_app
from fairgate.cli.review import release, review
from fairgate.cli.suite import suite_app

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A regression test gate for the fairness of vision models.",
)

app.command()(check)
app.command()(audit)
app.command()(demo)
app.command()(history)
app.command()(doctor)
app.command()(power)
app.command()(push)
app.command()(review)
app.command()(release)
app.add_typer(baseline_app, name="baseline")
app.add_typer(build_app, name="build")
app.add_typer(dataset_app, name="dataset")
app.add_typer(portraits_app, name="portraits")
app.add_typer(report_app, name="report")
app.add_typer(suite_app, name="suite")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False) -> None:
    if version:
        from fairgate.version import __version__

        typer.echo(__version__)
        raise typer.Exit
