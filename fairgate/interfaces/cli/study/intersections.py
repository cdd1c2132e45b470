"""`fairgate study intersections`: MaxSkew over pairs of attributes and within groups (Howard et al.)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.study.writing import Models, Out, answers_cache, named_models, show_study


def intersections(  # noqa: PLR0913, PLR0917 - an option is a parameter
    ctx: typer.Context,
    model: Models,
    data: Annotated[list[str], typer.Option(help="Release, NAME or NAME@VERSION; repeat for further pairs.")],
    prompt: Annotated[
        list[str] | None,
        typer.Option(help="Query with {subject} or {a_subject}; repeat. Default: the release's captions, no groups."),
    ] = None,
    noun: Annotated[str, typer.Option(help="Of whom captions are that name nobody but by groups.")] = "person",
    k: Annotated[int | None, typer.Option(min=1, help="Where to cut; default: a place per crossed group.")] = None,
    show: Annotated[
        list[str] | None, typer.Option(help="Subject of which to show shares; repeat. Default: the most skewed.")
    ] = None,
    draws: Annotated[int, typer.Option(min=100, help="Resamples of the sets.")] = 1000,
    out: Out = None,
    device: options.Device = None,
    cache: options.Cache = None,
    root: options.Root = Path(),
) -> None:
    """MaxSkew@K of neutral searches over pairs of attributes (Howard et al. 2023: figures 2, 3 and 5)."""
    from fairgate.studies.papers import IntersectionOptions, intersections_study

    started = time.monotonic()
    settings = IntersectionOptions(prompts=prompt or (), noun=noun, k=k, shown=show or (), draws=draws)
    models, held = named_models(model), answers_cache(cache, root)
    contents = intersections_study(models, data, settings, device=device or "auto", cache=held, root=root)
    show_study(ctx, contents, out, started)
