"""`fairgate suite`: write a first suite, the JSON schema of suites, and how often a reader of pictures is wrong."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fairgate import data, models, probes, suites
from fairgate.ground.errors import SuiteError
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import echo_prose, progress_line, writing
from fairgate.interfaces.suite_writing import SuiteOptions, first_suite, write_suite

suite_app = typer.Typer(no_args_is_help=True, help="Write suites.")

_Beside = Annotated[
    list[str] | None,
    typer.Option(help="A label that an image may be taken for and does not show, `nurse` for `doctor`. Repeatable."),
]
_Tolerates = Annotated[
    float | None,
    typer.Option(help="Loss that you tolerate, the margin of checks. Default: 0.03 to 0.05, as images can decide."),
]
_Measured = Annotated[
    bool | None,
    typer.Option(help="Simulate which checks the images can decide. Default: of tables, and of at most 1,000 images."),
]


@suite_app.command()
def schema(out: Annotated[Path | None, typer.Option(help="Write to this file instead.")] = None) -> None:
    """The JSON schema of suite files, for editors."""
    text = json.dumps(suites.Suite.model_json_schema(by_alias=True), indent=2) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        with writing("the schema", f"--out {out}"):
            out.write_text(text, encoding="utf-8")


@suite_app.command()
def new(  # noqa: PLR0913, PLR0917 - an option is a parameter
    name: Annotated[str, typer.Argument(help="Name of the suite, and of its file in fairness_suites/.")],
    dataset: Annotated[str, typer.Option(help="A dataset in fairness_data/, for example `faces` or `faces@v1`.")],
    model: Annotated[str, typer.Option(help="URI of the checkpoint to judge, such as open_clip:ARCH@FILE.")],
    baseline: Annotated[
        str | None,
        typer.Option(help="What to compare with. Default: the default branch, of `origin` if there is such a remote."),
    ] = None,
    truth: Annotated[str | None, typer.Option(help="Attribute to classify, where all images show one subject.")] = None,
    beside: _Beside = None,
    tolerates: _Tolerates = None,
    like: options.Like = None,
    views: Annotated[
        int, typer.Option(min=1, max=64, help="Views of each single image, whose mean shows smaller losses: 16, say.")
    ] = 1,
    min_sets: Annotated[
        int, typer.Option(min=2, help="Sets of a group below which the suite gives no verdict on it.")
    ] = data.MIN_SETS,
    question: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The question of a table of answers, if the table does not name it."),
    ] = None,
    measured: _Measured = None,
    root: options.Root = Path(),
) -> None:
    """Write a first suite for a dataset, with the checks that its images can decide; others are watched. An existing
    file is never replaced."""
    root = root.resolve()
    wanted = SuiteOptions(
        dataset, model, baseline, truth, beside or (), tolerates, like or (), views, min_sets, question, measured
    )
    with progress_line() as progress:
        first = first_suite(name, root, wanted, progress)
    echo_prose(first.lines)
    path = write_suite(name, root, first.text)
    echo_prose([f"wrote {path.relative_to(root)}: read it, and set its bounds. On the main branch, keep a baseline:"])
    typer.echo(f'  fairgate baseline update {name} --reason "the first one"')
    typer.echo(f"Commit it, and judge every change: fairgate check {name}")


@suite_app.command()
def reader(
    name: Annotated[str, typer.Argument(help="A suite with a `generation` probe.")],
    dataset: Annotated[
        str | None, typer.Argument(help="A release whose pictures show known groups: `people`, `people@v1`.")
    ] = None,
    probe: Annotated[str | None, typer.Option(help="The probe, where the suite has several.")] = None,
    device: options.Device = None,
    root: options.Root = Path(),
) -> None:
    """How often the reader of generated pictures is wrong: the probe's `measured:`, from pictures of known groups.

    Without a dataset: the reader's `fingerprint:`.
    """
    root = root.resolve()
    loaded = suites.load_suite(suites.suite_path(name, root), root)
    release = data.open_dataset(dataset or loaded.suite.dataset, data.releases_folder(root))
    readers = {
        key: settings.reader
        for key, settings in loaded.suite.probes.items()
        if isinstance(settings, probes.GenerationProbe) and settings.reader
    }
    if len(readers) != 1 if probe is None else probe not in readers:
        raise SuiteError(
            f"which probe's reader? Probes of suite '{name}' with one: {', '.join(readers) or 'none'}.",
            where=loaded.where("probes"),
            remedy="name one of them with --probe; a table of labels has no reader, and is measured by who made it",
        )
    key = probe or next(iter(readers))
    chosen = readers[key]
    open_reader = partial(models.open_scorer, device=device or "auto", base=root)
    if dataset is None:
        typer.echo(f"fingerprint: {open_reader(chosen.model, release).fingerprint}")
        return
    probes.dataset_has(
        chosen.attribute, f"the reader of probe '{key}' perceives", release.manifest, loaded.where("probes", key)
    )
    opened = chosen.over_pictures(open_reader, release)
    counts = chosen.confusion(opened, release.index.attributes[chosen.attribute])
    if empty := [group for group, row in counts.items() if not sum(row.values())]:
        raise SuiteError(
            f"dataset '{release.manifest.ref}' has no picture of '{empty[0]}', which the reader perceives.",
            where=loaded.where("probes", key, "reader"),
            remedy=f"call the groups as the dataset does: {', '.join(release.manifest.attributes[chosen.attribute])}",
        )
    typer.echo(f"measured: {json.dumps(counts)}")
