"""`fairgate dataset import`: a table of labels, and the groups that it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairgate.ground.errors import DatasetError
from fairgate.interfaces.cli.console import progress_bar
from fairgate.interfaces.cli.dataset_tables import describe, show_sizes

MIN_SETS = 30
"""The min_sets of a suite that names none."""


def import_(  # noqa: PLR0913, PLR0917 -- options of a command
    name: Annotated[str, typer.Argument(help="Name of the new dataset.")],
    labels: Annotated[
        Path,
        typer.Option(
            help="Table with a row per image: CSV (commas, semicolons or tabs; .gz), JSON Lines, Parquet, WebDataset's "
            ".tar, several as `data/train-*.parquet`, or a folder of one of them or of pictures with metadata.csv."
        ),
    ],
    attribute: Annotated[
        list[str],
        typer.Option(help="Column with a perceived attribute; repeatable. `gender=Male,Female` sets the order."),
    ],
    images: Annotated[
        Path | None, typer.Option(help="Folder with the images; without it, labels only, or the table's own pictures.")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="What every image depicts, e.g. `person`.")] = None,
    subject_column: Annotated[str | None, typer.Option(help="Column that says what an image depicts.")] = None,
    image_column: Annotated[str | None, typer.Option(help="Column that names the image; guessed if left out.")] = None,
    set_column: Annotated[
        str | None, typer.Option(help="Column that names an image's counterfactual set; with `--member-column`.")
    ] = None,
    member_column: Annotated[str | None, typer.Option(help="Column that names an image in its set.")] = None,
    bin: Annotated[
        list[str] | None,
        typer.Option(
            help="Groups of a column of numbers, both bounds included: `age=0-19,20-39,40-59,60-`; repeatable. Where "
            "bins meet, `0-<10,10-<20` or `0-10,>10-20`."
        ),
    ] = None,
    merge: Annotated[
        list[str] | None,
        typer.Option(help="Values under one name: `race=Latino_Hispanic,Middle Eastern=other`; repeatable."),
    ] = None,
    min_sets: Annotated[int, typer.Option(min=2, help="Sets that a suite needs to judge a group.")] = MIN_SETS,
    preview: Annotated[bool, typer.Option("--preview", help="Show the groups and write nothing.")] = False,
    licence: Annotated[str, typer.Option(help="Licence of the images.")] = "unknown",
    version: Annotated[str, typer.Option(help="Version to write.")] = "v1",
    root: Annotated[Path, typer.Option(help="Folder that holds the releases.")] = Path("datasets"),
) -> None:
    """Import photographs with labels, each a set of its own, or labels without images (scores only)."""
    from fairgate.data import ColumnGrouping, ImportColumns, check_name, plan_import, refuse_existing

    check_name(name, version)
    if not preview:
        refuse_existing(root / name / version)
    columns = ImportColumns(_attributes(attribute), subject, subject_column, image_column, set_column, member_column)
    plan = plan_import(labels, images, columns, ColumnGrouping.parse(bin or (), merge or ()))
    for what, note in plan.notes.items():
        typer.echo(f"{plan.table.name}: {what.replace('_', ' ')} {note}", err=True)
    if plan.images_found_by == "file name":
        typer.echo(f"none of the paths in {labels} is under {images}; images were found by file name alone", err=True)
    if preview:
        show_sizes(plan.group_sizes(), list(plan.found.groups), min_sets, "--bin, --merge")
        typer.echo("nothing was written (--preview); pictures were not decoded")
        return
    with progress_bar("importing") as progress:
        manifest = plan.write(name, root=root, version=version, licence=licence, progress=progress)
    describe(manifest, groups=False)
    show_sizes(plan.group_sizes(), list(plan.found.groups), min_sets, "--bin, --merge")
    typer.echo(f"imported as {root / manifest.name / manifest.version}")


def _attributes(given: list[str]) -> dict[str, list[str]]:
    """`gender=Male,Female` or `gender` (groups as found in the file)."""
    attributes: dict[str, list[str]] = {}
    for option in given:
        name, equals, groups = option.partition("=")
        if name in attributes:
            raise DatasetError(f"attribute '{name}' is named twice.", remedy="name each attribute once")
        attributes[name] = [group.strip() for group in groups.split(",")] if equals else []
    return attributes
