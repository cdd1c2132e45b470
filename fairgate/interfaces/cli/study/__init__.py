"""`fairgate study`: the papers' tables and figures on one's own models, a command each."""

from __future__ import annotations

import typer

from fairgate.interfaces.cli.study.caption_words import caption_words
from fairgate.interfaces.cli.study.diffusion_classifier import diffusion_classifier
from fairgate.interfaces.cli.study.gensynth import gensynth
from fairgate.interfaces.cli.study.image_editing import image_editing
from fairgate.interfaces.cli.study.intersections import intersections
from fairgate.interfaces.cli.study.robustness import robustness
from fairgate.interfaces.cli.study.words import words

study_app = typer.Typer(
    no_args_is_help=True,
    help="The papers' tables and figures, measured on one's own models. A study passes and fails nobody.",
)


@study_app.callback()
def _studies() -> None:
    """A group, also while it has one command."""


study_app.command("intersections")(intersections)
study_app.command("caption-words")(caption_words)
study_app.command("robustness")(robustness)
study_app.command("words")(words)
study_app.command("image-editing")(image_editing)
study_app.command("diffusion-classifier")(diffusion_classifier)
study_app.command("gensynth")(gensynth)
