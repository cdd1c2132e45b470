"""Does an order of models by F_M hold? The robustness checks of Lui et al. 2023: sets whose base picture all models get
right, the strongest wrong label alone, larger models, other releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fairgate.data import Dataset, open_dataset
from fairgate.formulas.metrics import fairness_of_spreads
from fairgate.formulas.statistics import Unavailable, median_interval
from fairgate.ground.errors import DatasetError, SettingsError, listed
from fairgate.models import EmbeddingCache, LabelModel, indistinct, log_softmax, open_scorer, require_capability
from fairgate.probes import ProbeScores, checked_template, classify, filled
from fairgate.records import Estimate, FigureSeries, StudyCell, StudyFigure, StudyModel, StudyTable
from fairgate.studies.papers.checkpoint_size import parameters_of
from fairgate.studies.papers.contents import StudyContents
from fairgate.studies.papers.hard_labels import HardLabels, require_labels
from fairgate.studies.papers.robustness_errors import errors_of, require_member

PAPER = "Lui et al., Leveraging Diffusion Perturbations for Measuring Fairness in Computer Vision, 2024"
TEMPLATE = "A photo of {a_label}"
Floats = NDArray[np.float64]
_ALL, _BASE, _STRONGEST = "all sets, all labels", "base picture right in every model", "strongest wrong label alone"


@dataclass(frozen=True, slots=True)
class RobustnessOptions:
    """`labels` compete for a subject's images, as the prompts of `template`. `base` is the member that the others of a
    set were made from, where a release has it (None: that check is left out); sets in which
    `reference` is right and another member is not are counted and drawn (None: no reference)."""

    labels: HardLabels
    template: str = TEMPLATE
    base: str | None = None
    reference: str | None = None


def robustness_study(
    models: Mapping[str, str],
    releases: Sequence[str],
    settings: RobustnessOptions,
    *,
    device: str = "auto",
    cache: EmbeddingCache | None = None,
    root: Path,
) -> StudyContents:
    """F_M of every model on every release, and again under the first release's robustness checks.

    With a `cache`, a study that was interrupted goes on where it was.
    Raises SettingsError, DatasetError or ModelError for what cannot be opened, or asked.
    """
    try:
        checked_template(settings.template, "label")
    except ValueError as error:
        raise SettingsError(f"{error}.", where="--template", remedy="write it like 'A photo of {a_label}'") from error
    data = [open_dataset(name, root / "datasets") for name in releases]
    alike = dict[str, None]()
    known, answers = dict[str, StudyModel](), dict[tuple[str, str], ProbeScores]()
    for one in data:
        one.require_intact()
        require_labels(settings.labels, one.manifest.subjects, _words(one), one.manifest.ref)
        for name, uri in models.items():
            scorer = open_scorer(uri, one, device=device, cache=cache, base=root)
            require_capability(scorer, "log_probabilities", f"fairgate study robustness --model {uri}")
            known[name] = StudyModel(name=name, uri=uri, fingerprint=scorer.fingerprint)
            alike.update(dict.fromkeys(_alike(name, cast(LabelModel, scorer), one, settings)))
            answers[name, one.manifest.ref] = _ask(cast(LabelModel, scorer), one, settings)
    first = data[0]
    own = {name: answers[name, first.manifest.ref] for name in models}
    sizes = {name: parameters_of(uri, root) for name, uri in models.items()}
    checks = _checks(first, own, settings)
    errors = None
    if settings.reference is not None:
        require_member(first, settings.reference, "--reference")
        errors = errors_of(first, own, settings.reference)
    return StudyContents(
        title="Does the order of models by F_M hold?",
        paper=PAPER,
        models=list(known.values()),
        datasets=data,
        settings={
            "template": settings.template,
            "base": settings.base or "none",
            "reference": settings.reference or "none",
            "labels": _written(settings, first),
        },
        tables=[
            _label_table(settings, first),
            _main_table(first, own, sizes),
            _subject_table(first, own),
            *_check_tables(first, own, checks, settings.labels),
            *([_release_table(data, answers, models)] if len(data) > 1 else []),
            *([errors.table] if errors else []),
        ],
        pictures=[errors.picture] if errors and errors.picture else [],
        drawn={errors.picture.name: errors.sheet} if errors and errors.picture and errors.sheet else {},
        figures=[*_size_figure(first, own, sizes), _check_figure(checks)],
        notes=[
            "F_M is 1 minus the median over sets of the sample standard deviation of P(true label) inside a set. "
            "Intervals hold the median over sets with a probability of 95% (order statistics); 'n' counts sets.",
            "`fairgate audit` compares models pair by pair (Mood's median test, a paired test, regressions by group).",
            *alike,
        ],
    )


def _words(data: Dataset) -> dict[str, str]:
    return {one: one.replace("_", " ") for one in data.manifest.subjects}


def _ask(scorer: LabelModel, data: Dataset, settings: RobustnessOptions) -> ProbeScores:
    word = _words(data)
    truth = np.array([word[one] for one in data.index.subject.tolist()], dtype=object)

    def prompt(label: str) -> str:
        return filled(settings.template, "label", label)

    return classify(scorer, data.index.subject, truth, lambda one: settings.labels[one], prompt)


def _alike(name: str, scorer: LabelModel, data: Dataset, settings: RobustnessOptions) -> list[str]:
    """A note on labels of one subject that a model cannot tell apart: many of them may be unknown words to it."""
    pairs, every = list[tuple[str, str, str]](), 0
    for subject in data.manifest.subjects:
        labels = settings.labels[subject]
        every += len(labels)
        same = indistinct(scorer, [[filled(settings.template, "label", label)] for label in labels])
        pairs += [(subject, labels[one], labels[other]) for one, other in same]
    if not pairs:
        return []
    alike = {(subject, label) for subject, *both in pairs for label in both}
    shown = listed([f"'{one}' and '{other}'" for _, one, other in pairs], 3, more="more pairs")
    return [f"{name} reads {len(alike)} of {every} labels as the same text as another of their subject's: {shown}"]


def _spreads(data: Dataset, value: Floats) -> tuple[list[str], Floats, NDArray[np.intp]]:
    """Names of the sets with several members, the spread inside each, and a row of each."""
    names, first, code, count = np.unique(data.index.set_id, return_index=True, return_inverse=True, return_counts=True)
    mean = np.bincount(code, value) / count
    several = count > 1
    if not several.any():
        raise DatasetError(
            "no set of the release has two members, so that nothing is spread inside of one.",
            where=data.manifest.ref,
            remedy="name a release of counterfactual sets",
        )
    squares = np.bincount(code, (value - mean[code]) ** 2)
    spread = np.sqrt(squares[several] / (count[several] - 1))
    return [str(name) for name in names[several]], spread, first[several]


def _fairness(spread: Floats) -> Estimate:
    if not len(spread):
        return Estimate(value=None, n=0, why="no set is left")
    interval = median_interval(spread)
    value, sets = float(fairness_of_spreads(spread)), len(spread)
    if isinstance(interval, Unavailable):
        return Estimate(value=value, n=sets, why=interval.reason)
    return Estimate(value=value, lo=1 - interval.hi, hi=1 - interval.lo, n=sets)


def _of(data: Dataset, scores: ProbeScores, chosen: NDArray[np.bool_] | None = None) -> Estimate:
    """F_M of all sets, or of those whose first row is chosen."""
    _, spread, rows = _spreads(data, scores.value)
    return _fairness(spread if chosen is None else spread[chosen[rows]])


def _checks(
    data: Dataset, own: Mapping[str, ProbeScores], settings: RobustnessOptions
) -> dict[str, dict[str, Estimate]]:
    """F_M by check and model."""
    found = {_ALL: {name: _of(data, one) for name, one in own.items()}}
    if settings.base is not None:
        kept = _base_is_right(data, own, settings.base)
        found[_BASE] = {name: _of(data, one, kept) for name, one in own.items()}
    hardest = strongest_labels(own)
    found[_STRONGEST] = {name: _fairness(_spreads(data, against(one, hardest))[1]) for name, one in own.items()}
    return found


def _base_is_right(data: Dataset, own: Mapping[str, ProbeScores], base: str) -> NDArray[np.bool_]:
    """Of every row, whether its set's base picture is classified correctly by every model."""
    index = data.index
    require_member(data, base, "--base")
    right = np.all([cast(NDArray[np.bool_], one.correct) for one in own.values()], axis=0)
    sets = set(index.set_id[(index.member == base) & right].tolist())
    return np.array([one in sets for one in index.set_id.tolist()])


