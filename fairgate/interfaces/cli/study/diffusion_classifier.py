"""`fairgate study diffusion-classifier`: into which of two professions are people put who show none?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from fairgate.ground.errors import SettingsError
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import progress_line
from fairgate.interfaces.cli.study.image_editing import named_texts
from fairgate.interfaces.cli.study.writing import Out, answers_cache, named_models, show_study


def diffusion_classifier(  # noqa: PLR0913, PLR0917 - an option is a parameter
    ctx: typer.Context,
    model: Annotated[
        list[str], typer.Option(help="NAME=URI, repeat: 10=diffusion:FOLDER?samples=10. Pairs are the last one's.")
    ],
    data: Annotated[str, typer.Option(help="Release of people, NAME or NAME@VERSION.")],
    first: Annotated[str | None, typer.Option(help="WORD,WORD of the first list; default: the paper's.")] = None,
    second: Annotated[str | None, typer.Option(help="WORD,WORD of the second list.")] = None,
    template: Annotated[str, typer.Option(help="Prompt, with {word} or {a_word} in it.")] = "A portrait of {a_word}.",
    label: Annotated[
        list[str] | None, typer.Option(help="The word for a group, GROUP=WORD; repeat. Default: man, woman.")
    ] = None,
    attribute: Annotated[str, typer.Option(help="Attribute whose groups are classified and compared.")] = "gender",
    pair: Annotated[
        str | None, typer.Option(help="FIRST/SECOND, by which pictures are sorted on sheets; default: the paper's.")
    ] = None,
    draws: Annotated[int, typer.Option(min=50, help="Resamples of the sets.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resamples.")] = 0,
    out: Out = None,
    device: options.Device = None,
    cache: options.Cache = None,
    root: options.Root = Path(),
) -> None:
    """Gender accuracy, S by group, one-sided pairs and sorted pictures, of any model with label probabilities.

    Tables 4 to 7 and figures 3, 20, 21 (right) and 16 to 19 of Saravanan et al. 2023.
    """
    from fairgate.data import open_dataset
    from fairgate.studies.papers import PairsOptions, diffusion_classifier_study

    if (first is None) != (second is None):
        raise SettingsError(
            "one list of words is given, and the other would be the paper's.",
            where="--second" if second is None else "--first",
            remedy="give --first WORD,WORD and --second WORD,WORD, or neither",
        )
    started = time.monotonic()
    defaults = PairsOptions()
    release = open_dataset(data, root / "datasets")
    release.require_intact()
    with progress_line() as progress:
        settings = PairsOptions(
            first=first.split(",") if first else defaults.first,
            second=second.split(",") if second else defaults.second,
            template=template,
            labels=named_texts(label, "male=man", "--label") or defaults.labels,
            attribute=attribute,
            pair=_pair(pair),
            draws=draws,
            seed=seed,
            device=device or "auto",
            root=root,
            cache=answers_cache(cache, root),
            progress=progress,
        )
        contents = diffusion_classifier_study(release, named_models(model), settings)
    show_study(ctx, contents, out, started)


def _pair(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    one, slash, other = text.partition("/")
    if not (one and slash and other):
        raise SettingsError(f"'{text}' is no pair.", where="--pair", remedy="--pair 'construction worker/babysitter'")
    return one, other
