"""`fairgate suite`: write a first suite, the JSON schema of suites, and how often a reader of pictures is wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fairgate import data, models, probes, suites
from fairgate.gate import baselines
from fairgate.ground.errors import BaselineError, DatasetError, SettingsError, SuiteError
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import progress_line, writing
from fairgate.studies import power

_ANSWERING = frozenset({"vlm", "captions"})
"""Families that continue a prompt of their URI with a label: what the suite shows is the answer, and no caption."""

suite_app = typer.Typer(no_args_is_help=True, help="Write suites.")


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
    baseline: Annotated[str, typer.Option(help="What to compare with.")] = "git:origin/main",
    truth: Annotated[str | None, typer.Option(help="Attribute to classify, where all images show one subject.")] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            help="A label that an image may be taken for and does not show, `nurse` for `doctor`. Repeatable."
        ),
    ] = None,
    tolerates: Annotated[
        float | None,
        typer.Option(help="Loss that you tolerate, the margin of checks. Default: 0.03 to 0.05, as images can decide."),
    ] = None,
    like: options.Like = None,
    views: Annotated[
        int, typer.Option(min=1, max=64, help="Views of each single image, whose mean shows smaller losses: 16, say.")
    ] = 1,
    min_sets: Annotated[
        int, typer.Option(min=2, help="Sets of a group below which the suite gives no verdict on it.")
    ] = suites.FEWEST,
    measured: Annotated[
        bool | None,
        typer.Option(help="Simulate which checks these images can decide. Default: if there are at most 1,000."),
    ] = None,
    root: options.Root = Path(),
) -> None:
    """Write a first suite for a dataset, with the checks that its images can decide; others are watched. An existing
    file is never replaced."""
    root = root.resolve()
    text = first_suite(
        name,
        root,
        dataset,
        model,
        baseline,
        truth,
        beside or (),
        tolerates=tolerates,
        like=like or (),
        views=views,
        min_sets=min_sets,
        measured=measured,
    )
    anchor = _anchor_line(name, root, baseline)
    path = root / suites.FOLDER / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + anchor, encoding="utf-8")
    typer.echo(f"wrote {path.relative_to(root)}: read it, and set its bounds. On the main branch, keep a baseline:")
    typer.echo(f'  fairgate baseline update {name} --reason "the first one"')
    typer.echo(f"Commit it, and judge every change: fairgate check {name}")
    if not anchor:
        typer.echo("warning: no anchor yet: losses below the margin add up from baseline to baseline. After the merge:")
        typer.echo(f"  fairgate baseline anchor {name}")


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


def _anchor_line(name: str, root: Path, baseline: str) -> str:
    """The line that pins the first baseline as the anchor, if the base of this suite's name has one already."""
    spec, repository = baselines.parse_baseline(baseline), baselines.Repository(root)
    if spec.kind != "git":
        return ""
    try:
        commit = repository.tip(spec.target)
    except BaselineError:
        return ""
    return f"anchor: git:{spec.target}@{commit}\n" if repository.tree(commit, baselines.baseline_folder(name)) else ""


def _text(
    name: str,
    release: data.Dataset,
    opened: models.Model | None,
    *,
    model: str,
    baseline: str,
    truth: str | None,
    beside: Sequence[str],
    views: int,
    min_sets: int,
    margin: float,
) -> str:
    """A suite by what the model can do; of one that is not at hand (None), that of a CLIP."""
    can = frozenset({"log_probabilities", "similarity"}) if opened is None else opened.capabilities
    labels, several = truth is not None or bool(beside), views > 1
    if not release.manifest.attributes:
        what = f"dataset '{release.manifest.name}' records no attribute, so that there are no groups to compare."
        remedy = f"of prompts for a generator, copy the suite of docs/use/generators.md to fairness_suites/{name}.yaml "
        remedy += "and name your reader in it; of photographs, import them with --attribute"
        raise SettingsError(what, where=release.manifest.name, remedy=remedy)
    draft = suites.SuiteDraft(name, release.manifest, release.index, model, baseline, margin, views, min_sets)
    if "detect" in can:
        _refuse(labels, "a detector's suite has no labels.", model, "leave out --truth and --beside")
        remedy = "leave out --views, and write `views:` at a probe yourself"
        _refuse(several, "a detector's suite is written without views.", model, remedy)
        return draft.of_detections(boxes=release.index.boxes() is not None)
    if "measure" in can:
        _refuse(labels or several, "a table of numbers has no labels, and no views.", model, "leave out these options")
        return draft.of_numbers(getattr(opened, "columns", ()))
    if "answer" in can and "log_probabilities" not in can:
        return _of_words(draft, release, opened, model, labels=labels, several=several)
    if "predict" in can and "log_probabilities" not in can:
        _refuse(bool(beside), "a suite of predictions has the model's own labels.", model, "leave out --beside")
        return draft.of_predictions(truth)
    if opened is not None:
        models.require_capability(opened, "log_probabilities", "a suite of labels, which this command writes")
    answered = bool(_ANSWERING & set(models.schemes(model)))  # a label is what such a model says next
    by_label = answered or getattr(opened, "texts_read_by", "") == "labels"
    template = "{label}" if by_label else "a photo of {a_label}"
    columns = opened.table.prompts if isinstance(opened, models.PrecomputedScores) else None
    return draft.of_labels(truth, beside, searches="similarity" in can, template=template, columns=columns)


