"""First suites: for what a model can do, checked against its dataset; and for arrays, in a small repository."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import yaml

from fairgate import data, models, probes, suites
from fairgate.gate import baselines
from fairgate.ground.errors import BaselineError, DatasetError, ModelError, SettingsError, SuiteError
from fairgate.ground.number_format import share_words
from fairgate.studies import power

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


_ANSWERING = frozenset({"vlm", "captions", "openai"})
"""Families that continue a prompt of their URI with a label: what the suite shows is the answer, and no caption."""


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """What `fairgate suite new` is told. Without a `baseline`, it is the default branch's. `measured` decides whether
    the model simulates what the images can decide; None: a table does, and any model if the images are few."""

    dataset: str
    model: str
    baseline: str | None = None
    truth: str | None = None
    beside: Sequence[str] = ()
    tolerates: float | None = None
    like: Sequence[str] = ()
    views: int = 1
    min_sets: int = data.MIN_SETS
    question: str | None = None
    measured: bool | None = False


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


def _refuse_unknown(beside: Sequence[str], classifier: models.FixedLabels) -> None:
    """Raises SettingsError for labels that a classifier does not have."""
    for label in beside:
        try:
            classifier.require_label(label)
        except ModelError as error:
            remedy = "leave out --beside: all of a classifier's own labels that the suite names compete anyway"
            raise SettingsError(error.problem, where="--beside", remedy=remedy) from error


def _text(
    name: str, release: data.Dataset, opened: models.Model | None, options: SuiteOptions, *, margin: float, **other: int
) -> str:
    """A suite by what the model can do; of one that is not at hand (None), that of a CLIP."""
    options = replace(options, **other)  # type: ignore[arg-type] # numbers of sets or views
    model, truth, beside, question = options.model, options.truth, options.beside, options.question
    can = frozenset({"log_probabilities", "similarity"}) if opened is None else opened.capabilities
    labels, several = truth is not None or bool(beside), options.views > 1
    _require_groups_or_classes(name, release.manifest, can)
    baseline = options.baseline or "none"
    draft = suites.SuiteDraft(
        name, release.manifest, release.index, model, baseline, margin, options.views, options.min_sets
    )
    named = question is not None and not hasattr(opened, "prompted")
    _refuse(named, "--question is for a table of answers, and this is none.", model, "leave out --question")
    if "detect" in can:
        _refuse(labels, "a detector's suite has no labels.", model, "leave out --truth and --beside")
        remedy = "leave out --views, and write `views:` at a probe yourself"
        _refuse(several, "a detector's suite is written without views.", model, remedy)
        return draft.of_detections(boxes=release.index.boxes() is not None)
    if "measure" in can:
        _refuse(labels or several, "a table of numbers has no labels, and no views.", model, "leave out these options")
        return draft.of_numbers(getattr(opened, "columns", ()), cast("models.MeasuringModel", opened).measure)
    if "answer" in can and "log_probabilities" not in can:
        return _of_words(draft, release, opened, model, labels=labels, several=several, question=question)
    if "predict" in can and "log_probabilities" not in can:
        _refuse(bool(beside), "a suite of predictions has the model's own labels.", model, "leave out --beside")
        grouped = bool(release.manifest.attributes)
        return (
            draft.of_predictions(truth or _only_truth(release, opened)) if grouped else draft.of_classes(predicts=True)
        )
    if opened is not None:
        models.require_capability(opened, "log_probabilities", "a suite of labels, which this command writes")
    answered = bool(_ANSWERING & set(models.schemes(model)))  # a label is what such a model says next
    by_label = answered or getattr(opened, "texts_read_by", "") == "labels"
    if beside and isinstance(opened, models.FixedLabels):
        _refuse_unknown(beside, opened)
    template = "{label}" if by_label else "a photo of {a_label}"
    columns = opened.table.prompts if isinstance(opened, models.PrecomputedScores) else None
    if release.manifest.attributes:
        return draft.of_labels(truth, beside, searches="similarity" in can, template=template, columns=columns)
    _refuse(truth is not None, "the dataset records no attribute.", model, "leave out --truth")
    return draft.of_classes(beside, template=template, columns=columns)


def _require_groups_or_classes(name: str, manifest: data.Manifest, can: Collection[str]) -> None:
    """Raises SettingsError for a dataset without groups, unless the model can be right about what its images show."""
    classes = len(manifest.subjects) > 1 and manifest.recipe.get("kind") != "prompts"
    if manifest.attributes or (classes and "generate" not in can and {"log_probabilities", "predict"} & {*can}):
        return
    what = f"dataset '{manifest.name}' records no attribute, so that there are no groups to compare."
    remedy = f"of prompts for a generator, copy the suite of docs/use/generators.md to fairness_suites/{name}.yaml "
    remedy += "and name your reader in it; of photographs, import them with --attribute, or with several subjects"
    raise SettingsError(what, where=manifest.name, remedy=remedy)


def _only_truth(release: data.Dataset, opened: models.Model | None) -> str | None:
    """The one attribute that a table has labels of, if all images show one subject."""
    columns = opened.table.prompts if isinstance(opened, models.PrecomputedLabels) else ()
    told = [name for name in columns if name in release.manifest.attributes]
    return told[0] if len(told) == len(release.manifest.subjects) == 1 else None


def _of_words(
    draft: suites.SuiteDraft,
    release: data.Dataset,
    opened: models.Model | None,
    model: str,
    *,
    labels: bool,
    several: bool,
    question: str | None,
) -> str:
    """A suite of the questions in the dataset's captions, or of those that a table answers."""
    try:
        items = probes.items_of(release.index, (), False)
    except DatasetError:
        items = []
    options = "leave out --truth, --beside, --views and --question"
    asked = labels or several or question is not None
    _refuse(bool(items) and asked, "the dataset's captions hold questions, and options.", model, options)
    if items:
        return draft.of_items(items)
    answers = getattr(opened, "answers", None)
    if answers is None:
        what = f"a model that answers in words needs questions, and captions of {release.manifest.ref} hold none."
        remedy = (
            f"copy the suite of docs/use/questions.md to fairness_suites/{draft.name}.yaml, with your questions in it"
        )
        raise SettingsError(what, where=model, remedy=remedy)
    prompted = bool(getattr(opened, "prompted", False)) and question is not None
    _refuse(labels or prompted, "a suite of answers has the questions and options of the table.", model, options)
    _refuse(several, "a table has no answers about views.", model, "leave out --views, or name the model itself")
    named = {(row, prompt if prompt.strip() else question): answer for (row, prompt), answer in answers.items()}
    if unnamed := sum(asked is None for _, asked in named):
        what = f"the table does not name the question of {share_words(unnamed, 'answer')}."
        remedy = 'name it: `fairgate suite new` takes --question "TEXT"; of an empty column `prompt` also append '
        raise SettingsError(what, where=model, remedy=f"{remedy}`?prompt=none` to the model")
    _require_askable(Counter(str(asked) for _, asked in named), len(release.index), model)
    targets = getattr(opened, "targets", {})
    return draft.of_answers(
        {(row, str(asked)): answer for (row, asked), answer in named.items()},
        {(row, str(prompt if prompt.strip() else question)): target for (row, prompt), target in targets.items()},
    )


