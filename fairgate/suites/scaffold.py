"""Suite files that fairgate writes: a first suite for a dataset (`fairgate suite new`), with comments that give the
reasons, and approvals or an anchor in an existing file, whose other lines stay as they are."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import product
from pathlib import Path

from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import SuiteError, clean
from fairgate.metrics import GroupedRows
from fairgate.probes import DatasetFacts
from fairgate.records import NeededApproval
from fairgate.suites.load import load_text

FEWEST = 30
"""Fewest sets of a group that a check is about, the `min_sets` of a suite that names none: no verdict on fewer."""


TOLERATES = (0.03, 0.04, 0.05)
"""Margins that a suite tries, the smallest that its images can decide; a wider one only if somebody names it."""


def new_suite(  # noqa: PLR0913 - the choices of a user
    name: str,
    dataset: DatasetFacts,
    index: GroupedRows,
    *,
    model: str,
    baseline: str,
    truth: str | None = None,
    distractors: Sequence[str] = (),
    searches: bool = True,
    template: str = "a photo of {a_label}",
    margin: float = TOLERATES[0],
    views: int = 1,
) -> str:
    """The text of a suite that makes sense on a dataset: a classification, and checks of use, bounds and regressions.

    The labels are the dataset's subjects, or the groups of the attribute `truth`, and `distractors`, which no image
    shows; `searches` says whether the model can rank, `template` how it is shown a label, and `views` how many views of
    each image are scored. There is no check that the dataset has too few sets for. Raises SuiteError where no attribute
    has enough, and where there is only one subject and no `truth`: a classification needs two labels.
    """
    labels, true_to = _labels(dataset, truth)
    labels |= _further(labels, distractors)
    compared = compared_groups(dataset, index)
    return rendered(
        "new_suite.yaml.j2",
        name=name,
        dataset=dataset.name,
        model=model,
        baseline=baseline,
        labels=labels,
        truth=true_to,
        prompt=template,
        words=[f"{_quoted(key)}: {_quoted(word)}" for key, word in labels.items() if word != key],
        overs=compared.overs,
        searches=searches and true_to is None,
        margin=f"{margin:g}",
        views=views,
        more_than_chance=f"{(1 + 1 / len(labels)) / 2:.2f}",  # half way between chance and certainty
        counterfactual=dataset.counterfactual,
        gaps=compared.gaps,
        by=", by: subject" if compared.by_subject and true_to is None else "",
        each_subject=", by: subject" if _fewest(dataset, index, [], index.subject.tolist()) >= FEWEST else "",
    )


def new_prediction_suite(
    name: str,
    dataset: DatasetFacts,
    index: GroupedRows,
    *,
    model: str,
    baseline: str,
    truth: str | None,
    margin: float = TOLERATES[0],
    views: int = 1,
) -> str:
    """The text of a suite for a model that predicts the attribute `truth`, or, without one, the subject.

    Raises SuiteError where no attribute of the dataset has enough sets of every group, or there is nothing to predict.
    """
    labels, true_to = _labels(dataset, truth)
    return rendered(
        "new_prediction_suite.yaml.j2",
        name=name,
        dataset=dataset.name,
        model=model,
        baseline=baseline,
        truth=true_to or "subject",
        overs=compared_groups(dataset, index).overs,
        margin=f"{margin:g}",
        views=views,
        more_than_chance=f"{(1 + 1 / len(labels)) / 2:.2f}",
    )


def new_detection_suite(
    name: str,
    dataset: DatasetFacts,
    index: GroupedRows,
    *,
    model: str,
    baseline: str,
    boxes: bool,
    margin: float = TOLERATES[0],
) -> str:
    """The text of a suite for a detector of persons; `boxes` says whether the dataset records where they are.

    Raises SuiteError where no attribute of the dataset has enough sets of every group.
    """
    compared = compared_groups(dataset, index)
    return rendered(
        "new_detection_suite.yaml.j2",
        name=name,
        dataset=dataset.name,
        model=model,
        baseline=baseline,
        boxes=boxes,
        overs=compared.overs,
        margin=f"{margin:g}",
        gaps=compared.gaps,
        by=", by: subject" if compared.by_subject and len(dataset.subjects) > 1 else "",
    )


def annotated(text: str, notes: Mapping[str, tuple[str, bool]]) -> str:
    """The text of a suite with a comment above each check, by id, and `tier: watch` in those that do not decide."""
    for id_, (note, decides) in notes.items():
        plain = f"  - {{id: {id_},"
        text = text.replace(plain, f"  # {note}\n{plain}" if decides else f"  # {note}\n  - {{id: {id_}, tier: watch,")
    return text


def rendered(template: str, **values: object) -> str:
    """A template of this folder with its values."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(  # noqa: S701 - YAML, not HTML
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    environment.filters |= {"quoted": _quoted, "json": partial(json.dumps, ensure_ascii=False)}
    text = Path(__file__).with_name(template).read_text(encoding="utf-8")
    return environment.from_string(text).render(**values)