def _of_words(
    draft: suites.SuiteDraft,
    release: data.Dataset,
    opened: models.Model | None,
    model: str,
    *,
    labels: bool,
    several: bool,
) -> str:
    """A suite of the questions in the dataset's captions, or of those that a table answers."""
    try:
        items = probes.items_of(release.index, (), False)
    except DatasetError:
        items = []
    options = "leave out --truth, --beside and --views"
    _refuse(bool(items) and (labels or several), "the dataset's captions hold questions, and options.", model, options)
    if items:
        return draft.of_items(items)
    answers = getattr(opened, "answers", None)
    if answers is None:
        what = f"a model that answers in words needs questions, and captions of {release.manifest.ref} hold none."
        remedy = (
            f"copy the suite of docs/use/questions.md to fairness_suites/{draft.name}.yaml, with your questions in it"
        )
        raise SettingsError(what, where=model, remedy=remedy)
    _refuse(labels, "a suite of answers has the options that the table answers.", model, options)
    _refuse(several, "a table has no answers about views.", model, "leave out --views, or name the model itself")
    return draft.of_answers(answers)


def _refuse(wrong: bool, what: str, model: str, remedy: str) -> None:
    """Raises SettingsError if something is `wrong` for this kind of model."""
    if wrong:
        raise SettingsError(what, where=model, remedy=remedy)


def first_suite(  # noqa: PLR0913 - the options of `suite new`
    name: str,
    root: Path,
    dataset: str,
    model: str,
    baseline: str,
    truth: str | None,
    beside: Sequence[str],
    *,
    tolerates: float | None = None,
    like: Sequence[str] = (),
    views: int = 1,
    min_sets: int = suites.FEWEST,
    measured: bool | None = False,
) -> str:
    """The text of a first suite, checked against the dataset, and `measured` on the checkpoint if that is at hand.
    Raises a FairgateError."""
    path = root / suites.FOLDER / f"{name}.yaml"
    if path.exists():
        remedy = f"edit it, or choose another name; the rest of a gate for it: fairgate init {name}"
        raise SuiteError(f"the suite '{name}' is there.", where=str(path), remedy=remedy)
    fetched = model.startswith("mlflow-model:")
    if not fetched:
        models.require_uri(model, root)
    baselines.parse_baseline(baseline, where="--baseline")
    release = data.open_dataset(dataset, data.releases_folder(root))
    named = models.local_paths("" if fetched else model)
    outside = any(suites.leaves(each, root) for each in named)  # `require_inside` says so below
    opened = None if fetched or outside else models.open_scorer(model, release, device="cpu", base=root)
    write = partial(
        _text,
        name,
        release,
        opened,
        model=model,
        baseline=baseline,
        truth=truth,
        beside=beside,
        views=views,
        min_sets=min_sets,
    )
    text = write(margin=tolerates or suites.TOLERATES[0])
    loaded = suites.load_text(text.encode(), path, shown=f"{suites.FOLDER}/{name}.yaml")
    suites.require_inside(loaded.suite, loaded.source, root)
    suites.plan_checks(loaded, release.manifest)
    if measured is None:
        measured = len(release.index) <= power.MEASURED
    if opened is None or not measured:
        typer.echo("not measured which checks these images can decide: --measured, or see `fairgate power`")
        return text
    with progress_line() as progress:
        first = power.measured_suite(
            name, root, release, lambda margin: write(margin=margin), tolerates=tolerates, like=like, progress=progress
        )
    for line in first.lines:
        typer.echo(line)
    return first.text
