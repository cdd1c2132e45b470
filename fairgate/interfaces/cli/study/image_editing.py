"""`fairgate study image-editing`: who is perceived in edits of people, and how light is their skin?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from fairgate.ground.errors import SettingsError
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import progress_line
from fairgate.interfaces.cli.study.writing import Out, answers_cache, show_study


def image_editing(  # noqa: PLR0913, PLR0917 - an option is a parameter
    ctx: typer.Context,
    model: Annotated[str, typer.Option(help="The editor: diffusion:FOLDER.")],
    data: Annotated[str, typer.Option(help="Release of people, NAME or NAME@VERSION.")],
    reader: Annotated[str, typer.Option(help="The model that perceives: URI of a CLIP.")],
    reader_fingerprint: Annotated[
        str | None, typer.Option(help="Digest that the reader's files must have; without it the one found is printed.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="The reader's prompt for a group, GROUP=PROMPT; repeat."),
    ] = None,
    attribute: Annotated[str, typer.Option(help="What the reader perceives, an attribute of the release.")] = "gender",
    words: Annotated[
        list[str] | None, typer.Option(help="A class of words, CLASS=WORD,WORD; repeat. Default: the paper's two.")
    ] = None,
    template: Annotated[
        str, typer.Option(help="Prompt of an edit, with {word} or {a_word} in it.")
    ] = "A color photograph of {a_word}, headshot, high-quality.",
    strength: Annotated[list[float] | None, typer.Option(help="Edit strength; repeat. Default: 0.6, 0.8, 1.0.")] = None,
    images: Annotated[int, typer.Option(min=2, help="Images of every group.")] = 25,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the whole schedule.")] = 50,
    guidance: Annotated[float, typer.Option(min=0, help="Scale of classifier-free guidance.")] = 7.5,
    skin: Annotated[Literal["hue", "kolkur"], typer.Option(help="Rule for skin; the paper's: kolkur.")] = "hue",
    crop: Annotated[
        str | None, typer.Option(help="Where faces are: left,top,right,bottom as shares of the sides.")
    ] = None,
    aligned: Annotated[bool, typer.Option(help="Faces are at the same place in all pictures.")] = False,
    draws: Annotated[int, typer.Option(min=50, help="Resamples of the images.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the choice, the edits and the resamples.")] = 0,
    out: Out = None,
    device: options.Device = None,
    cache: options.Cache = None,
    root: options.Root = Path(),
) -> None:
    """Flips of the perceived gender and the skin of average faces, by strength, words and group.

    Tables 1 to 3 and figures 3 to 15, 20 and 21 of Saravanan et al. 2023.
    """
    from fairgate.data import open_dataset
    from fairgate.studies.papers import EditingOptions, image_editing_study

    started = time.monotonic()
    defaults = EditingOptions(reader)
    release = open_dataset(data, root / "datasets")
    release.require_intact()
    with progress_line() as progress:
        settings = EditingOptions(
            reader,
            reader_fingerprint=reader_fingerprint,
            labels=named_texts(label, 'male="a photo of a man"', "--label") or defaults.labels,
            attribute=attribute,
            words={
                name: text.split(",") for name, text in named_texts(words, "high-paid=doctor,CEO", "--words").items()
            }
            or defaults.words,
            template=template,
            strengths=tuple(strength or defaults.strengths),
            images=images,
            steps=steps,
            guidance=guidance,
            skin=skin,
            crop=_shares(crop),
            aligned=aligned,
            draws=draws,
            seed=seed,
            device=device or "auto",
            root=root,
            cache=answers_cache(cache, root),
            progress=progress,
        )
        contents = image_editing_study(release, model, settings)
    show_study(ctx, contents, out, started)


def named_texts(given: list[str] | None, example: str, option: str) -> dict[str, str]:
    """Texts by name, from NAME=TEXT. Raises SettingsError for what is none."""
    found = {}
    for one in given or ():
        name, equals, text = one.partition("=")
        if not (name and equals and text):
            raise SettingsError(f"'{one}' is no NAME=TEXT.", where=option, remedy=f"{option} {example}")
        found[name] = text
    return found


def _shares(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        left, top, right, bottom = (float(one) for one in text.split(","))
        fits = 0 <= left < right <= 1 and 0 <= top < bottom <= 1
    except ValueError:
        fits = False
    if not fits:
        raise SettingsError(f"'{text}' is no part of a picture.", where="--crop", remedy="--crop 0.3,0.2,0.7,0.7")
    return left, top, right, bottom
