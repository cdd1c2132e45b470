"""The tables and figures of the study of robustness: F_M by subject, size, release and check, and the sets in which a
model gets the reference member right and another one wrong (appendix A9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from fairgate.records import Estimate, StudyCell, StudyFigure, StudyPicture, StudyTable
from fairgate.studies.papers.contract import pictures_of, series_of

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
    listed = [file for path in paths for file in (sorted(path.glob("*.safetensors")) if path.is_dir() else [path])]
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


def _spreads(data: Dataset, value: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """The spread inside every set with several members, and a row of each."""
    _, first, code, count = np.unique(data.index.set_id, return_index=True, return_inverse=True, return_counts=True)
    mean = np.bincount(code, value) / count
    several = count > 1
    if not several.any():
        raise DatasetError(
            "no set of the release has two members, so that nothing is spread inside of one.",
            where=data.manifest.ref,
            remedy="name a release of counterfactual sets",
        )
    squares = np.bincount(code, (value - mean[code]) ** 2)
    return np.sqrt(squares[several] / (count[several] - 1)), first[several]


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
    spread, rows = _spreads(data, scores.value)
    return _fairness(spread if chosen is None else spread[chosen[rows]])


def f_m_of_checks(data: Dataset, own: Mapping[str, ProbeScores], base: str | None) -> dict[str, dict[str, Estimate]]:
    """F_M by check and model."""
    by_check = {_ALL: {name: _of(data, scores) for name, scores in own.items()}}
    if base is not None:
        base_is_right = _base_is_right(data, own, base)
        by_check[_BASE] = {name: _of(data, scores, base_is_right) for name, scores in own.items()}
    hardest = strongest_labels(own)
    by_check[_STRONGEST] = {
        name: _fairness(_spreads(data, against(scores, hardest))[0]) for name, scores in own.items()
    }
    return by_check


def _base_is_right(data: Dataset, own: Mapping[str, ProbeScores], base: str) -> NDArray[np.bool_]:
    """Of every row, whether its set's base picture is classified correctly by every model."""
    index = data.index
    require_member(data, base, "--base")
    right = np.all([cast(NDArray[np.bool_], scores.correct) for scores in own.values()], axis=0)
    sets = set(index.set_id[(index.member == base) & right].tolist())
    return np.array([scores in sets for scores in index.set_id.tolist()])


def strongest_labels(answers: Mapping[str, ProbeScores]) -> dict[str, int]:
    """By subject, the column of the wrong label that most images are taken for, over all models together; where none
    is, or as many, the label with the largest mean probability."""
    hardest = {}
    for contests in zip(*(contest.contests for contest in answers.values()), strict=True):
        wrong = np.zeros(contests[0].log_p.shape[1])
        for contest in contests:
            taken = contest.log_p.argmax(axis=1)
            wrong += np.bincount(taken[taken != contest.true], minlength=len(wrong))
            # below 1 in all: it decides between equal counts alone
            wrong += np.exp(contest.log_p).mean(axis=0) / (len(contests) + 1)
        wrong[contests[0].true[0]] = -1
        hardest[contests[0].subject] = int(wrong.argmax())
    return hardest


def against(scores: ProbeScores, hardest: Mapping[str, int]) -> Floats:
    """P(true label) of every image when its subject's hardest label is the only other one, (images,)."""
    value = np.empty(len(scores.value))
    for contest in scores.contests:
        pair = np.stack(
            [contest.log_p[np.arange(len(contest.rows)), contest.true], contest.log_p[:, hardest[contest.subject]]],
            axis=1,
        )
        value[contest.rows] = np.exp(log_softmax(pair)[:, 0])
    return value


def label_table(labels: HardLabels, data: Dataset) -> StudyTable:
    word = words_of(data)
    rows: list[list[StudyCell]] = [
        [subject, label] for subject in data.manifest.subjects for label in labels[subject] if label != word[subject]
    ]
    columns = ["subject", "label next to the true one"]
    return StudyTable(name="labels", title="Labels that compete", source="table 2", columns=columns, rows=rows)


def main_table(data: Dataset, own: Mapping[str, ProbeScores], sizes: Mapping[str, Estimate]) -> StudyTable:
    rows: list[list[StudyCell]] = [
        [name, sizes[name], _of(data, scores), float(np.mean(cast(NDArray[np.bool_], scores.correct)))]
        for name, scores in own.items()
    ]
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
        [name, *(_of(data, scores, data.index.subject == subject) for subject in subjects)]
        for name, scores in own.items()
    ]
    return StudyTable(
        name="by-subject", title="F_M by subject", source="tables 7 and 8", columns=["model", *subjects], rows=rows
    )


