"""Options and arguments that several commands take alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairgate.suites import OPTIONS

Suite = Annotated[str, typer.Argument(help="Name of a suite in fairness_suites/.")]
Model = Annotated[str | None, typer.Option(help=OPTIONS["model"].help)]
Baseline = Annotated[str | None, typer.Option(help=OPTIONS["baseline"].help)]
Report = Annotated[str | None, typer.Option(help=OPTIONS["report"].help)]
Mlflow = Annotated[str | None, typer.Option(help=OPTIONS["mlflow"].help)]
Device = Annotated[str | None, typer.Option(help=OPTIONS["device"].help)]
Cache = Annotated[str | None, typer.Option(help=OPTIONS["cache"].help)]
AllowPickle = Annotated[bool, typer.Option(help="Load checkpoints that can run code; refused in CI.")]
Root = Annotated[Path, typer.Option(help="The repository: fairness_suites/ and datasets/ are here.")]
BuildName = Annotated[
    str, typer.Argument(metavar="BUILD", help="A build's name (`build/NAME`), or a folder that holds a dataset.")
]
