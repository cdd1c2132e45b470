"""Options and arguments that several commands take alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from fairgate import data, suites
from fairgate.suites import OPTIONS


def of_gate(name: str) -> Any:
    """An option that pytest has too, with its choices."""
    return typer.Option(metavar=OPTIONS[name].metavar, help=OPTIONS[name].help)


Suite = Annotated[str, typer.Argument(help="Name of a suite in fairness_suites/.")]
Model = Annotated[str | None, of_gate("model")]
Baseline = Annotated[str | None, of_gate("baseline")]
Report = Annotated[str | None, of_gate("report")]
Mlflow = Annotated[str | None, of_gate("mlflow")]
Wandb = Annotated[str | None, of_gate("wandb")]
Device = Annotated[str | None, of_gate("device")]
Cache = Annotated[str | None, of_gate("cache")]
Like = Annotated[
    list[str] | None,
    typer.Option(help="URI of a harmless checkpoint, such as another seed. Repeatable."),
]


def _nearest_root(ctx: typer.Context, value: Path) -> Path:
    """What is typed; else, inside a git repository, the nearest folder upwards with suites; else where one is."""
    source = ctx.get_parameter_source("root")
    if source is None or source.name != "DEFAULT":
        return value
    here = Path.cwd()
    above = [here, *here.parents]
    top = next((at for at, folder in enumerate(above) if (folder / ".git").exists()), 0)
    return next((folder for folder in above[: top + 1] if (folder / suites.FOLDER).is_dir()), value)


def _releases(ctx: typer.Context, value: Path) -> Path:
    """What is typed; else the folder of this repository's releases."""
    source = ctx.get_parameter_source("root")
    return value if source is None or source.name != "DEFAULT" else data.releases_folder()


Releases = Annotated[
    Path,
    typer.Option(
        callback=_releases,
        show_default=False,
        help="Folder that holds the releases. By default fairness_data/, or datasets/ if that holds some.",
    ),
]
Root = Annotated[
    Path,
    typer.Option(
        callback=_nearest_root,
        show_default=False,
        help="The repository: fairness_suites/ and fairness_data/ (or datasets/) are here. By default the nearest "
        "folder of the git repository, from this one upwards, that holds fairness_suites/; else this one.",
    ),
]


def _of_every_gate(
    model: Model = None,
    baseline: Baseline = None,
    base: Annotated[str | None, of_gate("base")] = None,
    report: Report = None,
    mlflow: Mlflow = None,
    wandb: Wandb = None,
    on_inconclusive: Annotated[str | None, of_gate("on-inconclusive")] = None,
    root: Root = Path(),
) -> None:
    """What every command takes that gives a verdict."""


def of_every_gate(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of every gate for its `**given`, after its own arguments."""
    own = [each for each in _parameters(command) if each.kind is not each.VAR_KEYWORD]
    both = sorted([*_parameters(_of_every_gate), *own], key=lambda each: each.default is not each.empty)
    vars(command)["__signature__"] = inspect.Signature(both)
    command.__annotations__ = {each.name: each.annotation for each in both}
    return command


def _parameters(command: Callable[..., None]) -> list[inspect.Parameter]:
    return list(inspect.signature(command, eval_str=True).parameters.values())


BuildName = Annotated[
    str, typer.Argument(metavar="BUILD", help="A build's name (`build/NAME`), or a folder that holds a dataset.")
]