def strongest_labels(answers: Mapping[str, ProbeScores]) -> dict[str, int]:
    """By subject, the column of the wrong label that most images are taken for, over all models together; where none
    is, or as many, the label with the largest mean probability."""
    found = {}
    for contests in zip(*(one.contests for one in answers.values()), strict=True):
        wrong = np.zeros(contests[0].log_p.shape[1])
        for one in contests:
            taken = one.log_p.argmax(axis=1)
            wrong += np.bincount(taken[taken != one.true], minlength=len(wrong)) + np.exp(one.log_p).mean(axis=0) / (
                len(contests) + 1  # below 1 in all: it decides between equal counts alone
            )
        wrong[contests[0].true[0]] = -1
        found[contests[0].subject] = int(wrong.argmax())
    return found


def against(scores: ProbeScores, hardest: Mapping[str, int]) -> Floats:
    """P(true label) of every image when its subject's hardest label is the only other one, (images,)."""
    value = np.empty(len(scores.value))
    for one in scores.contests:
        pair = np.stack([one.log_p[np.arange(len(one.rows)), one.true], one.log_p[:, hardest[one.subject]]], axis=1)
        value[one.rows] = np.exp(log_softmax(pair)[:, 0])
    return value


def _accuracy(scores: ProbeScores) -> float:
    return float(np.mean(cast(NDArray[np.bool_], scores.correct)))


def _written(settings: RobustnessOptions, data: Dataset) -> list[str]:
    return [f"{one}: {', '.join(settings.labels[one])}" for one in data.manifest.subjects]