def _order(by_model: Mapping[str, Estimate]) -> str:
    """Models from the highest F_M down; those without one are left out."""
    there = {name: estimate.value for name, estimate in by_model.items() if estimate.value is not None}
    return " > ".join(sorted(there, key=lambda name: -there[name]))


def _with_order(by_model: Mapping[str, Estimate], first: Mapping[str, Estimate]) -> list[StudyCell]:
    """F_M of every model, and whether their order is the first one's."""
    return [*by_model.values(), "yes" if _order(by_model) == _order(first) else _order(by_model)]


def check_tables(
    data: Dataset, own: Mapping[str, ProbeScores], checks: Mapping[str, Mapping[str, Estimate]], labels: HardLabels
) -> list[StudyTable]:
    rows: list[list[StudyCell]] = [
        [check, next(iter(by_model.values())).n, *_with_order(by_model, checks[_ALL])]
        for check, by_model in checks.items()
    ]
    columns = ["sets and labels", "sets", *own, "same order"]
    hardest = strongest_labels(own)
    named: list[list[StudyCell]] = []
    for subject, column in hardest.items():
        taken = [
            float(np.mean(contest.log_p.argmax(axis=1) == column))
            for scores in own.values()
            for contest in scores.contests
            if contest.subject == subject
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
    by_release = {
        release.manifest.ref: {name: _of(release, answers[name, release.manifest.ref]) for name in names}
        for release in data
    }
    first = by_release[data[0].manifest.ref]
    return StudyTable(
        name="releases",
        title="F_M on other releases",
        source="robustness to gender bias in generation",
        columns=["release", *names, "same order"],
        rows=[[ref, *_with_order(by_model, first)] for ref, by_model in by_release.items()],
        note=f"Order on the first: {_order(first)}.",
    )


def size_figure(data: Dataset, own: Mapping[str, ProbeScores], sizes: Mapping[str, Estimate]) -> Iterator[StudyFigure]:
    known = {name: size.value for name, size in sizes.items() if size.value is not None}
    if known:
        yield StudyFigure(
            name="size",
            title="Fairness metric by model size",
            source="table 6",
            kind="points",
            x_label="parameters (millions)",
            y_label="F_M",
            series=[series_of(name, [size], [_of(data, own[name])]) for name, size in known.items()],
        )


def check_figure(checks: Mapping[str, Mapping[str, Estimate]]) -> StudyFigure:
    return StudyFigure(
        name="checks-figure",
        title="F_M under the checks of robustness",
        source="appendices A4 and A5",
        kind="bars",
        x_label="model",
        y_label="F_M",
        series=[series_of(check, list(by_model), list(by_model.values())) for check, by_model in checks.items()],
    )


def require_member(data: Dataset, member: str, option: str) -> None:
    """Raises SettingsError for a member that no set has."""
    members = sorted({str(name) for name in data.index.member})
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
    index, rows, shown = data.index, list[list[StudyCell]](), dict[str, list[int]]()
    sets: dict[str, dict[str, int]] = {}
    for place, (set_id, member) in enumerate(zip(index.set_id.tolist(), index.member.tolist(), strict=True)):
        sets.setdefault(set_id, {})[member] = place
    for name, scores in own.items():
        right, taken = cast(NDArray[np.bool_], scores.correct), cast(NDArray[np.object_], scores.predicted)
        for member in dict.fromkeys(str(name) for name in index.member):
            pairs = [of for of in sets.values() if reference in of and member in of]
            wrong = [of for of in pairs if right[of[reference]] and not right[of[member]]]
            if member == reference or not wrong:
                continue
            (label, count), *_ = Counter(str(taken[of[member]]) for of in wrong).most_common(1)
            rows.append([name, member, len(pairs), len(wrong), f"{label} ({count})"])
            drawn = sorted(stream(0, "errors", name, member).permutation(len(wrong))[:SHOWN])
            shown[f"{name}\n{member}"] = [wrong[at][who] for at in drawn for who in (reference, member)]
    table = StudyTable(
        name="errors",
        title=f"Sets in which {reference} is right and another member is not",
        source="appendix A9",
        columns=["model", "member", "sets", "wrong", "most taken for"],
        rows=rows,
    )
    pictures = pictures_of(data, (row for own_rows in shown.values() for row in own_rows))
    cells = [(heading, [pictures[row] for row in own_rows]) for heading, own_rows in shown.items()]
    picture = StudyPicture(
        name="errors-sheet",
        title=f"Pairs of {reference} and a member that is taken for something else",
        source="appendix A9",
        alt=f"Rows by model and member: in each pair the left picture, {reference}, is classified correctly, and the "
        "right one is not.",
    )
    return table, [(picture, png_of(picture_rows(cells)))] if cells else []
