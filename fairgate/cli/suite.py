"""`fairgate suite`: write a first suite, and the JSON schema of suites."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairgate.cli import options
from fairgate.cli.console import writing

if TYPE_CHECKING:
    from fairgate.data import Dataset
    from fairgate.models import Model

suite_app = typer.Typer(no_args_is_help=True, help="Write suites.")


@suite_app.command()
def schema(out: Annotated[Path | None, typer.Option(help="Write to this file instead.")] = None) -> None:
    """The JSON schema of suite files, for editors."""
    from fairgate.suites import Suite

    text = json.dumps(Suite.model_json_schema(by_alias=True), indent=2) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        with writing("the schema", f"--out {out}"):
            out.write_text(text, encoding="utf-8")


@suite_app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the suite, and of its file in fairness_suites/.")],
    dataset: Annotated[str, typer.Option(help="A dataset in datasets/, for example `faces` or `faces@v1`.")],
    model: Annotated[str, typer.Option(help="URI of the checkpoint to judge, such as open_clip:ARCH@FILE.")],
    baseline: Annotated[str, typer.Option(help="What to compare with.")] = "git:origin/main",
    truth: Annotated[str | None, typer.Option(help="Attribute to classify, where all images show one subject.")] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            help="A label that an image may be taken for and does not show, `nurse` for `doctor`. Repeatable."
        ),
    ] = None,
    root: options.Root = Path(),
) -> None:
    """Write a first suite for a dataset, checked against it; an existing file is never replaced."""
    from fairgate.suites import FOLDER

    root = root.resolve()
    text = first_suite(name, root, dataset, model, baseline, truth, beside or ())
    path = root / FOLDER / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {path.relative_to(root)}: read it, and set its bounds. On the main branch, keep a baseline:")
    typer.echo(f'  fairgate baseline update {name} --reason "the first one"')
    typer.echo(f"Commit it, and judge every change: fairgate check {name}")


def _text(
    name: str,
    data: Dataset,
    opened: Model | None,
    *,
    model: str,
    baseline: str,
    truth: str | None,
    beside: Sequence[str],
) -> str:
    """A suite by what the model can do; of one that is not at hand (None), that of a CLIP."""
    from fairgate.errors import SettingsError
    from fairgate.models import require_capability
    from fairgate.suites import new_detection_suite, new_prediction_suite, new_suite

    can = frozenset({"log_probabilities", "similarity"}) if opened is None else opened.capabilities
    said = {"model": model, "baseline": baseline}
    if "detect" in can:
        if truth is not None or beside:
            what = "a detector's suite has no labels."
            raise SettingsError(what, where=model, remedy="leave out --truth and --beside")
        boxes = data.index.boxes() is not None
        return new_detection_suite(name, data.manifest, data.index, boxes=boxes, **said)
    if "predict" in can and "log_probabilities" not in can:
        if beside:
            what = "a suite of predictions has the model's own labels."
            raise SettingsError(what, where=model, remedy="leave out --beside")
        return new_prediction_suite(name, data.manifest, data.index, truth=truth, **said)
    if "answer" in can and "log_probabilities" not in can:
        what = "a model that answers in words is judged by questions, and nobody but you knows which ones."
        remedy = f"copy the suite of docs/questions.md to fairness_suites/{name}.yaml, and write your questions into it"
        raise SettingsError(what, where=model, remedy=remedy)
    if opened is not None:
        require_capability(opened, "log_probabilities", "a suite of labels, which this command writes")
    said["template"] = "{label}" if getattr(opened, "texts_read_by", "") == "labels" else "a photo of {a_label}"
    searches = "similarity" in can
    return new_suite(name, data.manifest, data.index, truth=truth, distractors=beside, searches=searches, **said)


def first_suite(
    name: str, root: Path, dataset: str, model: str, baseline: str, truth: str | None, beside: Sequence[str]
) -> str:
    """The text of a first suite, checked against the dataset and the checkpoint. Raises a FairgateError."""
    from fairgate.baselines import parse_baseline
    from fairgate.data import open_dataset
    from fairgate.errors import SuiteError
    from fairgate.models import local_paths, open_scorer, require_uri
    from fairgate.suites import FOLDER, leaves, load_text, plan_checks, require_inside

    path = root / FOLDER / f"{name}.yaml"
    if path.exists():
        raise SuiteError(f"the suite '{name}' is there.", where=str(path), remedy="edit it, or choose another name")
    fetched = model.startswith("mlflow-model:")
    if not fetched:
        require_uri(model, root)
    parse_baseline(baseline, where="--baseline")
    data = open_dataset(dataset, root / "datasets")
    named = local_paths("" if fetched else model)
    outside = any(leaves(each, root) for each in named)  # `require_inside` says so below
    opened = None if fetched or outside else open_scorer(model, data, device="cpu", base=root)
    text = _text(name, data, opened, model=model, baseline=baseline, truth=truth, beside=beside)
    loaded = load_text(text.encode(), path, shown=f"{FOLDER}/{name}.yaml")
    require_inside(loaded.suite, loaded.source, root)
    plan_checks(loaded, data.manifest)
    return text
