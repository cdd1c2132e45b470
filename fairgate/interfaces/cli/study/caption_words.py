"""`fairgate study caption-words`: who is named next to a word in a training set (So-B-IT, Hamidieh et al. 2024)?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from fairgate.ground.errors import SettingsError
from fairgate.interfaces.cli.study.writing import Out, show_study


def caption_words(
    ctx: typer.Context,
    captions: Annotated[Path, typer.Option(help="Parquet, CSV or JSON Lines of captions, or a folder of such files.")],
    column: Annotated[str, typer.Option(help="Column of the captions.")] = "caption",
    word: Annotated[list[str] | None, typer.Option(help="A word; repeat (default: the paper's seven).")] = None,
    terms: Annotated[
        list[str] | None, typer.Option(help="GROUP=term,term of each group (default: pronouns of two genders).")
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Column of the pictures: bytes, or paths within --images. Draws the sheet.")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the pictures (default: that of the file).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which pictures are drawn.")] = 0,
    out: Out = None,
) -> None:
    """Count the captions with a word by the group that they name, and show some of their pictures.

    Table 3 and figure 8 of Hamidieh et al. 2024. Files are read as a stream; nothing is downloaded.
    """
    from fairgate.studies.papers import caption_words_study

    started = time.monotonic()
    contents = caption_words_study(
        captions,
        caption=column,
        image=image,
        images=images,
        seed=seed,
        words=word or None,
        terms=_terms(terms) if terms else None,
    )
    show_study(ctx, contents, out, started)


def _terms(given: list[str]) -> dict[str, list[str]]:
    """Terms by group. Raises SettingsError for an option without an equals sign, and for a group given twice."""
    found: dict[str, list[str]] = {}
    for option in given:
        group, equals, terms = option.partition("=")
        if not equals or group in found:
            remedy = "write --terms male=he,him,his --terms female=she,her,hers"
            raise SettingsError(f"'{option[:80]}' gives no new group its terms.", where="--terms", remedy=remedy)
        found[group] = [term.strip() for term in terms.split(",")]
    return found
