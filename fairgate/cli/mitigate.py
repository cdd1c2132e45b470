"""`fairgate mitigate`: make a mitigation of a checkpoint, to be gated as `debiased:FILE?model=URI`."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairgate.atomic import atomic_write
from fairgate.cli import options
from fairgate.cli.console import progress_line, writing

if TYPE_CHECKING:
    from fairgate.models import Mitigation

mitigate_app = typer.Typer(
    no_args_is_help=True, help="Mitigations of a checkpoint with two towers, to be judged against it."
)

Out = Annotated[Path, typer.Argument(help="JSON file to write, from the repository's root.")]
Origin = Annotated[str, typer.Option(help="Address of the checkpoint that it is for.")]
Data = Annotated[str, typer.Option(help="Release of pictures, NAME or NAME@VERSION: not the one that will judge.")]


@mitigate_app.command("clip-clip")
def clip_clip(
    out: Out,
    model: Origin,
    data: Data,
    attribute: Annotated[str, typer.Option(help="Attribute of the release that dimensions must not tell of.")],
    drop: Annotated[int, typer.Option(min=1, help="How many dimensions to leave out.")] = 100,
    device: options.Device = None,
    root: options.Root = Path(),
) -> None:
    """Leave out the dimensions that tell most about an attribute (Wang et al. 2021)."""
    from fairgate.data import open_dataset
    from fairgate.models import fit_clip_clip, open_scorer

    release = open_dataset(data, root / "datasets")
    fingerprint = release.require_intact()
    labels, _ = release.index.codes(attribute)
    with progress_line() as show:
        scorer = open_scorer(model, release, device=device or "auto", base=root, progress=partial(show, model))
        found = fit_clip_clip(
            scorer,
            labels,
            attribute=attribute,
            release=release.manifest.ref,
            fingerprint=fingerprint,
            drop=drop,
        )
    _write(out, found, model, root)


@mitigate_app.command()
def projection(
    out: Out,
    model: Origin,
    prompt: Annotated[list[str], typer.Option(help="Text that names a group, such as 'a photo of a man'; repeat.")],
    device: options.Device = None,
    root: options.Root = Path(),
) -> None:
    """Project texts onto what is orthogonal to prompts that name groups (Chuang et al. 2023)."""
    from fairgate.models import fit_projection

    _write(out, fit_projection(model, prompt, device=device or "auto", base=root), model, root)


def _write(out: Path, found: Mitigation, model: str, root: Path) -> None:
    """To `out`, a path from the repository's root; how to judge it is printed."""
    path = root / out
    with writing("the mitigation", str(out)):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, (found.model_dump_json(indent=2) + "\n").encode())
    typer.echo(f"mitigation: {path}")
    words = ["fairgate", "check", "SUITE", "--model", f"debiased:{out}?model={model}", "--baseline", f"model:{model}"]
    typer.echo("judge it against its origin:")
    typer.echo(f"  {shlex.join([*words, *(['--root', str(root)] if root != Path() else [])])}")