def _require_askable(asked: Mapping[str, int], images: int, model: str) -> None:
    """Raises SettingsError for questions, with the number of their answers, that a suite cannot put to all images."""
    what, longest = "", max(map(len, asked), default=0)
    if len(asked) > 1 and min(asked.values()) < images:
        what = f"the table has {len(asked):,} questions, and not each is about all {images:,} images."
    elif longest > probes.LONGEST_PROSE:
        what = f"a question of the table has {longest:,} characters, and a suite's has at most {probes.LONGEST_PROSE}."
    remedy = "if each image has one question, append `?prompt=none` to the model and describe it: --question 'TEXT'"
    _refuse(bool(what), what, model, remedy)


def _refuse(wrong: bool, what: str, model: str, remedy: str) -> None:
    """Raises SettingsError if something is `wrong` for this kind of model."""
    if wrong:
        raise SettingsError(what, where=model, remedy=remedy)


def first_suite(
    name: str,
    root: Path,
    options: SuiteOptions,
    progress: Callable[[str, int, int], None] = lambda _what, _done, _all: None,
) -> power.FirstSuite:
    """The text of a first suite, checked against the dataset, and measured on the checkpoint if that is at hand.

    Raises a FairgateError.
    """
    path = root / suites.FOLDER / f"{name}.yaml"
    if path.exists():
        remedy = f"edit it, or choose another name; the rest of a gate for it: fairgate init {name}"
        raise SuiteError(f"the suite '{name}' is there.", where=str(path), remedy=remedy)
    model, fetched = options.model, options.model.startswith("mlflow-model:")
    if not fetched:
        models.require_uri(model, root)
    options = replace(options, baseline=options.baseline or _default_branch(root))
    baselines.parse_baseline(options.baseline or "", where="--baseline")
    release = data.open_dataset(options.dataset, data.releases_folder(root))
    named = models.local_paths("" if fetched else model)
    outside = any(suites.leaves(each, root) for each in named)  # `require_inside` says so below
    opened = None if fetched or outside else models.open_scorer(model, release, device="cpu", base=root)
    write = partial(_text, name, release, opened, options)
    text = write(margin=options.tolerates or suites.TOLERATES[0])
    try:
        loaded = suites.load_text(text.encode(), path, shown=f"{suites.FOLDER}/{name}.yaml")
    except SuiteError as error:  # it names a line of a file that is not written
        remedy = "rename it in the table or the dataset, or write the suite yourself: docs/use/suites-and-metrics.md"
        raise SuiteError(f"no suite can be written: {error.problem}", where=model, remedy=remedy) from error
    suites.require_inside(loaded.suite, loaded.source, root)
    suites.plan_checks(loaded, release.manifest)
    left_out = [line.strip("# ") for line in text.splitlines() if line.startswith("  # left out: ")]
    measured = options.measured
    if measured is None:
        table = opened is not None and opened.precision == models.PRECOMPUTED
        measured = table or len(release.index) <= power.MEASURED
    if opened is None or not measured:
        told = "not measured which checks these images can decide: --measured, or see `fairgate power`"
        return power.FirstSuite(text, (told, *left_out))
    first = power.measured_suite(
        name, root, release, write, tolerates=options.tolerates, like=options.like, progress=progress
    )
    return replace(first, lines=(*first.lines, *left_out))


