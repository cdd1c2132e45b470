"""`fairgate approve`: write into a suite that a change was weighed; it counts once the default branch has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from fairgate import reports, suites
from fairgate.ground.errors import SettingsError
from fairgate.interfaces.cli import options

_DAYS = 30


def approve(
    suite: options.Suite,
    reason: Annotated[str, typer.Option(help="Why the change is accepted, for every report.")],
    report: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="The report folder of the run that asks for it.")
    ] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Approve changes of this kind alone. Repeatable.")] = None,
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
    wanted = [approval for approval in record.needs_approval if not kind or approval.kind in kind]
    if not wanted:
        kinds = ", ".join(dict.fromkeys(approval.kind for approval in record.needs_approval))
        problem = f"that run needs no approval{' of this kind' if kinds else ''}."
        raise SettingsError(problem, where=str(folder), remedy=f"kinds there: {kinds}" if kinds else "nothing to do")
    today = datetime.now(UTC).date()
    day = today + timedelta(days=_DAYS) if until is None else until.date()
    if day < today:
        raise SettingsError(f"{day} is over.", where="--until", remedy="name a day to come")
    for line in suites.add_approvals(path, wanted, reason=reason.strip(), until=day):
        typer.echo(f"approved: {line}")
    typer.echo(f"wrote {path.relative_to(root)}: merge it into the default branch by itself, then run the gate again")