@dataclass(frozen=True, slots=True)
class _Compared:
    """Which groups a dataset has sets enough for: what `over` says, with the end of a check's id; the same for gaps,
    with the name in their ids; and whether that holds for every subject."""

    overs: list[tuple[str, str]]
    gaps: list[tuple[str, str]]
    by_subject: bool


def compared_groups(dataset: DatasetFacts, index: GroupedRows) -> _Compared:
    """The groups with enough sets. Raises SuiteError if no attribute has them of every group."""
    enough = [name for name in dataset.attributes if _fewest(dataset, index, [name]) >= FEWEST]
    if not enough:
        raise _too_few(dataset, index)
    every = len(enough) == len(dataset.attributes) > 1
    if every and _fewest(dataset, index, enough) >= FEWEST:
        overs, groupings = ["crossed"], [enough]
    else:
        overs, groupings = ["each"] if every else enough, [[name] for name in enough]
    gaps = overs if overs != ["each"] or dataset.counterfactual else enough
    subjects = index.subject.tolist()
    return _Compared(
        [(over, f"-{over}" if len(overs) > 1 else "") for over in overs],
        [(group, "group" if group in ("each", "crossed") else group) for group in gaps],
        all(_fewest(dataset, index, grouping, subjects) >= FEWEST for grouping in groupings),
    )


def _labels(dataset: DatasetFacts, truth: str | None) -> tuple[dict[str, str], str | None]:
    """Each truth and the word for it, and the attribute that holds the truth (None: the subject does)."""
    if truth is None and len(dataset.subjects) > 1:
        return {subject: subject.replace("_", " ") for subject in dataset.subjects}, None
    if truth is None or truth not in dataset.attributes or len(dataset.attributes[truth]) < 2:
        why = "there is nothing to tell apart" if truth is None else f"'{truth}' is no attribute with several groups"
        raise SuiteError(
            f"dataset '{dataset.name}' shows {', '.join(dataset.subjects)} alone, and {why}."
            if len(dataset.subjects) == 1
            else f"{why} in dataset '{dataset.name}'.",
            where="--truth",
            remedy=f"say which attribute the model is to tell: --truth {next(iter(dataset.attributes))} (of "
            f"{', '.join(dataset.attributes)})",
        )
    return {group: group.replace("_", " ").lower() for group in dataset.attributes[truth]}, truth


def _further(labels: dict[str, str], distractors: Sequence[str]) -> dict[str, str]:
    """Labels that no image shows, each its own word."""
    further = list(dict.fromkeys(label.strip() for label in distractors))
    if taken := [label for label in further if not label or label in {*labels, *labels.values()}]:
        raise SuiteError(
            f"'{taken[0]}' is a label already." if taken[0] else "a label is empty.",
            where="--beside",
            remedy="name what an image may be taken for and does not show, for example --beside nurse",
        )
    return {label: label for label in further}


def _fewest(dataset: DatasetFacts, index: GroupedRows, crossed: Sequence[str], *columns: Sequence[str]) -> int:
    """Sets that hold an image of the rarest crossing of some attributes, and of further columns."""
    return min(_sets(dataset, index, crossed, *columns).values())


def _sets(
    dataset: DatasetFacts, index: GroupedRows, crossed: Sequence[str], *columns: Sequence[str]
) -> dict[tuple[str, ...], int]:
    """How many sets hold an image of every crossing of some attributes, and of further columns."""
    groups = [list(dataset.attributes[name]) for name in crossed] + [list(set(column)) for column in columns]
    values = [index.attributes[name].tolist() for name in crossed]
    cells = {(*cell, set_id) for *cell, set_id in zip(*values, *columns, index.set_id.tolist(), strict=True)}
    counts = Counter(key[:-1] for key in cells)
    return {cell: counts[cell] for cell in product(*groups)}


def _too_few(dataset: DatasetFacts, index: GroupedRows) -> SuiteError:
    of_group = {name: _sets(dataset, index, [name]) for name in dataset.attributes}
    rarest = [f"{min(sets, key=sets.__getitem__)[0]} ({min(sets.values())})" for sets in of_group.values()]
    return SuiteError(
        f"no attribute of dataset '{dataset.name}' has {FEWEST} sets of every group, and no group is judged on fewer.",
        where=f"the rarest groups of {', '.join(of_group)}: {', '.join(rarest)} sets",
        remedy="import more images of these groups, or leave a group out that is so rare",
    )


