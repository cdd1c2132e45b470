"""`fairgate study gensynth`: how much of a model's bias is the dataset's (Smith et al. 2023)?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.releases import release_of
from fairgate.interfaces.cli.study.writing import Out, answers_cache, named_models, show_study

if TYPE_CHECKING:
    from fairgate.data import Dataset

CONTROLS = ("random", "TF-IDF")
Release = "a release's name, or a build (its folder)"


def gensynth(  # noqa: PLR0913, PLR0917 - an option is a parameter
    ctx: typer.Context,
    original: Annotated[str, typer.Option(help=f"Photographs as they are: {Release}, of recipe `photographs`.")],
    genswap: Annotated[str, typer.Option(help=f"With swapped faces: {Release}, of recipe `genswap`.")],
    gensynth: Annotated[str, typer.Option(help=f"Edited: {Release}, of recipe `gensynth`.")],
    model: Annotated[
        list[str], typer.Option(help="A checkpoint, URI or NAME=URI; repeat. The first one also judges the datasets.")
    ],
    unfiltered: Annotated[str | None, typer.Option(help="All edits: of recipe `gensynth_unfiltered`.")] = None,
    gallery: Annotated[str | None, typer.Option(help="Distractors of R@K, any pictures; else the originals.")] = None,
    utility: Annotated[
        str | None, typer.Option(help="Labelled pictures, for zero-shot accuracy over subjects.")
    ] = None,
    template: Annotated[
        str, typer.Option(help="Prompt for a subject of `--utility`: `{subject}` or `{a_subject}`.")
    ] = "a photo of {a_subject}",
    male: Annotated[str, typer.Option(help="Prompt for the first group of `gender`.")] = "a photo of a man",
    female: Annotated[str, typer.Option(help="Prompt for the second.")] = "a photo of a woman",
    clusters: Annotated[int, typer.Option(min=1, help="Clusters of neutral captions.")] = 20,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.")] = 0,
    out: Out = None,
    device: options.Device = None,
    cache: options.Cache = None,
    root: options.Root = Path(),
) -> None:
    """Neutral captions as queries on photographs and on edits, next to rankers without a bias of their own.

    Tables 1 to 3, 6, 8 and 9 and figures 1, 3 and 4 of Smith et al. 2023, "Balancing the Picture".
    """
    from fairgate.studies.papers import gensynth_study

    started = time.monotonic()

    def opened(named: str | None) -> Dataset | None:
        return None if named is None else release_of(named, root)

    contents = gensynth_study(
        original=release_of(original, root),
        genswap=release_of(genswap, root),
        gensynth=release_of(gensynth, root),
        unfiltered=opened(unfiltered),
        gallery=opened(gallery),
        utility=opened(utility),
        models=named_models(model, CONTROLS),
        prompts=(male, female),
        template=template,
        clusters=clusters,
        seed=seed,
        device=device or "auto",
        cache=answers_cache(cache, root),
        root=root,
    )
    show_study(ctx, contents, out, started)
