"""`fairgate review` and `fairgate release`: people look at a build, and freeze it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from fairgate import data, reports
from fairgate.builds import review as reviewing
from fairgate.ground.errors import DatasetError, SettingsError
from fairgate.interfaces.cli import options

Reviews = Annotated[Path, typer.Option(help="Folder of the raters' answers; commit it.")]
Matcher = Annotated[
    str | None,
    typer.Option(metavar="URI", help="Compare a CLIP's zero-shot groups with the people's, as Howard et al. do."),
]
Ask = Annotated[
    list[str] | None,
    typer.Option(metavar="ATTRIBUTE=SENTENCE", help="The matcher's text query, `{}` for the group; repeatable."),
]
Device = Annotated[str, typer.Option(help="The matcher's: auto, cpu, cuda or cuda:N.")]
REVIEWS = Path("reviews")


def review(
    build: options.BuildName,
    sample: Annotated[int, typer.Option(min=1, help="Images to look at; a larger sample holds the smaller one.")] = 100,
    rater: Annotated[str, typer.Option(help="Your pseudonym: one file of marks each.")] = "rater",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of this machine; 0 takes a free one.")] = 0,
    reviews: Reviews = REVIEWS,
    browser: Annotated[bool, typer.Option(help="Open the page in this machine's browser.")] = True,
    figures: Annotated[bool, typer.Option("--figures", help="Print what was found so far, and stop.")] = False,
    matcher: Matcher = None,
    ask: Ask = None,
    device: Device = "auto",
) -> None:
    """Look at a random sample of a build, by keyboard, in a page of this machine alone. Stop and go on at any time."""
    recipe = reviewing.find_build(build)
    if figures:
        records, judged = reviewing.reviewed(recipe, reviews, _zero_shot(matcher, ask, device))
        if not records:
            raise DatasetError(
                "nobody reviewed the build.", where=str(recipe.records(reviews)), remedy="leave --figures out to begin"
            )
        typer.echo(reviewing.review_section(recipe.dataset, records, judged))
        return
    drawn = reviewing.draw_sample(recipe.dataset, sample)
    opened = reviewing.opened_line(recipe.dataset, drawn, rater)
    with reviewing.Keeper(recipe.records(reviews), opened, recipe.dataset.manifest) as keeper:
        session = reviewing.Session(recipe.dataset, drawn, keeper)
        page = reports.render_review(recipe.dataset.manifest, reviewing.INSTRUCTIONS)
        with reviewing.ReviewServer(session, page, port) as server:
            _serve(server, browser=browser)
        words = ["--rater", rater, "--sample", str(sample), *(["--port", str(port)] if port else [])]
        words += [] if browser else ["--no-browser"]
        images, all_images, sets, all_sets = session.progress()
        whole = f" and {sets:,} of {all_sets:,} sets" if all_sets else ""
        saved = f", in {keeper.path}" if keeper.path.exists() else ""
        typer.echo(f"{images:,} of {all_images:,} images{whole} are marked{saved}")
        if (images, sets) != (all_images, all_sets):
            typer.echo(f"go on with: {reviewing.review_command(build, *words, reviews=reviews)}")


def release(
    build: options.BuildName,
    name: Annotated[str | None, typer.Argument(help="Name to release it under; its own if left out.")] = None,
    root: options.Releases = data.FOLDER,
    unreviewed: Annotated[
        str | None, typer.Option(metavar="REASON", help="Release what nobody reviewed; the reason goes into the card.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, max=1, help="By what share the smallest subject or group may fall short.")
    ] = 0.1,
    least: Annotated[int, typer.Option(min=1, help="Images that people must have marked.")] = 100,
    reviews: Reviews = REVIEWS,
    matcher: Matcher = None,
    ask: Ask = None,
    device: Device = "auto",
) -> None:
    """Freeze a build as the next version of NAME: whole, balanced, without doubles, and reviewed."""
    done = reviewing.release(
        reviewing.find_build(build),
        name,
        root,
        tolerance=tolerance,
        least=least,
        unreviewed=unreviewed,
        zero_shot=_zero_shot(matcher, ask, device),
        reviews=reviews,
    )
    dataset = done.dataset
    typer.echo(f"released {dataset.manifest.ref} in {dataset.folder} (fingerprint {dataset.manifest.fingerprint[:12]})")
    if done.figures is not None:
        good = reviewing.percent(done.figures.rows[0].shares["good"])
        raters = ", ".join(record.rater for record in done.records)
        typer.echo(f"reviewed by {raters}: {done.figures.images:,} images, {good} good; the card has the figures")
    paths = [f"{root}.dvc", *([str(reviews)] if done.figures else [])]
    typer.echo(f"track it with: {shlex.join(['dvc', 'add', str(root)])} && {shlex.join(['git', 'add', *paths])}")


def _serve(server: reviewing.ReviewServer, *, browser: bool) -> None:
    import webbrowser

    typer.echo(f"review at {server.url}")
    typer.echo("the address holds a secret: keep it to yourself. Stop with the page's button, or Ctrl-C")
    sys.stdout.flush()
    window = sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if browser and window:  # elsewhere a browser could take the terminal
        webbrowser.open(server.url)
    try:
        server.serve()
    except KeyboardInterrupt:
        typer.echo("")


def _zero_shot(matcher: str | None, ask: list[str] | None, device: str) -> reviewing.ZeroShot | None:
    if matcher is None:
        if ask:
            raise SettingsError(
                "--ask needs a matcher.", where="--ask", remedy="name a CLIP with --matcher, or leave --ask out"
            )
        return None
    sentences = {}
    for question in ask or []:
        attribute, equals, sentence = question.partition("=")
        sentences[attribute] = sentence if equals else reviewing.SENTENCE
    return reviewing.ZeroShot(matcher, device, sentences)
