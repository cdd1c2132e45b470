"""`fairgate dataset`: fetch a release, look at it, verify it, import photographs, write prompts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairgate.cli import options
from fairgate.cli.console import FOUND, friendly, progress_bar, write_png
from fairgate.cli.get import get
from fairgate.errors import DatasetError, harmless

if TYPE_CHECKING:
    from fairgate.data import Manifest


dataset_app = typer.Typer(no_args_is_help=True, help="Fetch, look at, verify, import and write datasets.")

Root = Annotated[Path, typer.Option(help="Folder that holds the releases.")]
Name = Annotated[str, typer.Argument(help="A dataset: `occupations` (newest version) or `occupations@v1`.")]
ROOT = Path("datasets")
dataset_app.command()(get)


@dataset_app.command()
@friendly(3)  # as where a gate reached no verdict
def pull(
    targets: Annotated[
        list[str] | None,
        typer.Argument(help="Pointers (datasets.dvc) or tracked paths; all of *.dvc and dvc.lock when left out."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="The branch whose .dvc/config counts, such as origin/main. Left out, the default branch in CI, and "
            "this working tree elsewhere."
        ),
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace and remove files that differ from their pointer.")] = False,
    root: options.Root = Path(),
) -> None:
    """Fetch the datasets and checkpoints that DVC tracks. Exit code 0: they are here, 3: that was not possible.

    DVC itself does not run: which remote is read, and with which login, is decided by the base's .dvc/config. Paths are
    checked before anything is written, and objects before they take their place. Run it again to go on.
    """
    from fairgate.baselines import Repository
    from fairgate.baselines import pull as fetch

    with progress_bar("fetching") as progress:
        done = fetch(Repository(root.resolve()), targets or (), base=base, force=force, progress=progress)
    if not done:
        typer.echo("DVC tracks nothing here")
    for one in done:
        what = f"{one.fetched:,} fetched ({one.bytes / 1e6:,.1f} MB)" if one.fetched else "nothing to fetch"
        typer.echo(f"{one.path}: {one.files:,} file(s), {what}  [{one.pointer}]")


@dataset_app.command()
def show(name: Name, root: Root = ROOT) -> None:
    """What a release holds: attributes, groups, counts, recipe, licence."""
    from fairgate.data import open_dataset

    _describe(open_dataset(name, root).manifest)


@dataset_app.command()
def verify(name: Name, root: Root = ROOT) -> None:
    """Read all of a release and name what is wrong. Exit code 0: nothing, 1: problems, 4: there is no such release."""
    from fairgate.data import open_dataset

    dataset = open_dataset(name, root)
    problems = dataset.verify()
    for problem in problems:
        typer.echo(str(problem), err=True)
    manifest = dataset.manifest
    if problems:
        typer.echo(f"{manifest.ref}: {len(problems)} problem(s) found", err=True)
        raise typer.Exit(FOUND)
    typer.echo(
        f"{manifest.ref}: {manifest.n_rows:,} rows in {manifest.n_sets:,} sets and {len(manifest.shards)} shard(s) "
        f"are what was released (fingerprint {manifest.fingerprint[:12]})"
    )


@dataset_app.command("import")
def import_(
    name: Annotated[str, typer.Argument(help="Name of the new dataset.")],
    labels: Annotated[Path, typer.Option(help="CSV file (or .csv.gz) with a line per image.")],
    attribute: Annotated[
        list[str],
        typer.Option(help="Column with a perceived attribute; repeatable. `gender=Male,Female` sets the order."),
    ],
    images: Annotated[Path | None, typer.Option(help="Folder with the images; without it, labels only.")] = None,
    subject: Annotated[str | None, typer.Option(help="What every image depicts, e.g. `person`.")] = None,
    subject_column: Annotated[str | None, typer.Option(help="Column that says what an image depicts.")] = None,
    image_column: Annotated[str | None, typer.Option(help="Column that names the image; guessed if left out.")] = None,
    licence: Annotated[str, typer.Option(help="Licence of the images.")] = "unknown",
    version: Annotated[str, typer.Option(help="Version to write.")] = "v1",
    root: Root = ROOT,
) -> None:
    """Import photographs with labels, each a set of its own, or labels without images (scores only)."""
    from fairgate.data import import_images

    attributes = _attributes(attribute)
    with progress_bar("importing") as progress:
        manifest = import_images(
            labels,
            images,
            name,
            attributes=attributes,
            subject=subject,
            subject_column=subject_column,
            image_column=image_column,
            root=root,
            version=version,
            licence=licence,
            progress=progress,
        )
    if manifest.recipe["images_found_by"] == "file name":
        typer.echo(f"none of the paths in {labels} is under {images}; images were found by file name alone", err=True)
    _describe(manifest)
    typer.echo(f"imported as {root / manifest.name / manifest.version}")


@dataset_app.command()
def prompts(
    name: Annotated[str, typer.Argument(help="Name of the new dataset.")],
    template: Annotated[
        str, typer.Option(help="The prompt, with `{word}` or `{a_word}` (with its article): `a photo of {a_word}`.")
    ],
    word: Annotated[list[str], typer.Option(help="What to ask for, such as `doctor`; repeatable.")],
    seeds: Annotated[int, typer.Option(min=1, help="Pictures that a generator is to make of every word.")] = 50,
    licence: Annotated[str, typer.Option(help="Licence of the prompts.")] = "unknown",
    version: Annotated[str, typer.Option(help="Version to write.")] = "v1",
    root: Root = ROOT,
) -> None:
    """Write a release of prompts for generators: a row for every word and seed, without pictures."""
    from fairgate.data import write_prompts
    from fairgate.probes import checked_template, filled

    try:
        checked_template(template, "word")
    except ValueError as error:
        raise DatasetError(f"{error}.", where="--template", remedy="write one as `a photo of {a_word}`") from error
    if twice := [one for one in word if word.count(one) > 1]:
        raise DatasetError(f"the word '{twice[0]}' is given twice.", where="--word", remedy="give each word once")
    asked = {one: filled(template, "word", one) for one in word}
    manifest = write_prompts(asked, seeds, name, root=root, version=version, licence=licence)
    _describe(manifest)
    typer.echo(f"written as {root / manifest.name / manifest.version}")


@dataset_app.command()
def sheet(
    build: options.BuildName,
    out: Annotated[Path, typer.Option(help="PNG file to write.")] = Path("sheet.png"),
    per_subject: Annotated[int, typer.Option(min=1, help="Sets of every subject.")] = 3,
) -> None:
    """Draw a contact sheet of a dataset: a row per set, its members in stored order."""
    from fairgate.data import contact_sheet
    from fairgate.review import find_build

    dataset = find_build(build).dataset
    picture = write_png(out, lambda: contact_sheet(dataset, per_subject))
    typer.echo(f"wrote {out} ({picture.width} x {picture.height} pixels)")


def _attributes(given: list[str]) -> dict[str, list[str]]:
    """`gender=Male,Female` or `gender` (groups as found in the file)."""
    attributes: dict[str, list[str]] = {}
    for option in given:
        name, equals, groups = option.partition("=")
        if name in attributes:
            raise DatasetError(f"attribute '{name}' is named twice.", remedy="name each attribute once")
        attributes[name] = [group.strip() for group in groups.split(",")] if equals else []
    return attributes


def _describe(manifest: Manifest) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    kind = "counterfactual sets" if manifest.counterfactual else "sets, not counterfactual"
    members = f" of {manifest.members_per_set} members" if manifest.members_per_set else ""
    shard_bytes = sum(shard.bytes for shard in manifest.shards)
    facts = {
        "dataset": manifest.ref,
        "holds": f"{manifest.n_rows:,} rows in {manifest.n_sets:,} {kind}{members}",
        "images": manifest.image_encoding,
        "subjects": ", ".join(f"{name} ({count:,})" for name, count in manifest.counts.subjects.items()),
        "shards": f"{len(manifest.shards)} ({shard_bytes / 1e6:,.1f} MB)",
        "recipe": str(manifest.recipe.get("name", manifest.recipe.get("kind", "see manifest.json"))),
        "licence": manifest.licence,
        "fingerprint": manifest.fingerprint,
        **({"notice": manifest.notice} if manifest.notice else {}),
    }
    for fact, text in facts.items():
        console.print(f"[bold]{fact:<12}[/bold]{escape(harmless(text))}", soft_wrap=True)
    table = Table("attribute", "group", "images", title="perceived or prompted attributes", title_justify="left")
    for attribute, groups in manifest.counts.groups.items():
        for place, (group, count) in enumerate(groups.items()):
            table.add_row(escape(attribute) if place == 0 else "", escape(group), f"{count:,}")
    if manifest.attributes:
        console.print(table)
