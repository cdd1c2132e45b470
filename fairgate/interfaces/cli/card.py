"""`fairgate card`: what a run says in a model card, in technical documentation and on a badge."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fairgate.interfaces.cli.console import write_report


def card(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A results.json, or the folder that holds one.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write model-card.md, annex.md, badge.svg and badge.json into this folder."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the model (default: the last part of its address).")] = None,
) -> None:
    """Print a model card's section of a run: `model-index` metadata, as Hugging Face reads it, and a table.

    With --out, the section is a file, next to an annex (what was tested, on whom, how surely, and what was not, under
    the headings of the EU AI Act's Annex IV and NIST AI RMF; evidence, no claim of conformity) and a badge (an SVG, and
    JSON for a shields.io endpoint). All from the record alone, which is read strictly. Exit code 4: it is refused.
    """
    from fairgate.reports import OutputContext, read_results, render_card, rendered

    record = read_results(run / "results.json" if run.is_dir() else run)
    if out is None:
        typer.echo(render_card(record, name), nl=False)
        return
    files = rendered(record, OutputContext(model_name=name), "card", warn=partial(typer.echo, err=True))
    write_report({out / file: content for file, content in files})