def _label_table(settings: RobustnessOptions, data: Dataset) -> StudyTable:
    word = _words(data)
    rows: list[list[StudyCell]] = [
        [one, label] for one in data.manifest.subjects for label in settings.labels[one] if label != word[one]
    ]
    columns = ["subject", "label next to the true one"]
    return StudyTable(name="labels", title="Labels that compete", source="table 2", columns=columns, rows=rows)


def _main_table(data: Dataset, own: Mapping[str, ProbeScores], sizes: Mapping[str, Estimate]) -> StudyTable:
    rows: list[list[StudyCell]] = [[name, sizes[name], _of(data, one), _accuracy(one)] for name, one in own.items()]
    return StudyTable(
        name="fairness",
        title="Fairness metric, accuracy and size",
        source="tables 4 to 6, and the text on LENS",
        columns=["model", "parameters (millions)", "F_M", "accuracy"],
        rows=rows,
    )


def _subject_table(data: Dataset, own: Mapping[str, ProbeScores]) -> StudyTable:
    subjects = list(data.manifest.subjects)
    rows: list[list[StudyCell]] = [
        [name, *(_of(data, one, data.index.subject == subject) for subject in subjects)] for name, one in own.items()
    ]
    return StudyTable(
        name="by-subject", title="F_M by subject", source="tables 7 and 8", columns=["model", *subjects], rows=rows
    )


def _order(found: Mapping[str, Estimate]) -> str:
    """Models from the highest F_M down; those without one are left out."""
    there = {name: one.value for name, one in found.items() if one.value is not None}
    return " > ".join(sorted(there, key=lambda name: -there[name]))


def _check_tables(
    data: Dataset,
    own: Mapping[str, ProbeScores],
    checks: Mapping[str, Mapping[str, Estimate]],
    labels: HardLabels,
) -> list[StudyTable]:
    rows: list[list[StudyCell]] = [
        [
            check,
            next(iter(found.values())).n,
            *found.values(),
            "yes" if _order(found) == _order(checks[_ALL]) else _order(found),
        ]
        for check, found in checks.items()
    ]
    columns = ["sets and labels", "sets", *own, "same order"]
    hardest = strongest_labels(own)
    named: list[list[StudyCell]] = []
    for subject, column in hardest.items():
        taken = [
            float(np.mean(one.log_p.argmax(axis=1) == column))
            for each in own.values()
            for one in each.contests
            if one.subject == subject
        ]
        named.append([subject, labels[subject][column], *taken])
    return [
        StudyTable(
            name="checks",
            title=f"F_M under the checks of robustness, {data.manifest.ref}",
            source="appendices A4 and A5",
            columns=columns,
            rows=rows,
            note=f"Order by all sets and labels: {_order(checks[_ALL])}.",
        ),
        StudyTable(
            name="strongest-labels",
            title="The wrong label that most images are taken for, and the share of each model's images",
            source="appendix A5",
            columns=["subject", "label", *own],
            rows=named,
        ),
    ]


def _release_table(
    data: Sequence[Dataset], answers: Mapping[tuple[str, str], ProbeScores], names: Mapping[str, str]
) -> StudyTable:
    """Gender-balanced releases, and others."""
    rows, first = list[list[StudyCell]](), ""
    for one in data:
        found = {name: _of(one, answers[name, one.manifest.ref]) for name in names}
        first = first or _order(found)
        rows.append([one.manifest.ref, *found.values(), "yes" if _order(found) == first else _order(found)])
    return StudyTable(
        name="releases",
        title="F_M on other releases",
        source="robustness to gender bias in generation",
        columns=["release", *names, "same order"],
        rows=rows,
        note=f"Order on the first: {first}.",
    )


def _points(name: str, x: list[float] | list[str], found: Sequence[Estimate]) -> FigureSeries:
    """A series with intervals; an estimate without one is its own."""
    low = [one.value if one.lo is None else one.lo for one in found]
    high = [one.value if one.hi is None else one.hi for one in found]
    return FigureSeries(name=name, x=x, y=[one.value for one in found], lo=low, hi=high)


def _size_figure(data: Dataset, own: Mapping[str, ProbeScores], sizes: Mapping[str, Estimate]) -> list[StudyFigure]:
    series = []
    for name, one in own.items():
        size, found = sizes[name].value, _of(data, one)
        if size is not None:
            series.append(_points(name, [size], [found]))
    if not series:
        return []
    return [
        StudyFigure(
            name="size",
            title="Fairness metric by model size",
            source="table 6",
            kind="points",
            x_label="parameters (millions)",
            y_label="F_M",
            series=series,
        )
    ]


def _check_figure(checks: Mapping[str, Mapping[str, Estimate]]) -> StudyFigure:
    series = []
    for check, found in checks.items():
        series.append(_points(check, list(found), list(found.values())))
    return StudyFigure(
        name="checks-figure",
        title="F_M under the checks of robustness",
        source="appendices A4 and A5",
        kind="bars",
        x_label="model",
        y_label="F_M",
        series=series,
    )
