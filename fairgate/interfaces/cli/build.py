"""`fairgate build`: make a dataset by a recipe, go on where a run was ended, see how far it is and what it needs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from fairgate import builds, engines
from fairgate.ground.errors import ModelError, RecipeError, SettingsError, harmless
from fairgate.interfaces.cli.console import print_table
from fairgate.models import checkpoints
from fairgate.models.generation import Offload


class _BuildByDefault(TyperGroup):
    """`fairgate build NAME` is `fairgate build run NAME`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override] # typer's is click's
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


build_app = typer.Typer(
    cls=_BuildByDefault,
    no_args_is_help=True,
    help="Build a dataset: `fairgate build NAME` makes what `params.yaml` calls NAME, `fairgate build status` looks.",
)

Params = Annotated[Path, typer.Option(help="File with the mapping `builds:`.")]
Out = Annotated[Path, typer.Option(help="Folder of all builds.")]
Limit = Annotated[
    int | None,
    typer.Option(min=1, help="At most so many starting sets per subject and part, in a folder of its own: to try out."),
]
PARAMS, OUT = Path("params.yaml"), Path("build")


@build_app.command("run")
def run(  # noqa: PLR0913, PLR0917 -- each is an option of the command line
    name: Annotated[str, typer.Argument(help="A build of params.yaml.")],
    subject: Annotated[list[str] | None, typer.Option(help="Build only this one; repeatable.")] = None,
    part: Annotated[str | None, typer.Option(help="Build only this part; those before it must be finished.")] = None,
    assemble: Annotated[bool, typer.Option("--assemble", help="Only put the finished subjects together.")] = False,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Default: one per GPU, or one.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    offload: Annotated[
        Offload,
        typer.Option(
            help="For a GPU with little memory: model (parts of a diffusion model take turns on it) or sequential "
            "(each layer is there while it computes: slow). No picture changes but for rounding."
        ),
    ] = "none",
    keep_equal: Annotated[
        bool,
        typer.Option(
            "--keep-equal",
            help="If only the recipe's code changed, make each part's first shard again; if equal, keep the part.",
        ),
    ] = False,
    limit: Limit = None,
    params: Params = PARAMS,
    out: Out = OUT,
) -> None:
    """Build NAME: all subjects and then the dataset, or one --subject or --part. What is finished is not made again."""
    if assemble and (subject or part):
        raise SettingsError(
            "--assemble joins all subjects, and cannot be combined with --subject or --part.",
            where="--assemble",
            remedy="leave one of them out",
        )
    recipe = builds.read_build(name, params)
    if offload != "none" and engine == "local" and not checkpoints.find_device(device).is_cuda:
        raise SettingsError(
            f"--offload {offload} spares the memory of a GPU, and this build runs on a CPU.",
            where="--offload",
            remedy="leave it out, or name the GPU: --device cuda",
        )
    from fairgate.interfaces.cli.build_progress import BuildProgress

    with BuildProgress() as progress:
        factory = builds.Factory(name, recipe, out, limit, progress, params, offload, keep_equal)
        if assemble:
            manifest = factory.assemble()
        else:
            with closing(engines.open_engine(engine, workers=workers, device=device)) as crew:
                if subject or part:
                    factory.build(crew, subject or (), part)
                    return
                manifest = factory.assemble(crew)
    typer.echo(f"built {manifest.n_rows:,} images in {manifest.n_sets:,} sets: {factory.places.dataset}")
    typer.echo(f"fingerprint {manifest.fingerprint}")


@build_app.command()
def preflight(
    name: Annotated[str, typer.Argument(help="A build of params.yaml.")],
    params: Params = PARAMS,
    out: Out = OUT,
) -> None:
    """What NAME reads and will cost: models with licence, size and the command that fetches them, evaluations, GPU
    memory and hours. Nothing is loaded. Exit code 1: something is missing."""
    needed = builds.preflight_of(builds.read_build(name, params), out)
    show_preflight(name, needed)
    if needed.missing:
        raise typer.Exit(1)


@build_app.command()
def status(
    name: Annotated[str | None, typer.Argument(help="A build of params.yaml; all of them when left out.")] = None,
    limit: Limit = None,
    params: Params = PARAMS,
    out: Out = OUT,
) -> None:
    """How far builds are: shards, finished sets, drops by reason, evaluations, seconds, and what is stale."""
    for build in [name] if name else builds.build_names(params):
        show_status(build, params, out, limit)


WIDTH = 110
"""Columns of text that the table takes at least: in a narrower terminal lines wrap, and nothing is cut."""


