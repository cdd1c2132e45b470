"""`fairgate baseline`: look at the baselines of a suite, compare two, and make a new one on purpose."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairgate.cli import options
from fairgate.cli.console import wide_console

if TYPE_CHECKING:
    from fairgate.records import RunRecord


baseline_app = typer.Typer(no_args_is_help=True, help="Show, compare and update what checkpoints are compared with.")

Store = Annotated[str | None, typer.Option(envvar="FAIRGATE_MLFLOW", help="Tracking URI, for `mlflow:` baselines.")]


@baseline_app.command()
def show(
    suite: options.Suite,
    baseline: Annotated[str | None, typer.Argument(help="git:REF, file:PATH, mlflow:latest or mlflow:RUN_ID.")] = None,
    mlflow: Store = None,
    root: options.Root = Path(),
) -> None:
    """What a baseline holds: which checkpoint, on which data, why, and every check's value."""
    from fairgate.reports import baseline_lines, baseline_table

    record = _read(baseline, suite, root.resolve(), mlflow)
    typer.echo("\n".join(baseline_lines(record)))
    wide_console(100).print(baseline_table(record))


@baseline_app.command()
def diff(
    suite: options.Suite,
    before: Annotated[str, typer.Argument(help="git:REF, file:PATH, mlflow:latest or mlflow:RUN_ID.")] = "git:HEAD",
    now: Annotated[str | None, typer.Argument(help="The same; without it, the one in the working tree.")] = None,
    mlflow: Store = None,
    root: options.Root = Path(),
) -> None:
    """How two baselines differ: checkpoint, data, and each check's value. Nothing is decided here."""
    from fairgate.reports import difference_lines, difference_table

    one = _read(before, suite, root.resolve(), mlflow)
    other = _read(now, suite, root.resolve(), mlflow)
    typer.echo("\n".join(difference_lines(one, other)))
    wide_console(100).print(difference_table(one, other))


@baseline_app.command()
def update(
    suite: options.Suite,
    reason: Annotated[str | None, typer.Option(help="Why; saved in the baseline's record.")] = None,
    force: Annotated[bool, typer.Option(help="Keep a run that did not pass.")] = False,
    model: options.Model = None,
    baseline: options.Baseline = None,
    report: options.Report = None,
    mlflow: options.Mlflow = None,
    device: options.Device = None,
    cache: options.Cache = None,
    root: options.Root = Path(),
) -> None:
    """Judge a checkpoint and keep it as the baseline under fairness_suites/baselines/SUITE/.

    Refused in CI, without a reason, and, unless forced, for a run that did not pass. The first baseline of a suite is
    compared with nothing.
    """
    from fairgate import gate
    from fairgate.cli.check import gated

    gate.refuse_update(reason)
    prepared = gate.prepare(suite, root.resolve())
    settings = gate.settings_of(
        prepared, model=model, baseline=baseline, report=report, mlflow=mlflow, device=device, cache=cache
    )
    first = gate.first_baseline(prepared, settings, baseline)
    if first:
        typer.echo("This is the suite's first baseline: there is nothing to compare it with yet.")
        settings = replace(settings, baseline="none")
    evaluation = gated(prepared, settings, first_baseline=first)
    typer.echo("\n".join(gate.keep_baseline(evaluation, prepared, reason=reason or "", force=force)))


def _read(text: str | None, suite: str, root: Path, mlflow: str | None) -> RunRecord:
    """The record of a baseline (None: the one in the working tree), checked to be of its scores and suite."""
    from fairgate import gate
    from fairgate.baselines import baseline_folder, parse_baseline
    from fairgate.reports import read_results
    from fairgate.suites import suite_path

    suite_path(suite, root)
    with tempfile.TemporaryDirectory(prefix="fairgate-") as scratch:
        named = parse_baseline(text or f"file:{baseline_folder(suite)}")
        return read_results(gate.saved_record(named, suite, root, mlflow, Path(scratch)).results)
