"""`fairgate dataset import` and `get`: releases of labelled photographs, one's own and published ones."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fairgate import data, suites
from fairgate.data import published
from fairgate.ground.errors import DatasetError, harmless
from fairgate.ground.number_format import share_words
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import INVALID, echo_prose, print_facts, print_table, progress_line

_LISTED = 20
"""Crossings that a preview lists because a suite would not judge them; the others are counted."""

_Labels = Annotated[
    Path,
    typer.Option(
        help="Table with a row per image: CSV (commas, semicolons or tabs; .gz), JSON Lines, Parquet, WebDataset's "
        ".tar, several as `data/train-*.parquet`, or a folder of one of them or of pictures with metadata.csv."
    ),
]
_Attributes = Annotated[
    list[str] | None,
    typer.Option(
        help="Column with a perceived attribute; repeatable. `gender=Male,Female` sets the order. Left out for a "
        "generator's outputs, in which a reader perceives who is shown."
    ),
]
_Bins = Annotated[
    list[str] | None,
    typer.Option(
        help="Groups of a column of numbers, both bounds included: `age=0-19,20-39,40-59,60-`; repeatable. Where "
        "bins meet, `0-<10,10-<20` or `0-10,>10-20`."
    ),
]


def import_(  # noqa: PLR0913, PLR0917 -- options of a command
    name: Annotated[str, typer.Argument(help="Name of the new dataset.")],
    labels: _Labels,
    attribute: _Attributes = None,
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
    cluster: Annotated[
        str | None,
        typer.Option(help="Column of images that depend on each other (a person, photograph, prompt): one set."),
    ] = None,
    bin: _Bins = None,
    merge: Annotated[
        list[str] | None,
        typer.Option(help="Values under one name: `race=Latino_Hispanic,Middle Eastern=other`; repeatable."),
    ] = None,
    min_sets: Annotated[int, typer.Option(min=2, help="Sets that a suite needs to judge a group.")] = data.MIN_SETS,
    preview: Annotated[bool, typer.Option("--preview", help="Show the groups and write nothing.")] = False,
    licence: Annotated[str, typer.Option(help="Licence of the images.")] = "unknown",
    version: Annotated[str, typer.Option(help="Version to write.")] = "v1",
    root: options.Releases = data.FOLDER,
) -> None:
    """Import photographs with labels, each a set of its own or in a cluster, or labels without images (scores only)."""
    data.check_name(name, version)
    if not preview:
        data.refuse_existing(root / name / version)
    columns = data.ImportColumns(
        groups_by_attribute(attribute or []), subject, subject_column, image_column, set_column, member_column, cluster
    )
    plan = data.plan_import(labels, images, columns, data.ColumnGrouping.parse(bin or (), merge or ()))
    notes = [f"{plan.rows.table.name}: {what.replace('_', ' ')} {note}" for what, note in plan.notes.items()]
    if plan.images_found_by == "file name":
        notes.append(f"none of the paths in {labels} is under {images}; images were found by file name alone")
    echo_prose(notes, err=True)
    unit = "image" if set_column is None else "set"
    if preview:
        show_sizes(plan.group_sizes(), list(plan.rows.groups), min_sets, "--bin, --merge", _LISTED, unit=unit)
        typer.echo("nothing was written (--preview); pictures were not decoded")
        return
    with progress_line() as show:
        manifest = plan.write(name, root=root, version=version, licence=licence, progress=partial(show, "importing"))
    describe(manifest, groups=False)
    if plan.rows.groups:
        show_sizes(plan.group_sizes(), list(plan.rows.groups), min_sets, "--bin, --merge", unit=unit)
    else:
        typer.echo("no --attribute: there are no groups to compare, except those that a reader perceives")
    typer.echo(f"imported as {root / manifest.name / manifest.version}")
    typer.echo(f"next: fairgate suite new {manifest.name} --dataset {manifest.name} --model URI")


def groups_by_attribute(given: list[str]) -> dict[str, list[str]]:
    """`gender=Male,Female` or `gender` (groups as found in the file)."""
    attributes: dict[str, list[str]] = {}
    for option in given:
        name, equals, groups = option.partition("=")
        if name in attributes:
            raise DatasetError(f"attribute '{name}' is named twice.", remedy="name each attribute once")
        attributes[name] = [group.strip() for group in groups.split(",")] if equals else []
    return attributes


def describe(manifest: data.Manifest, *, groups: bool = True) -> None:
    """Print what a release says of itself; its groups in a table, where wanted."""
    from fairgate.records import plain_notice

    kind = "counterfactual sets" if manifest.counterfactual else "sets, not counterfactual"
    members = f" of {manifest.members_per_set} members" if manifest.members_per_set else ""
    sets = f"{manifest.n_rows:,} rows in {manifest.n_sets:,} {kind}{members}"
    pictures = manifest.image_encoding != "none"
    one_by_one = f"{manifest.n_rows:,} {'single images' if pictures else 'rows, without pictures'}"
    single = manifest.n_rows == manifest.n_sets and not manifest.counterfactual
    shard_bytes = sum(shard.bytes for shard in manifest.shards)
    facts = {
        "dataset": manifest.ref,
        "holds": one_by_one if single else sets,
        "images": manifest.image_encoding if pictures else None,
        "subjects": ", ".join(f"{name} ({count:,})" for name, count in manifest.counts.subjects.items()),
        "shards": f"{len(manifest.shards)} ({shard_bytes / 1e6:,.1f} MB)",
        "recipe": str(manifest.recipe.get("name", manifest.recipe.get("kind", "see manifest.json"))),
        "licence": manifest.licence,
        "fingerprint": manifest.fingerprint,
        "notice": manifest.notice and plain_notice(manifest.notice),
    }
    print_facts(facts)
    if not groups:
        return
    rows = [
        ("" if place else attribute, group, f"{count:,}")
        for attribute, counted in manifest.counts.groups.items()
        for place, (group, count) in enumerate(counted.items())
    ]
    if rows:
        print_table(("~attribute", "~group", ">images"), rows, title="perceived or prompted attributes")


def show_sizes(
    sizes: Sequence[data.GroupSize],
    attributes: Sequence[str],
    min_sets: int,
    grouping: str,
    crossings: int = 0,
    *,
    unit: str = "set",
) -> None:
    """Print in how many sets each group is (`unit`: or images), how many crossings a suite would judge, and some
    `crossings` that it would not. `grouping` names the options of the command that group more coarsely.
    """
    by_subject = any(size.fewest < size.sets for size in sizes)
    columns = ("~attribute", "~group", f">{unit}s", *(["~fewest of a subject"] if by_subject else []), "judged")
    rows: list[list[str | tuple[str, str]]] = []
    before = None
    small = [size for size in sizes if size.over not in attributes and not size.judged(min_sets)]
    shown = [*(size for size in sizes if size.over in attributes), *small[:crossings]]
    for size in shown:
        fewest = [f"{size.fewest:,} ({harmless(size.subject)})"] if by_subject else []
        over = "" if size.over == before else harmless(size.over)
        judged = "yes" if size.judged(min_sets) else ("no", "bold")
        rows.append([over, harmless(size.group), f"{size.sets:,}", *fewest, judged])
        before = size.over
    print_table(columns, rows, title=f"groups, with min_sets: {min_sets}")
    for over in dict.fromkeys(size.over for size in sizes if size.over not in attributes):
        cells = [size.judged(min_sets) for size in sizes if size.over == over]
        typer.echo(f"{harmless(over)}: {sum(cells)} of {len(cells)} crossings would be judged")
    if crossings and len(small) > crossings:
        typer.echo(f"{len(small) - crossings} more crossings would not be judged")
    lacking = [size for size in sizes if not size.judged(min_sets)]
    if lacking:
        told = f"{len(lacking)} groups and crossings are in fewer than {min_sets} {unit}s: a suite names them and "
        echo_prose([f"{told}gives no verdict on them. Bring more, or group more coarsely ({grouping})."])
    if by_subject and any(size.judged(min_sets) and size.fewest < min_sets for size in sizes):
        typer.echo(f"A check by subject judges a group only if it has {min_sets} {unit}s of the subject.")


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
    """Fetch or read a published dataset and make a release of it; without --accept-licence, describe it.

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
    with progress_line() as show:
        obtained = published.get_published(
            name,
            downloads or suites.default_cache(os.environ) / "published",
            part=which,
            folder=folder,
            release=out,
            version=version,
            commit=commit,
            fewest_sets=fewest_sets,
            merge=data.ColumnGrouping.parse((), merge or ()).merge,
            root=root,
            progress=partial(show, "importing"),
        )
    _tell(obtained, root)


