"""`fairgate baseline`: look at the baselines of a suite, compare two, and make a new one on purpose."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fairgate import gate, records, reports, suites
from fairgate.gate import baselines
from fairgate.ground.errors import BaselineError, FairgateError, NoVerdict
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.check import gated
from fairgate.interfaces.cli.console import echo_prose, progress_line, wide_console

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
    record = _read(baseline, suite, root.resolve(), mlflow)
    typer.echo("\n".join(reports.baseline_lines(record)))
    console = wide_console(100)
    console.print(reports.baseline_table(record, console.width))


@baseline_app.command()
def diff(
    suite: options.Suite,
    before: Annotated[str, typer.Argument(help="git:REF, file:PATH, mlflow:latest or mlflow:RUN_ID.")] = "git:HEAD",
    now: Annotated[str | None, typer.Argument(help="The same; without it, the one in the working tree.")] = None,
    mlflow: Store = None,
    root: options.Root = Path(),
) -> None:
    """How two baselines differ: checkpoint, data, and each check's value. Nothing is decided here."""
    earlier = _read(before, suite, root.resolve(), mlflow)
    other = _read(now, suite, root.resolve(), mlflow)
    typer.echo("\n".join(reports.difference_lines(earlier, other)))
    wide_console(100).print(reports.difference_table(earlier, other))


@baseline_app.command()
def update(  # noqa: PLR0913, PLR0917 - typer makes an option of each
    suite: options.Suite,
    reason: Annotated[str | None, typer.Option(help="Why; saved in the baseline's record.")] = None,
    force: Annotated[bool, typer.Option(help="Keep a run that did not pass.")] = False,
    propose: Annotated[
        bool, typer.Option(help="Write the bounds that a first baseline proposes into the suite; never weaker ones.")
    ] = False,
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
    compared with nothing, and proposes bounds from what was measured.
    """
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
    echo_prose(gate.keep_baseline(evaluation, prepared, reason=reason or "", force=force))
    if first or propose:
        loaded = prepared.loaded
        bounds = suites.proposed_bounds(evaluation.record, loaded.suite)
        if propose:
            suites.write_bounds(loaded.path, bounds)
        echo_prose(suites.proposal_lines(bounds, loaded.suite, written=propose))


@baseline_app.command()
def anchor(
    suite: options.Suite,
    ref: Annotated[str | None, typer.Argument(help="A tag, a branch or a full hash; left out, the baseline's.")] = None,
    root: options.Root = Path(),
) -> None:
    """Pin a suite's anchor against slow drift: changes are then compared with the record at that commit, too.

    Writes `anchor: git:REF@HASH` into fairness_suites/SUITE.yaml. The hash decides, also once the tag has moved.
    """
    root = root.resolve()
    path, repository = suites.suite_path(suite, root), baselines.Repository(root)
    if ref is None:
        spec = baselines.parse_baseline(suites.load_suite(path, root).suite.baseline or "none")
        ref = spec.target if spec.kind == "git" else "HEAD"
    commit, folder = repository.tip(ref), baselines.baseline_folder(suite)
    if repository.read(commit, f"{folder}/results.json") is None:
        raise BaselineError(
            f"{ref} ({commit[:7]}) has no record of suite '{suite}'.",
            where=folder,
            remedy="name a commit that has one; `fairgate baseline update` makes one",
        )
    suites.write_anchor(path, f"git:{ref}@{commit}")
    typer.echo(f"{path.relative_to(root)}: anchor: git:{ref}@{commit}")


@baseline_app.command()
def verify(
    suite: Annotated[list[str] | None, typer.Argument(help="Suites; left out, all that have a record.")] = None,
    device: options.Device = None,
    cache: options.Cache = None,
    root: options.Root = Path(),
) -> None:
    """Recompute committed records from the checkpoints that they name, as CI on the main branch does.

    Exit code 0: every record is what its checkpoint answers; 1: one is not; 3: one could not be recomputed.
    """
    root, codes = root.resolve(), [0]
    names = suite or [
        name
        for name in suites.suite_names(root)
        if (root / baselines.baseline_folder(name) / baselines.RESULTS).is_file()
    ]
    if not names:
        raise NoVerdict("no suite has a record.", where=str(root), remedy="`fairgate baseline update` makes one")
    for name in names:
        folder = baselines.baseline_folder(name)
        try:
            record, prepared = reports.read_results(root / folder / baselines.RESULTS), gate.prepare(name, root)
            settings = gate.settings_of(
                prepared, model=record.model.uri, baseline="none", mlflow="off", device=device, cache=cache
            )
            with progress_line() as progress:
                typer.echo(f"{name}: {gate.verify_record(folder, prepared, settings, progress)}")
        except FairgateError as error:
            codes.append(1 if isinstance(error, BaselineError) and not isinstance(error, NoVerdict) else 3)
            typer.echo(f"{name}: {error}", err=True)
    if max(codes):
        raise typer.Exit(1 if 1 in codes else 3)


def _read(text: str | None, suite: str, root: Path, mlflow: str | None) -> records.RunRecord:
    """The record of a baseline (None: the one in the working tree), checked to be of its scores and suite."""
    suites.suite_path(suite, root)
    with tempfile.TemporaryDirectory(prefix="fairgate-") as scratch:
        named = baselines.parse_baseline(text or f"file:{baselines.baseline_folder(suite)}")
        files = gate.saved_record(named, suite, baselines.Repository(root), mlflow, Path(scratch))
        return reports.read_results(files.results)