def _default_branch(root: Path) -> str:
    branch, remote = suites.find_branch(root)
    return f"git:{'origin/' if remote else ''}{branch}"


def write_suite(name: str, root: Path, text: str) -> Path:
    """The file of a new suite. Its anchor is its first baseline, if the base has one of this name."""
    path = root / suites.FOLDER / f"{name}.yaml"
    baseline = suites.load_text(text.encode(), path, shown=path.name).suite.baseline
    anchor = _anchor_line(name, root, baseline or "none")
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + anchor, encoding="utf-8")
    return path


_RANKS = 0.5
"""Margin of agreement in ranks of numbers that nearly all differ: one number for everybody loses 1, another training of
the same model far less."""


def write_repository(
    root: Path,
    scores: ArrayLike,
    baseline: ArrayLike,
    groups: Mapping[str, ArrayLike] | ArrayLike,
    *,
    margin: float,
    min_sets: int,
) -> None:
    """Write the suite `arrays` for two arrays, (images,), and one or several of groups. Raises SettingsError."""
    import pandas as pd

    now, before = _numbers("scores", scores), _numbers("baseline", baseline)
    given = groups if isinstance(groups, Mapping | pd.DataFrame) else {"group": groups}
    columns = {str(name): np.asarray(column).astype(str) for name, column in given.items()}
    for name, column in {"baseline": before, **columns}.items():
        if column.shape != now.shape:
            raise SettingsError(
                f"'{name}' has the shape {column.shape}, and scores have {now.shape}.",
                where="check_arrays",
                remedy="give one entry for every image, in the same order",
            )
    files = [f"{row:07d}" for row in range(len(now))]
    columns_of = data.ImportColumns({name: [] for name in columns}, "image", image="file")
    plan = data.plan_import(pd.DataFrame({"file": files, **columns}), None, columns_of, data.ColumnGrouping({}, {}))
    plan.write("arrays", root=root / data.FOLDER)
    for name, numbers in (("scores", now), ("baseline", before)):
        pd.DataFrame({"file": files, "number": numbers}).to_csv(root / f"{name}.csv", index=False)
    (root / suites.FOLDER).mkdir()
    right = all(array.min() >= 0 and array.max() <= 1 for array in (now, before))
    text = yaml.safe_dump(_suite(list(columns.values()), margin, min_sets, right=right), sort_keys=False)
    (root / suites.FOLDER / "arrays.yaml").write_text(text, encoding="utf-8")


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty((0, 0))
    if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
        raise SettingsError(
            f"'{name}' is not a number for every image.",
            where="check_arrays",
            remedy="give one finite number per image: 1 or 0 for a right or wrong answer, or P(true label)",
        )
    return numbers


def _suite(columns: list[NDArray[Any]], margin: float, min_sets: int, *, right: bool) -> dict[str, Any]:
    """Groups are crossed if every crossing can be judged. Numbers between 0 and 1 say how right a model is: it is of
    use as long as it is right; with other numbers, as long as they rank images as before."""
    cells = np.unique(np.stack(columns), axis=1, return_counts=True)[1]
    crossed = len(cells) == np.prod([len(np.unique(column)) for column in columns]) and cells.min() >= min_sets
    useful, mean = ("right_share", "right_share") if right else ("number_agreement", "mean_number")
    compared = {"probe": "scores", "no_worse_than": "baseline"}
    over = "crossed" if len(columns) > 1 and crossed else "each"
    return {
        "schema": 1,
        "suite": "arrays",
        "dataset": "arrays",
        "model": "numbers:scores.csv",
        "baseline": "model:numbers:baseline.csv",
        "groups": {"min_sets": min_sets},
        "probes": {"scores": {"kind": "number"}},
        "checks": [
            {"id": "still-useful", "metric": useful, **compared, "margin": margin if right else _RANKS},
            {"id": "no-group-loses", "metric": mean, "over": over, **compared, "margin": margin},
        ],
    }
