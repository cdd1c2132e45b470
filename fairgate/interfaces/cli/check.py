"""`fairgate check`, `merge` and `approve`: the gate without pytest, with its verdicts and exit codes; `--profile`."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fairgate import gate, records, reports, suites
from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import FairgateError, SettingsError
from fairgate.ground.local_paths import require_local
from fairgate.ground.spans import Recording, recorded
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import options_of, print_table, progress_line, wide_console
from fairgate.suites import OPTIONS

_OPTIONS = frozenset(f"--{name}" for name in OPTIONS)


@options.of_every_gate
def check(
    ctx: typer.Context,
    suite: options.Suite,
    device: options.Device = None,
    cache: options.Cache = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile", help="Print where the time went; write fairgate-trace.json for Perfetto beside the report."
        ),
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(metavar="K/N", help="Score the K-th of N shards of the images; `fairgate merge` decides."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="local|ray",
            help="ray: its workers score shards of the images. It needs `fairgate[ray]`, and this repository "
            "at the same path on each node.",
        ),
    ] = "local",
    workers: Annotated[int | None, typer.Option(help="Workers of ray (default: one per GPU, or core).")] = None,
    **given: Any,
) -> None:
    """Gate a checkpoint.

    Exit code 0: it passes; 1: a check failed, or the evidence is too thin; 3: no verdict, because something could not
    be computed (the checkpoint could not be read, a server is down) and nothing failed; 4: the suite or an option is
    wrong; 10: every check passes, and a person has to approve what else the change brings (`fairgate approve`).
    """
    folder: Path = given.pop("root").resolve()
    if profile:
        beside = given["report"] or os.environ.get(OPTIONS["report"].environment)
        ctx.with_resource(profiled(require_local(beside, "--report") if beside else folder))
    with _no_verdict_of_defects():
        job, crew = None if shard is None else gate.read_shard(shard), (engine, workers)
        if crew != ("local", None) and (job is not None or engine == "local"):
            raise SettingsError(
                "one job scores on one machine, by itself.",
                where="--shard" if job is not None else "--workers",
                remedy="use --engine ray without --shard, or --shard K/N alone",
            )
        prepared, settings = _ready(suite, folder, given | {"device": device, "cache": cache})
        if job is None:
            on_workers = None if crew == ("local", None) else partial(gate.evaluate_on, *crew)
            _exit_as_judged(gated(prepared, settings, evaluate=on_workers))
            return
        with progress_line() as progress:
            written = gate.write_part(*gate.hold(prepared, settings), job, progress)
        typer.echo(written)


@options.of_every_gate
def merge(
    parts: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders that `fairgate check --shard` wrote, all of them.")
    ],
    **given: Any,
) -> None:
    """Gate a checkpoint that several jobs scored (`fairgate check --shard K/N`): one record, with their options.

    Exit codes are those of `fairgate check`; 3 also if a part is missing, changed, or was made of something else.
    """
    folder: Path = given.pop("root").resolve()
    with _no_verdict_of_defects():
        try:
            read = gate.read_parts(parts, folder)
        except FairgateError:
            gate.clear_report("", folder, given["report"], given["baseline"])
            raise
        prepared, settings = _ready(read[0].part.suite, folder, given)
        _exit_as_judged(gated(prepared, settings, evaluate=partial(gate.evaluate_parts, read)))


def _ready(suite: str, folder: Path, given: Mapping[str, Any]) -> tuple[gate.Prepared, suites.Settings]:
    """The suite and the settings of a run, with the options that were `given`."""
    gate.clear_report(suite, folder, given["report"], given["baseline"])
    prepared = gate.prepare(suite, folder, suites.named_bases(given["base"]))
    return prepared, gate.settings_of(prepared, **given)


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


def gated(
    prepared: gate.Prepared,
    settings: suites.Settings,
    *,
    first_baseline: bool = False,
    evaluate: Callable[..., gate.Evaluation] | None = None,
) -> gate.Evaluation:
    """Evaluate (by `gate.evaluate`, or another way to the same record), publish and print."""
    prepared, settings = gate.hold(prepared, settings)
    console = wide_console(120)
    with progress_line() as progress:
        evaluation = (evaluate or gate.evaluate)(prepared, settings, progress=progress)
    told = settings.mlflow or settings.wandb  # the verdict comes before them
    if evaluation.record.exit_code == records.NO_VERDICT or (told and not first_baseline):
        typer.echo(reports.inert(f"{evaluation.record.suite}: {reports.verdict_words(evaluation.record)}"))
    if reports.common_cause(evaluation.record) is None:
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
            own = options_of(line, _OPTIONS)  # the record's words are also pytest's
            log = not (console.is_terminal or os.environ.get("COLUMNS"))  # which wraps nothing
            typer.echo(own if log else "\n".join(reports.fitted(own, console.width)))
    return evaluation


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


_DAYS = 30


def approve(
    suite: options.Suite,
    reason: Annotated[str, typer.Option(help="Why the change is accepted, for every report.")],
    report: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="The report folder of the run that asks for it.")
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(metavar="DATE", formats=["%Y-%m-%d"], help=f"Last day, YYYY-MM-DD; left out, in {_DAYS} days."),
    ] = None,
    root: options.Root = Path(),
) -> None:
    """Approve what a run needs approval for (exit code 10), after somebody has reviewed it.

    Adds a line a change to `approvals:` in fairness_suites/SUITE.yaml. Merge that by itself into the default branch,
    then run the gate of the pull request again. An approval of a branch does not count on that branch.
    """
    root = root.resolve()
    folder = report or root / "fairness-report"
    path, record = suites.suite_path(suite, root), reports.read_results(folder / "results.json")
    if record.suite != suite:
        problem = f"the report is of suite '{record.suite}', not of '{suite}'."
        raise SettingsError(problem, where=str(folder), remedy="name its folder with --from DIR")
    if not record.needs_approval:
        raise SettingsError("that run needs no approval.", where=str(folder), remedy="nothing to do")
    today = datetime.now(UTC).date()
    day = today + timedelta(days=_DAYS) if until is None else until.date()
    if day < today:
        raise SettingsError(f"{day} is over.", where="--until", remedy="name a day to come")
    for line in suites.add_approvals(path, record.needs_approval, reason=reason.strip(), until=day):
        typer.echo(f"approved: {line}")
    typer.echo(f"wrote {path.relative_to(root)}: merge it into the default branch by itself, then run the gate again")
