"""`fairgate build`: make a dataset by a recipe, go on where a run was ended, see how far it is."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from fairgate import builds, engines
from fairgate.ground.errors import SettingsError
from fairgate.interfaces.cli.build_display import BuildProgress, show_preflight, show_status
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
            help="Of a GPU with little memory: model (parts of a diffusion model take turns on it) or sequential "
            "(each layer is there while it computes: slow). No picture changes but for rounding."
        ),
    ] = "none",
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
    with BuildProgress() as progress:
        factory = builds.Factory(name, recipe, out, limit, progress, params, offload)
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
    memory and hours. Nothing is loaded. Exits with 1 where something is not there."""
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