def show_status(name: str, params: Path, out: Path, limit: int | None) -> None:
    """Print one build's table."""
    factory = builds.Factory(name, builds.read_build(name, params), out, limit)
    title = f"{name} ({factory.recipe.name})"
    if not factory.places.root.is_dir():
        typer.echo(f"{title}: not begun")
        return
    title = f"{title}: {factory.places.root}"
    columns = ("subject", "part", "state", "shards", "started", "kept", "chosen", "~dropped", "~work", "~seconds")
    rows, notes = [], []
    try:
        dependencies = builds.BuildDependencies.of(factory.recipe, limit)
    except (ModelError, RecipeError) as error:
        dependencies = None
        notes.append(f"whether anything is stale is not known here: {error.problem}")
    for part_state in builds.part_states(factory, dependencies):
        tally = part_state.tally
        chosen = (
            ""
            if part_state.chosen is None
            else f"{part_state.chosen:,}" + (f" of {part_state.wanted:,}" if part_state.short else "")
        )
        dropped = "\n".join(f"{harmless(reason)} {count:,}" for reason, count in tally.reasons.most_common())
        work = "\n".join(f"{what} {count:,}" for what, count in sorted(tally.counts.items()))
        numbers = [f"{number:,}" for number in (part_state.shards, tally.started, tally.kept)]
        cells = [harmless(part_state.subject), part_state.part, part_state.state, *numbers, chosen, dropped, work]
        rows.append([*cells, f"{tally.seconds:,.1f}"])
        if part_state.stale:
            remedy = ", or kept if it is equal (--keep-equal)" if part_state.stale == "the recipe's code" else ""
            what = f"{part_state.subject}, {part_state.part}: made otherwise ({part_state.stale})"
            notes.append(f"{what}; it would be set aside{remedy}")
    print_table(columns, rows, title=title, width=WIDTH)
    for note in notes:
        typer.echo(harmless(note))
    if factory.places.dataset.is_dir():
        typer.echo(f"dataset: {factory.places.dataset}")


def show_preflight(name: str, preflight: builds.Preflight) -> None:
    """Print what a build reads, what fetches the rest, and what it will cost."""
    rows = []
    for need in preflight.dependencies:
        size = builds.published(need.source) if need.model else None
        numbers = ("", "", "") if size is None else (size.licence, f"{size.disk:.1f}", f"{size.memory:.1f}")
        cells = (need.name, harmless(need.source), ", ".join(need.parts) if need.model else "", *numbers)
        rows.append([*cells, "no" if need.problem else "yes"])
    print_table(_READS, rows, title=f"{name}: what it reads", width=WIDTH)
    for problem, (names, remedy) in preflight.remedies.items():
        typer.echo(f"{names}: {problem}\n  {remedy}")
    if preflight.missing_disk > preflight.free_disk:
        free = f"{preflight.free_disk:.0f} GB of disk are free"
        typer.echo(f"models to fetch need {preflight.missing_disk:.0f} GB; {free}")
    if preflight.work:
        rows = []
        for work in preflight.work:
            pictures = "?" if work.pictures is None else f"{work.pictures:,}"
            total = "?" if work.pictures is None else f"{work.pictures * work.evaluations:,}"
            rows.append([work.part, work.role, pictures, f"{work.evaluations:,}", total])
        print_table(_WORK, rows, title="what it will do, at most: filters end parts earlier", width=WIDTH)
    if preflight.estimates:
        rows = []
        for estimate in preflight.estimates:
            fits = "yes" if estimate.fits else "no"
            card = (estimate.gpu.name, str(estimate.gpu.memory), f"{preflight.memory:.1f}", fits)
            rows.append([*card, f"{estimate.hours:,.1f}" if estimate.fits else ""])
        print_table(_COST, rows, title="on one GPU, computed and not measured", width=WIDTH)
        typer.echo("a batch that does not fit is halved; `needs` is of batches of 8 (docs/use/building.md)")
    if preflight.options:
        rows = [
            [option.settings, f"{option.memory:.1f}", "-" if option.card is None else f"{option.card} GB"]
            for option in preflight.options
        ]
        print_table(_FITS, rows, title="memory of a GPU that it needs, computed and not measured", width=WIDTH)
    for line in preflight.unknown:
        typer.echo(f"not counted: {line}")


_READS = ("~", "~source", "~parts", "~licence", ">disk GB", ">GPU GB", "there")
_WORK = ("~part", "~model", ">pictures", ">UNet evaluations each", ">evaluations")
_COST = ("~GPU", ">memory GB", ">needs", "fits", ">hours")
_FITS = ("~setting", ">needs GB", ">smallest card that should do")
