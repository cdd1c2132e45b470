"""`fairgate dataset get`: what a published dataset is, on what terms, and a release of it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from fairgate import data, suites
from fairgate.data import published
from fairgate.ground.number_format import share_words
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import INVALID, print_facts, print_table, progress_bar
from fairgate.interfaces.cli.dataset_import import show_sizes

_NOT_TRIED = "the authors of fairgate never downloaded it: the layout is as documented and as loaders read it"


def get(  # noqa: PLR0913, PLR0917 -- one parameter per option
    name: Annotated[str | None, typer.Argument(help="A published dataset; left out, all are listed.")] = None,
    part: Annotated[str | None, typer.Option(help="Which part of it; the first one when left out.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--from", help="Folder with the files as they were published; nothing is fetched.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept-licence", help="I have read the licence and the terms, and I accept them.")
    ] = False,
    out: Annotated[str | None, typer.Option(help="Name of the release; the dataset's when left out.")] = None,
    version: Annotated[str, typer.Option(help="Version to write.")] = "v1",
    fetch_images: Annotated[
        bool, typer.Option("--fetch-images", help="Of a list of addresses: fetch the images from strangers' servers.")
    ] = False,
    fewest_sets: Annotated[
        int, typer.Option(min=1, help="Leave out subjects of fewer sets: a check needs 30 of each that it is about.")
    ] = 1,
    merge: Annotated[
        list[str] | None,
        typer.Option(help="Groups under one name: `race=Latino_Hispanic,Middle Eastern=other`; repeatable."),
    ] = None,
    commit: Annotated[str | None, typer.Option(help="Another full commit of the hub's repository.")] = None,
    downloads: Annotated[
        Path | None, typer.Option(help="Folder for what is fetched; by default in the user's cache.")
    ] = None,
    root: options.Releases = data.FOLDER,
) -> None:
    """Fetch or read a published dataset and make a release of it; without --accept-licence, say what it is.

    Exit code 0: it is there, 4: it is not.
    """
    if name is None:
        _list()
        return
    dataset = published.find_published(name)
    which, chosen = dataset.part(part)
    _notice(dataset, which, chosen)
    if not accept:
        typer.echo("\nNothing was fetched. To go on:\n" + _command(name, part, folder, out))
        raise typer.Exit(INVALID)
    with progress_bar("importing") as progress:
        obtained = published.get_published(
            name,
            downloads or _cache() / "published",
            part=which,
            folder=folder,
            release=out,
            version=version,
            commit=commit,
            fetch_images=fetch_images,
            fewest_sets=fewest_sets,
            merge=data.ColumnGrouping.parse((), merge or ()).merge,
            root=root,
            progress=progress,
        )
    _tell(obtained, root)


def _cache() -> Path:

    return suites.default_cache(os.environ)


def _list() -> None:
    rows = []
    for name, dataset in published.DATASETS.items():
        called, _, what = dataset.title.partition(": ")
        known = called.casefold() == name.replace("_", "")
        first, *others = dataset.parts
        parts = f"{first} and {len(others)} more" if others else first
        rows.append((name, what if known else dataset.title, dataset.licence, parts))
    print_table(("name", "~what", "~licence", "~parts"), rows, title="published datasets")
    typer.echo("`fairgate dataset get NAME` says more; nothing is fetched without --accept-licence")


def _notice(dataset: published.Published, which: str, part: published.PublishedPart) -> None:
    """Everything that somebody should know before the download."""
    source = part.source
    packages = [f"{name} {version}" for name, version in published.DATASETS.packages_of([dataset.name]).items()]
    sums = "SHA-256 of every file is recorded at the first import and compared at the next"
    if isinstance(source, published.WebFiles) and source.urls.keys() <= source.sha256.keys():
        sums = "SHA-256 known beforehand, and checked"
    facts = {
        "dataset": dataset.title,
        "licence": dataset.licence,
        "terms": dataset.terms,
        "source": source.address
        + (f" at {source.commit}" if isinstance(source, published.HubFiles) and source.commit else ""),
        **({"to get it": source.how} if not isinstance(source, published.HubFiles | published.WebFiles) else {}),
        "part": f"{which}: {part.about}",
        "other parts": "; ".join(f"{name}: {other.about}" for name, other in dataset.parts.items() if name != which),
        "size": part.size,
        "sets": "counterfactual" if dataset.counterfactual else "not counterfactual: each image is a set of its own",
        "checksums": sums,
        "citation": dataset.citation,
        **({"importer": ", ".join(packages)} if packages else {"not tried": _NOT_TRIED}),
    }
    print_facts(facts)
    for note in dataset.notes:
        print_facts({"note": note})


def _compared(manifest: data.Manifest) -> list[str]:
    """How a release differs from what was published, by its recipe, and what was mended."""
    recipe = manifest.recipe
    counts = {"image": manifest.n_rows, "set": manifest.n_sets}
    original = {what: recipe.get(f"published_{what}s", count) for what, count in counts.items()}
    notes = [
        f"{share_words(counts[what], what)}; {of:,} were published"
        for what, of in original.items()
        if of != counts[what]
    ]
    if not notes and recipe.get("counts_as_published") is False:
        notes = ["groups have other sizes than in the published labels"]
    if repaired := recipe.get("ages_repaired"):
        notes.append(f"ages that a spreadsheet had made dates, and that were mended: {repaired:,}")
    return notes


def _command(name: str, part: str | None, folder: Path | None, out: str | None) -> str:
    given = {"--part": part, "--from": None if folder is None else str(folder), "--out": out}
    options = [word for option, value in given.items() if value is not None for word in (option, value)]
    return f"  {shlex.join(['fairgate', 'dataset', 'get', name, *options, '--accept-licence'])}"


def _tell(obtained: published.Obtained, root: Path) -> None:
    """What was left out, the sizes of groups, and where the release is."""
    manifest = obtained.manifest
    for reason, count in obtained.left_out.items():
        typer.echo(f"left out: {count:,} ({reason})", err=True)
    sizes = data.group_sizes(data.open_dataset(manifest.ref, root).index)
    unit = "image" if manifest.n_rows == manifest.n_sets else "set"
    show_sizes(sizes, list(manifest.attributes), data.MIN_SETS, "--merge", unit=unit)
    for note in _compared(manifest):
        typer.echo(f"note: {note}", err=True)
    kind = "counterfactual set" if manifest.counterfactual else "set"
    where = root / manifest.name / manifest.version
    if obtained.made:
        size = f"{share_words(manifest.n_rows, 'image')} in {share_words(manifest.n_sets, kind)}"
        typer.echo(f"{manifest.ref}: {size}, in {where}")
    else:
        typer.echo(f"{manifest.ref} is in {where} already, made of the same files: nothing was written")
