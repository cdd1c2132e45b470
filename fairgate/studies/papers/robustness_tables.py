"""The tables and figures of the study of robustness: F_M by subject, size, release and check, and the sets in which a
model gets the reference member right and another one wrong (appendix A9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fairgate.data import Dataset, picture_rows
from fairgate.formulas.metrics import fairness_of_spreads
from fairgate.formulas.statistics import Unavailable, median_interval
from fairgate.ground.errors import DatasetError, SettingsError, did_you_mean
from fairgate.ground.png import png_of
from fairgate.ground.randomness import stream
from fairgate.metrics import Floats
from fairgate.models import local_paths, log_softmax
from fairgate.models.checkpoints import resolve
from fairgate.probes import ProbeScores
from fairgate.records import Estimate, FigureSeries, StudyCell, StudyFigure, StudyPicture, StudyTable

HardLabels = Mapping[str, Sequence[str]]
"""Labels that compete for the images of each subject."""
SHOWN = 10
"""Sets of each member that are drawn, as in the paper."""
_ALL, _BASE, _STRONGEST = "all sets, all labels", "base picture right in every model", "strongest wrong label alone"


def words_of(data: Dataset) -> dict[str, str]:
    """The word for each subject."""
    return {subject: subject.replace("_", " ") for subject in data.manifest.subjects}


def parameters_of(uri: str, root: Path) -> Estimate:
    """Numbers in a checkpoint's safetensors files: weights, of floating point."""
    from safetensors import safe_open

    paths = [resolve(path.as_posix(), root) for path in local_paths(uri)]
    listed = [each for path in paths for each in (sorted(path.glob("*.safetensors")) if path.is_dir() else [path])]
    if not listed or any(path.suffix != ".safetensors" or not path.is_file() for path in listed):
        return Estimate(value=None, why="the address names no safetensors files of this machine")
    total = 0
    for path in listed:
        with safe_open(path, framework="np") as handle:
            for name in handle.keys():  # noqa: SIM118 - a file of tensors, and no mapping
                part = handle.get_slice(name)
                if part.get_dtype().startswith(("F", "BF")):
                    total += int(np.prod(part.get_shape()))
    return Estimate(value=total / 1e6)


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


def f_m_of_checks(data: Dataset, own: Mapping[str, ProbeScores], base: str | None) -> dict[str, dict[str, Estimate]]:
    """F_M by check and model."""
    found = {_ALL: {name: _of(data, one) for name, one in own.items()}}
    if base is not None:
        kept = _base_is_right(data, own, base)
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


def label_table(labels: HardLabels, data: Dataset) -> StudyTable:
    word = words_of(data)
    rows: list[list[StudyCell]] = [
        [one, label] for one in data.manifest.subjects for label in labels[one] if label != word[one]
    ]
    columns = ["subject", "label next to the true one"]
    return StudyTable(name="labels", title="Labels that compete", source="table 2", columns=columns, rows=rows)


def main_table(data: Dataset, own: Mapping[str, ProbeScores], sizes: Mapping[str, Estimate]) -> StudyTable:
    rows: list[list[StudyCell]] = [[name, sizes[name], _of(data, one), _accuracy(one)] for name, one in own.items()]
    return StudyTable(
        name="fairness",
        title="Fairness metric, accuracy and size",
        source="tables 4 to 6, and the text on LENS",
        columns=["model", "parameters (millions)", "F_M", "accuracy"],
        rows=rows,
    )


def subject_table(data: Dataset, own: Mapping[str, ProbeScores]) -> StudyTable:
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


def check_tables(
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


def release_table(
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


def size_figure(data: Dataset, own: Mapping[str, ProbeScores], sizes: Mapping[str, Estimate]) -> list[StudyFigure]:
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


def check_figure(checks: Mapping[str, Mapping[str, Estimate]]) -> StudyFigure:
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


def require_member(data: Dataset, member: str, option: str) -> None:
    """Raises SettingsError for a member that no set has."""
    members = sorted({str(one) for one in data.index.member})
    if member not in members:
        raise SettingsError(
            f"no set of {data.manifest.ref} has a member '{member}'.",
            where=option,
            remedy=did_you_mean(member, members) or f"members: {', '.join(members[:20])}",
        )


def errors_of(
    data: Dataset, own: Mapping[str, ProbeScores], reference: str
) -> tuple[StudyTable, list[tuple[StudyPicture, bytes]]]:
    """Of every model and member, the sets that it gets wrong while the reference is right; at most ten are drawn on
    the sheet, which is made if there are any."""
    index, rows, drawn = data.index, list[list[StudyCell]](), list[tuple[str, list[str], str]]()
    sets: dict[str, dict[str, int]] = {}
    for place, (set_id, member) in enumerate(zip(index.set_id.tolist(), index.member.tolist(), strict=True)):
        sets.setdefault(set_id, {})[member] = place
    for name, scores in own.items():
        right, taken = cast(NDArray[np.bool_], scores.correct), cast(NDArray[np.object_], scores.predicted)
        for member in dict.fromkeys(str(one) for one in index.member):
            pairs = [of for of in sets.values() if reference in of and member in of]
            wrong = [of for of in pairs if right[of[reference]] and not right[of[member]]]
            if member == reference or not wrong:
                continue
            (label, count), *_ = Counter(str(taken[of[member]]) for of in wrong).most_common(1)
            rows.append([name, member, len(pairs), len(wrong), f"{label} ({count})"])
            draws = stream(0, "errors", name, member).permutation(len(wrong))[:SHOWN]
            drawn.append((name, [str(index.set_id[wrong[one][member]]) for one in sorted(draws)], member))
    table = StudyTable(
        name="errors",
        title=f"Sets in which {reference} is right and another member is not",
        source="appendix A9",
        columns=["model", "member", "sets", "wrong", "most taken for"],
        rows=rows,
    )
    if not drawn:
        return table, []
    pictures = data.images_of(sorted({one for _, chosen, _ in drawn for one in chosen}))
    cells = []
    for name, chosen, member in drawn:
        shown = [dict(pictures[one]) for one in chosen]
        cells.append((f"{name}\n{member}", [of[who] for of in shown for who in (reference, member)]))
    picture = StudyPicture(
        name="errors-sheet",
        title=f"Pairs of {reference} and a member that is taken for something else",
        source="appendix A9",
        alt=f"Rows by model and member: in each pair the left picture, {reference}, is classified correctly, and the "
        "right one is not.",
    )
    return table, [(picture, png_of(picture_rows(cells)))]
