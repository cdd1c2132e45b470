"""`fairgate study words`: which words bring up whom (So-B-IT, Hamidieh et al. 2024)?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from fairgate.ground.errors import SettingsError
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import progress_line
from fairgate.interfaces.cli.study.writing import Out, answers_cache, named_models, show_study


def words(  # noqa: PLR0913, PLR0917 - an option is a parameter
    ctx: typer.Context,
    model: Annotated[
        list[str],
        typer.Option(help="A checkpoint, URI or NAME=URI; repeat. Others are compared with the first."),
    ],
    data: Annotated[str, typer.Option(help="Release of pictures, NAME or NAME@VERSION.")],
    taxonomy: Annotated[str, typer.Option(help="Published words, where no --words are given.")] = "so-b-it",
    category: Annotated[
        list[str] | None, typer.Option(help="A category of the taxonomy; repeat (default: all).")
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option(help="CSV of words, from the current folder: `word`, and if you like `category` and `valence`."),
    ] = None,
    template: Annotated[str, typer.Option(help="Prompt of --words.")] = "a photo of {a_word}",
    valence: Annotated[
        Path | None,
        typer.Option(help="CSV, from the current folder, of `word` and `valence` (positive, negative, neutral)."),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(help="CSV, from the current folder, of `word`: what the strength of words is compared with."),
    ] = None,
    over: Annotated[list[str] | None, typer.Option(help="An attribute; repeat (default: all).")] = None,
    group: Annotated[str | None, typer.Option(help="Figures 5 to 7: the words nearest to this group.")] = None,
    show: Annotated[list[str] | None, typer.Option(help="Figures 5 to 7: a word; repeat.")] = None,
    k: Annotated[int, typer.Option(min=1, help="Where rankings are cut.")] = 100,
    draws: Annotated[int, typer.Option(min=100, help="Resamples of the sets.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resamples.")] = 0,
    out: Out = None,
    device: options.Device = None,
    cache: options.Cache = None,
    allow_pickle: options.AllowPickle = False,
    root: options.Root = Path(),
) -> None:
    """Words by category, group and intersection, of one or more models.

    Tables 1, 2 and 4 and figures 3 to 7 of Hamidieh et al. 2024, and the appendix's strong and weak words.
    """
    from fairgate.data import open_dataset
    from fairgate.studies import papers as studies

    started = time.monotonic()
    _require_used(ctx, ("taxonomy", "category") if words else ("template",), own=words is not None)
    models = named_models(model)
    listed = (
        studies.published_words(taxonomy, category or ()) if words is None else studies.words_of_file(words, template)
    )
    if valence is not None:
        listed = studies.with_valence(listed, valence)
    baseline = () if vocabulary is None else studies.vocabulary(vocabulary)
    release = open_dataset(data, root / "datasets")
    release.require_intact()
    with progress_line() as progress:
        settings = studies.WordsOptions(
            over=tuple(over or ()),
            group=group,
            show=tuple(show or ()),
            k=k,
            draws=draws,
            seed=seed,
            vocabulary=baseline,
            device=device or "auto",
            root=root,
            cache=answers_cache(cache, root),
            allow_pickle=allow_pickle,
            progress=progress,
        )
        contents = studies.words_study(release, models, listed, settings)
    show_study(ctx, contents, out, started)


def _require_used(ctx: typer.Context, unread: tuple[str, ...], *, own: bool) -> None:
    """Raises SettingsError for an option that is given and changes nothing."""
    for name in unread:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":
            raise SettingsError(
                f"--{name} is of {'the published words, and --words are given' if own else '--words FILE'}.",
                where=f"--{name}",
                remedy=f"leave it{' or --words' if own else ''} out{'' if own else ', or give --words'}",
            )