def _list() -> None:
    rows = []
    for name, dataset in published.DATASETS.items():
        called, _, what = dataset.title.partition(": ")
        known = called.casefold() == name.replace("_", "")
        first, *others = dataset.parts
        parts = f"{first} and {len(others)} more" if others else first
        rows.append((name, what if known else dataset.title, dataset.licence, parts))
    print_table(("name", "~what", "~licence", "~parts"), rows, title="published datasets")
    typer.echo("`fairgate dataset get NAME` shows more; nothing is fetched without --accept-licence")


def _notice(dataset: published.Published, which: str, part: published.PublishedPart) -> None:
    """Everything that somebody should know before the download."""
    source = part.source
    packages = [f"{name} {version}" for name, version in published.DATASETS.packages_of([dataset.name]).items()]
    facts = {
        "dataset": dataset.title,
        "licence": dataset.licence,
        "terms": dataset.terms,
        "source": source.address
        + (f" at {source.commit}" if isinstance(source, published.HubFiles) and source.commit else ""),
        **({"to get it": source.how} if not isinstance(source, published.HubFiles | published.WebFiles) else {}),
        "part": f"{which}: {part.about}",
        "other parts": "; ".join(
            f"{name}: {other.about.rstrip('.')}" for name, other in dataset.parts.items() if name != which
        ),
        "size": part.size,
        "sets": "counterfactual" if dataset.counterfactual else "not counterfactual: sets differ in more than a group",
        "checksums": "SHA-256 of every file is recorded at the first import and compared at the next",
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
