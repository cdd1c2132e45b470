"""`fairgate power`: how small a regression a suite can see, and how many sets a smaller one would take."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairgate.cli.console import friendly, progress_line, wide_console, write_report
from fairgate.suites import OPTIONS

if TYPE_CHECKING:
    from fairgate.suites import Settings

TABLE_WIDTH = 140  # the table needs this much, and a log file has room for it


@friendly()
def power(
    suite: Annotated[str, typer.Argument(help="Name of a suite in fairness_suites/.")],
    model: Annotated[str | None, typer.Option(help=OPTIONS["model"].help)] = None,
    baseline: Annotated[str | None, typer.Option(help=OPTIONS["baseline"].help)] = None,
    wanted: Annotated[float | None, typer.Option(help="Regression to be seen (default: twice each margin).")] = None,
    odds: Annotated[float, typer.Option(help="How often a visible regression fails the gate.")] = 0.8,
    report: Annotated[Path | None, typer.Option(help="Write power.json and power.html here.")] = None,
    device: Annotated[str | None, typer.Option(help=OPTIONS["device"].help)] = None,
    cache: Annotated[str | None, typer.Option(help=OPTIONS["cache"].help)] = None,
    allow_pickle: Annotated[bool, typer.Option(help="Load checkpoints that can run code; refused in CI.")] = False,
    root: Annotated[Path, typer.Option(help="The repository: fairness_suites/ and datasets/ are here.")] = Path(),
) -> None:
    """How small a regression a suite can see. Exit code 0: computed, 4: the suite or an option is wrong."""
    from fairgate import gate
    from fairgate.power import suite_power
    from fairgate.reports import power_html, power_lines, power_table

    prepared = gate.prepare(suite, root.resolve())
    settings = gate.settings_of(
        prepared, model=model, baseline=baseline, device=device, cache=cache, mlflow="off", allow_pickle=allow_pickle
    )
    console = wide_console(TABLE_WIDTH)
    with progress_line() as progress:
        command = _command(suite, settings, wanted, odds)
        record = suite_power(prepared, settings, command=command, wanted=wanted, odds=odds, progress=progress)
    console.print(power_table(record))
    for line in power_lines(record):
        typer.echo(line)
    if report is not None:
        texts = {"power.json": record.model_dump_json(indent=2) + "\n", "power.html": power_html(record)}
        write_report({report / name: text for name, text in texts.items()})


def _command(suite: str, settings: Settings, wanted: float | None, odds: float) -> str:
    """The command with all that decides its numbers."""
    words = ["fairgate", "power", suite, "--model", settings.model, "--baseline", settings.baseline]
    words += [] if wanted is None else ["--wanted", str(wanted)]
    words += [] if odds == 0.8 else ["--odds", str(odds)]
    return shlex.join(words)
