"""`fairgate demo`: the main job on the embedded world, asserted: a harmless checkpoint passes, a biased one fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from fairgate.cli.console import friendly
from fairgate.errors import FairgateError

SUITE = "occupations"
CHECKPOINTS = "open_clip:local-dir:build/portraits/checkpoints"
PASSED, FAILED = 0, 1


@friendly()
def demo(
    report: Annotated[Path, typer.Option(help="Where the three reports go.")] = Path("fairness-report"),
    mlflow: Annotated[str, typer.Option(help="MLflow tracking URI, or off.")] = "sqlite:///fairgate.db",
) -> None:
    """Gate two candidates of the embedded world through pytest, and check that the gate judged them rightly."""
    typer.echo("The embedded world is a test instrument: its figures say nothing about real models.\n")
    base = ["--fairness-baseline", "none", "--fairness-on-inconclusive", "warn"]
    against = ["--fairness-baseline", f"file:{report / 'base'}"]
    _gate("base", base, PASSED, report, mlflow, "the baseline: bounds hold, nothing to compare with yet")
    _gate("tuned", against, PASSED, report, mlflow, "harmlessly fine-tuned: must pass")
    _gate("biased", against, FAILED, report, mlflow, "a bias was planted: must fail")
    failing = _failing(report / "biased")
    typer.secho("\nfairgate demo: base and tuned passed, biased failed, as they must.", bold=True)
    typer.echo(f"biased failed {', '.join(failing)}")
    typer.echo(f"see why, with pictures: {(report / 'biased' / 'report.html').resolve().as_uri()}")
    if mlflow != "off":
        typer.echo(f"see the runs: mlflow ui --backend-store-uri {mlflow}")


def _gate(name: str, options: list[str], expected: int, report: Path, mlflow: str, meaning: str) -> None:
    typer.secho(f"== {name}: {meaning}", bold=True)
    words = [
        *("--fairness-suite", SUITE),
        *("--fairness-model", f"{CHECKPOINTS}/{name}"),
        *options,
        *("--fairness-report", str(report / name)),
        *("--fairness-mlflow", mlflow),
    ]
    typer.echo(f"$ pytest {' '.join(words)}")
    code = subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode  # noqa: S603
    if code != expected:
        raise FairgateError(
            f"checkpoint '{name}' ended with pytest's exit code {code}; {expected} was expected.",
            where=str(report / name),
            remedy="read the output above; if files are missing, run `dvc pull`",
        )


def _failing(folder: Path) -> list[str]:
    from fairgate.reports import read_results

    record = read_results(folder / "results.json")
    failing = [check.item for check in record.checks if check.verdict == "fail"]
    if record.verdict != "fail" or not failing:
        raise FairgateError(f"the biased checkpoint's verdict is '{record.verdict}'.", where=str(folder))
    return failing
