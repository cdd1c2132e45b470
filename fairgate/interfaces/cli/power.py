"""`fairgate power`: how small a regression a suite can see, and how many sets a smaller one would take."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import progress_line, wide_console, write_report


def power(
    suite: options.Suite,
    model: options.Model = None,
    baseline: options.Baseline = None,
    wanted: Annotated[float | None, typer.Option(help="Regression to be seen (default: twice each margin).")] = None,
    odds: Annotated[float, typer.Option(help="How often a visible regression fails the gate.")] = 0.8,
    report: Annotated[Path | None, typer.Option(help="Write power.json and power.html here.")] = None,
    device: options.Device = None,
    cache: options.Cache = None,
    allow_pickle: options.AllowPickle = False,
    root: options.Root = Path(),
) -> None:
    """How small a regression a suite can see. Exit code 0: computed, 4: the suite or an option is wrong."""
    from fairgate import gate
    from fairgate.reports import power_html, power_lines, power_table
    from fairgate.studies.power import suite_power

    prepared = gate.prepare(suite, root.resolve())
    settings = gate.settings_of(
        prepared, model=model, baseline=baseline, device=device, cache=cache, mlflow="off", allow_pickle=allow_pickle
    )
    words = ["fairgate", "power", suite, "--model", settings.model, "--baseline", settings.baseline]
    words += [] if wanted is None else ["--wanted", str(wanted)]
    words += [] if odds == 0.8 else ["--odds", str(odds)]
    console = wide_console(140)
    with progress_line() as progress:
        record = suite_power(prepared, settings, command=shlex.join(words), wanted=wanted, odds=odds, progress=progress)
    console.print(power_table(record, console.width))
    typer.echo("\n".join(power_lines(record)))
    if report is not None:
        texts = {"power.json": record.model_dump_json(indent=2) + "\n", "power.html": power_html(record)}
        write_report({report / name: text for name, text in texts.items()})
