"""`fairgate study robustness`: whether an order of models by F_M holds (Lui et al.)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.study.writing import Models, Out, answers_cache, named_models, show_study


def robustness(  # noqa: PLR0913, PLR0917 - an option is a parameter
    ctx: typer.Context,
    model: Models,
    data: Annotated[list[str], typer.Option(help="Release, NAME or NAME@VERSION; repeat for further ones.")],
    labels: Annotated[
        Path | None,
        typer.Option(
            help="CSV, from the current folder, with columns subject and label. Default: the paper's occupations."
        ),
    ] = None,
    template: Annotated[str, typer.Option(help="Prompt with {label} or {a_label}.")] = "A photo of {a_label}",
    base: Annotated[str | None, typer.Option(help="Member that the others of its set were made from.")] = None,
    reference: Annotated[
        str | None, typer.Option(help="Member; draws sets in which it is right and another member is not.")
    ] = None,
    out: Out = None,
    device: options.Device = None,
    cache: options.Cache = None,
    root: options.Root = Path(),
) -> None:
    """F_M with hard labels by subject, size and release, and under checks of robustness (Lui et al. 2024)."""
    from fairgate.studies.papers import RobustnessOptions, labels_of_file, published_labels, robustness_study

    started = time.monotonic()
    chosen = published_labels() if labels is None else labels_of_file(labels)
    settings = RobustnessOptions(labels=chosen, template=template, base=base, reference=reference)
    models, held = named_models(model), answers_cache(cache, root)
    contents = robustness_study(models, data, settings, device=device or "auto", cache=held, root=root)
    show_study(ctx, contents, out, started)
