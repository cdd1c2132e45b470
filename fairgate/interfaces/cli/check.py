"""`fairgate check`: the gate without pytest; the same evaluation, the same verdicts, the same exit codes."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from fairgate import gate, records, reports, suites
from fairgate.ground.errors import FairgateError, SettingsError
from fairgate.ground.local_paths import require_local
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import options_of, progress_line, wide_console
from fairgate.interfaces.cli.profile import profiled
from fairgate.suites import OPTIONS

_OPTIONS = frozenset(f"--{name}" for name in OPTIONS)


def check(  # noqa: PLR0913, PLR0917 - typer makes an option of each
    ctx: typer.Context,
    suite: options.Suite,
    model: options.Model = None,
    baseline: options.Baseline = None,
    base: Annotated[str | None, options.of_gate("base")] = None,
    report: options.Report = None,
    mlflow: options.Mlflow = None,
    wandb: options.Wandb = None,
    on_inconclusive: Annotated[str | None, options.of_gate("on-inconclusive")] = None,
    device: options.Device = None,
    cache: options.Cache = None,
    allow_pickle: options.AllowPickle = False,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile", help="Print where the time went; write fairgate-trace.json for Perfetto beside the report."
        ),
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(metavar="K/N", help="Score the K-th of N shares of the images; `fairgate merge` decides."),
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray: its workers score shares of the images.")] = "local",
    workers: Annotated[int | None, typer.Option(help="Workers of ray (default: one per GPU, or core).")] = None,
    root: options.Root = Path(),
) -> None:
    """Gate a checkpoint.

    Exit code 0: it passes; 1: a check failed, or the evidence is too thin; 3: no verdict, because something could not
    be computed (the checkpoint could not be read, a server is down) and nothing failed; 4: the suite or an option is
    wrong; 10: every check passes, and a person has to approve what else the change brings (`fairgate approve`).
    """
    typed: dict[str, Any] = {"model": model, "baseline": baseline, "base": base, "report": report, "mlflow": mlflow}
    typed |= {"wandb": wandb, "on_inconclusive": on_inconclusive, "device": device, "cache": cache}
    folder = root.resolve()
    if profile:
        beside = report or os.environ.get(OPTIONS["report"].environment)
        ctx.with_resource(profiled(require_local(beside, "--report") if beside else folder))
    with _no_verdict_of_defects():
        portion, crew = None if shard is None else gate.read_shard(shard), (engine, workers)
        if crew != ("local", None) and (portion is not None or engine == "local"):
            raise SettingsError(
                "one job scores on one machine, by itself.",
                where="--shard" if portion is not None else "--workers",
                remedy="use --engine ray without --shard, or --shard K/N alone",
            )
        gate.clear_report(suite, folder, report, baseline)
        prepared = gate.prepare(suite, folder, suites.named_bases(base))
        settings = gate.settings_of(prepared, **typed, allow_pickle=allow_pickle)
        if portion is None:
            on_workers = None if crew == ("local", None) else partial(gate.evaluate_on, *crew)
            _exit_as_judged(gated(prepared, settings, evaluate=on_workers))
            return
        with progress_line() as progress:
            written = gate.write_part(*gate.hold(prepared, settings), portion, progress)
        typer.echo(written)


def merge(
    parts: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders that `fairgate check --shard` wrote, all of them.")
    ],
    model: options.Model = None,
    baseline: options.Baseline = None,
    base: Annotated[str | None, options.of_gate("base")] = None,
    report: options.Report = None,
    mlflow: options.Mlflow = None,
    wandb: options.Wandb = None,
    on_inconclusive: Annotated[str | None, options.of_gate("on-inconclusive")] = None,
    allow_pickle: options.AllowPickle = False,
    root: options.Root = Path(),
) -> None:
    """Gate a checkpoint that several jobs scored (`fairgate check --shard K/N`): one record, with their options.

    Exit codes are those of `fairgate check`; 3 also if a part is missing, changed, or was made of something else.
    """
    typed: dict[str, Any] = {"model": model, "baseline": baseline, "base": base, "report": report, "mlflow": mlflow}
    typed |= {"wandb": wandb, "on_inconclusive": on_inconclusive}
    folder = root.resolve()
    with _no_verdict_of_defects():
        try:
            read = gate.read_parts(parts, folder)
        except FairgateError:
            gate.clear_report("", folder, report, baseline)
            raise
        suite = read[0].part.suite
        gate.clear_report(suite, folder, report, baseline)
        prepared = gate.prepare(suite, folder, suites.named_bases(base))
        settings = gate.settings_of(prepared, **typed, allow_pickle=allow_pickle)
        _exit_as_judged(gated(prepared, settings, evaluate=partial(gate.evaluate_parts, read)))


@contextlib.contextmanager
def _no_verdict_of_defects() -> Iterator[None]:
    try:
        yield
    except (FairgateError, typer.Exit):
        raise
    except Exception as defect:  # Python would exit with 1, which says "more biased"
        traceback.print_exc()
        typer.echo("no verdict: fairgate broke off with the error above, which is a defect of it", err=True)
        raise typer.Exit(records.NO_VERDICT) from defect


def _exit_as_judged(evaluation: gate.Evaluation) -> None:
    if evaluation.record.exit_code != records.OPEN:
        raise typer.Exit(evaluation.record.exit_code)


class Evaluate(Protocol):
    """Scores and decides: `gate.evaluate`, or another way to the same record."""

    def __call__(
        self, prepared: gate.Prepared, settings: suites.Settings, /, *, progress: gate.Progress | None = None
    ) -> gate.Evaluation: ...


def gated(
    prepared: gate.Prepared,
    settings: suites.Settings,
    *,
    first_baseline: bool = False,
    evaluate: Evaluate | None = None,
) -> gate.Evaluation:
    """Evaluate, publish and print: what `fairgate check` does once its options are known."""
    prepared, settings = gate.hold(prepared, settings)
    console = wide_console(120)
    with progress_line() as progress:
        evaluation = (evaluate or gate.evaluate)(prepared, settings, progress=progress)
    if evaluation.record.exit_code == records.NO_VERDICT or settings.mlflow or settings.wandb:  # before they are told
        typer.echo(reports.inert(f"{evaluation.record.suite}: {reports.verdict_words(evaluation.record)}"))
    console.print(reports.terminal_table(evaluation.record, console.width))
    try:
        evaluation = gate.publish(evaluation, prepared, settings)
        reports.tell_github(evaluation.record, typer.echo, warn=partial(typer.echo, err=True))
    except KeyboardInterrupt as stop:  # the exit code is that of the verdict that is printed
        typer.echo(f"\n{gate.INTERRUPTED}", err=True)
        raise typer.Exit(evaluation.record.exit_code) from stop
    finally:  # the finding is the last that is printed, also if a server that does not answer was interrupted
        lines = reports.terminal_summary(
            evaluation.record, first_baseline=first_baseline, report=settings.report, messages=evaluation.messages
        )
        for line in "\n".join(lines).splitlines():
            typer.echo(options_of(line, _OPTIONS))  # the record's words are also pytest's
    return evaluation
