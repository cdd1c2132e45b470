"""`fairgate head fit`: fit a head on a backbone's features, to be judged as `features:FOLDER?head=FILE`."""

from __future__ import annotations

import shlex
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import progress_line, writing

head_app = typer.Typer(no_args_is_help=True, help="Heads on the features of a backbone.")


class HeadKind(StrEnum):
    """How a head reads features."""

    linear = "linear"
    knn = "knn"


@head_app.callback()
def _group() -> None:
    """A group of one command, so that another can be added."""


@head_app.command("fit")
def fit(
    out: Annotated[Path, typer.Argument(help=".safetensors file to write, from the repository's root.")],
    model: Annotated[str, typer.Option(help="Backbone, as features:FOLDER, with ?pool= where it is not the usual.")],
    data: Annotated[str, typer.Option(help="Release of pictures, NAME or NAME@VERSION: not the one that will judge.")],
    attribute: Annotated[str, typer.Option(help="Attribute of the release that the head is to predict, or `subject`.")],
    kind: Annotated[HeadKind, typer.Option(help="A linear head, or a vote of nearest neighbours.")] = HeadKind.linear,
    neighbours: Annotated[int, typer.Option(min=1, max=10_000, help="How many vote.")] = 20,
    penalty: Annotated[float, typer.Option(min=0.0, help="Of a linear head's squared weights.")] = 1e-3,
    device: options.Device = None,
    root: options.Root = Path(),
) -> None:
    """Fit a head on labelled pictures: logistic regression, or a table for a vote of nearest neighbours."""
    import numpy as np

    from fairgate.data import open_dataset
    from fairgate.ground.errors import SettingsError
    from fairgate.models import fit_head, open_scorer, write_head

    if out.suffix != ".safetensors":
        raise SettingsError(f"'{out}' is no .safetensors file.", where="OUT", remedy="write the head to such a file")
    release = open_dataset(data, root / "datasets")
    fingerprint = release.require_intact()
    if attribute == "subject":
        labels, codes = np.unique(release.index.subject, return_inverse=True)
        named = labels.tolist()
    else:
        codes, named = release.index.codes(attribute)
    with progress_line() as show:
        backbone = open_scorer(model, release, device=device or "auto", base=root, progress=partial(show, model))
        head = fit_head(
            backbone,
            np.asarray(codes, dtype=np.int64),
            named,
            kind=kind.value,
            attribute=attribute,
            release=release.manifest.ref,
            fingerprint=fingerprint,
            neighbours=neighbours,
            penalty=penalty,
        )
    path = root / out
    with writing("the head", str(out)):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_head(path, head)
    typer.echo(f"head: {path}, of {', '.join(head.labels or ())}")
    joined = "&" if "?" in model else "?"
    words = ["fairgate", "check", "SUITE", "--model", f"{model}{joined}head={out}"]
    typer.echo("judge it on another release:")
    typer.echo(f"  {shlex.join([*words, *(['--root', str(root)] if root != Path() else [])])}")
