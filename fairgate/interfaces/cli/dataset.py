"""`fairgate dataset`: fetch a release, look at it, verify it, import photographs, export, write prompts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fairgate import data, probes
from fairgate.builds import review
from fairgate.gate import baselines
from fairgate.ground.errors import DatasetError
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import FOUND, friendly, progress_line, write_png
from fairgate.interfaces.cli.dataset_import import describe, get, groups_by_attribute, import_

dataset_app = typer.Typer(no_args_is_help=True, help="Fetch, look at, verify, import and write datasets.")

Name = Annotated[str, typer.Argument(help="A dataset: `occupations` (newest version) or `occupations@v1`.")]
dataset_app.command()(get)
dataset_app.command("import")(import_)


@dataset_app.command()
@friendly(3)  # as where a gate reached no verdict
def pull(
    targets: Annotated[
        list[str] | None,
        typer.Argument(help="Pointers (fairness_data.dvc) or tracked paths; all of *.dvc and dvc.lock when left out."),
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
    with progress_line() as show:
        repository, progress = baselines.Repository(root.resolve()), partial(show, "fetching")
        done = baselines.pull(repository, targets or (), base=base, force=force, progress=progress)
    if not done:
        typer.echo("DVC tracks nothing here")
    for fetched in done:
        what = f"{fetched.fetched:,} fetched ({fetched.bytes / 1e6:,.1f} MB)" if fetched.fetched else "nothing to fetch"
        typer.echo(f"{fetched.path}: {fetched.files:,} file(s), {what}  [{fetched.pointer}]")


@dataset_app.command()
def show(name: Name, root: options.Releases = data.FOLDER) -> None:
    """What a release holds: attributes, groups, counts, recipe, licence."""
    describe(data.open_dataset(name, root).manifest)


@dataset_app.command()
def verify(name: Name, root: options.Releases = data.FOLDER) -> None:
    """Read all of a release and name what is wrong. Exit code 0: nothing, 1: problems, 4: there is no such release."""
    dataset = data.open_dataset(name, root)
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


@dataset_app.command()
def export(
    name: Name,
    to: Annotated[
        str,
        typer.Option(
            help="`csv:FOLDER`, a new folder: pictures and metadata.csv, as Hugging Face's ImageFolder reads them."
        ),
    ],
    root: options.Releases = data.FOLDER,
) -> None:
    """Write a release for spreadsheets and other tools that read CSV; those that read Parquet read it as it is."""
    dataset = data.open_dataset(name, root)
    with progress_line() as show:
        data.export_dataset(dataset, to, partial(show, "exporting"))
    typer.echo("CSV has no types: read every column as text, or a name such as 0012 becomes the number 12", err=True)
    typer.echo(f"{dataset.manifest.ref}: {len(dataset):,} rows, written to {to}")


@dataset_app.command()
def subset(
    name: Name,
    new: Annotated[str, typer.Argument(help="Name of the new dataset.")],
    where: Annotated[
        list[str], typer.Option(help="Groups that are kept, `race=Black,White`; repeat for another attribute.")
    ],
    version: Annotated[str, typer.Option(help="Version to write.")] = "v1",
    root: options.Releases = data.FOLDER,
) -> None:
    """Write a release of some groups of another one."""
    manifest = data.write_subset(
        data.open_dataset(name, root), new, groups_by_attribute(where), root=root, version=version
    )
    describe(manifest)
    typer.echo(f"written as {root / manifest.name / manifest.version}")


@dataset_app.command()
def prompts(
    name: Annotated[str, typer.Argument(help="Name of the new dataset.")],
    template: Annotated[
        str, typer.Option(help="The prompt, with `{word}` or `{a_word}` (with its article): `a photo of {a_word}`.")
    ],
    word: Annotated[
        list[str], typer.Option(help="What to ask for, such as `doctor`; repeatable. `doctor=80` has 80 pictures.")
    ],
    seeds: Annotated[int, typer.Option(min=1, help="Pictures of every word that has no number of its own.")] = 50,
    licence: Annotated[str, typer.Option(help="Licence of the prompts.")] = "unknown",
    version: Annotated[str, typer.Option(help="Version to write.")] = "v1",
    root: options.Releases = data.FOLDER,
) -> None:
    """Write a release of prompts for generators: a row for every word and seed, without pictures."""
    try:
        probes.checked_template(template, "word")
    except ValueError as error:
        raise DatasetError(f"{error}.", where="--template", remedy="write one as `a photo of {a_word}`") from error
    counts = _counts(word, seeds)
    asked = {entry: probes.filled(template, "word", entry) for entry in counts}
    of_each = counts if any("=" in entry for entry in word) else seeds
    manifest = data.write_prompts(asked, of_each, name, root=root, version=version, licence=licence)
    describe(manifest)
    typer.echo(f"written as {root / manifest.name / manifest.version}")


def _counts(words: list[str], usual: int) -> dict[str, int]:
    """How many pictures of each word: `doctor=80`, or `doctor`, of which there are as many as usual."""
    counts: dict[str, int] = {}
    for entry in words:
        word, equals, count = entry.partition("=")
        if word in counts:
            raise DatasetError(f"the word '{word}' is given twice.", where="--word", remedy="give each word once")
        if equals and not (count.isdecimal() and count.isascii()):
            remedy = "write `doctor=80` for 80 pictures of a doctor"
            raise DatasetError(f"'{count}' is no number of pictures.", where=f"--word {entry}", remedy=remedy)
        counts[word] = int(count) if equals else usual
    return counts


@dataset_app.command()
def sheet(
    build: options.BuildName,
    out: Annotated[Path, typer.Option(help="PNG file to write.")] = Path("sheet.png"),
) -> None:
    """Draw a contact sheet of a dataset: a row per set, its members in stored order."""
    dataset = review.find_build(build).dataset
    picture = write_png(out, lambda: data.contact_sheet(dataset))
    typer.echo(f"wrote {out} ({picture.width} x {picture.height} pixels)")