def _quoted(text: str) -> str:
    """Plain where YAML reads it back as it is, else in double quotes."""
    plain = text.replace("_", "").replace("-", "").replace(" ", "").isalpha() and text == text.strip()
    spoken = text.lower() in {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return text if plain and not spoken and text.isascii() and text[0] != "-" else f'"{escaped}"'


_SECTION = re.compile(r"^approvals:[ \t]*(?:#.*)?\n", re.MULTILINE)
_EMPTY = re.compile(r"^approvals:[ \t]*\[[ \t]*\][ \t]*(?:#.*)?(?:\n|\Z)", re.MULTILINE)


def add_approvals(path: Path, needed: Sequence[NeededApproval], *, reason: str, until: date) -> list[str]:
    """Add an approval of each change to a suite's file; what was approved, in words.

    Raises SuiteError for a file that does not hold its approvals as a block of lines, and for a reason that a suite
    does not take: nothing is written then.
    """
    text = path.read_text(encoding="utf-8")
    before = load_text(text.encode(), path, shown=str(path)).suite
    text = _EMPTY.sub("", text)
    known = {(approval.kind, approval.before, approval.now, approval.until) for approval in before.approvals}
    new = [
        approval_needed
        for approval_needed in needed
        if (approval_needed.kind, approval_needed.before, approval_needed.now, until) not in known
    ]
    lines = "".join(
        f'  - {{kind: {approval_needed.kind}, before: "{approval_needed.before}", now: "{approval_needed.now}",\n'
        f"     until: {until}, reason: {json.dumps(reason, ensure_ascii=False)}}}\n"
        for approval_needed in new
    )
    if _SECTION.search(text):
        text = _SECTION.sub(lambda match: f"{match[0]}{lines}", text, count=1)
    else:
        text = f"{text.rstrip()}\napprovals:\n{lines}"
    after = load_text(text.encode(), path, shown=str(path)).suite
    if len(after.approvals) != len(before.approvals) + len(new):
        raise SuiteError(
            "the suite's approvals are no block of lines, and none was added.",
            where=str(path),
            remedy="write `approvals:` on a line of its own, and each approval below it as `  - {...}`",
        )
    atomic_write(path, text)
    return [f"{approval_needed.kind}: {clean(approval_needed.what, 200)}, until {until}" for approval_needed in needed]


def write_anchor(path: Path, anchor: str) -> None:
    """Write the anchor of a suite's file, in the place of the old one or below its baseline.

    Raises SuiteError for a file in which that line cannot be written by itself: nothing is written then.
    """
    text, line = path.read_text(encoding="utf-8"), f"anchor: {anchor}\n"
    old = re.compile(r"^anchor:.*(?:\n|\Z)", re.MULTILINE)
    below = next((match for key in ("baseline", "model", "dataset") if (match := _line(key).search(text))), None)
    if old.search(text):
        text = old.sub(lambda _match: line, text, count=1)
    elif below is not None:
        text = f"{text[: below.end()]}{line}{text[below.end() :]}"
    if load_text(text.encode(), path, shown=str(path)).suite.anchor != anchor:
        raise SuiteError(
            "the anchor cannot be written into the suite's file.",
            where=str(path),
            remedy=f"write the line `{line[:-1]}`",
        )
    atomic_write(path, text)


def write_bounds(path: Path, bounds: Mapping[str, float]) -> None:
    """Replace bounds of checks, by id, in a suite's file; its other text stays as it is.

    Raises SuiteError for a bound that is not on a line with its key: nothing is written then.
    """
    text = path.read_text(encoding="utf-8")
    before = load_text(text.encode(), path, shown=str(path))
    lines, wanted = text.splitlines(keepends=True), []
    for place, check in enumerate(before.suite.checks):
        bound = bounds.get(check.id)
        wanted.append(check if bound is None else check.model_copy(update={check.rule: bound}))
        if bound is not None:
            at = before.source.lines["checks", place, check.rule] - 1
            lines[at] = re.sub(rf"\b({check.rule}:[ \t]*)[-+.\w]+", rf"\g<1>{bound:.2f}", lines[at])
    text = "".join(lines)
    if load_text(text.encode(), path, shown=str(path)).suite.checks != wanted:
        raise SuiteError(
            "the bounds cannot be written into the suite's file.",
            where=str(path),
            remedy="write each check on lines of its own, or without --propose paste the bounds",
        )
    atomic_write(path, text)


def _line(key: str) -> re.Pattern[str]:
    return re.compile(rf"^{key}:.*\n", re.MULTILINE)
