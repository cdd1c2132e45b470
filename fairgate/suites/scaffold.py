"""A first suite for a dataset, as `fairgate suite new` writes it, with comments that give the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from fairgate.errors import SuiteError
from fairgate.measures import GroupedRows
from fairgate.probes import DatasetFacts

_TEMPLATE = Path(__file__).with_name("new_suite.yaml.j2")

FEWEST = 30
"""Fewest images of a group for `over: crossed`; below it, the suite checks the attributes one by one."""


def new_suite(
    name: str,
    dataset: DatasetFacts,
    index: GroupedRows,
    *,
    model: str,
    baseline: str,
    truth: str | None = None,
    distractors: Sequence[str] = (),
) -> str:
    """The text of a suite that makes sense on a dataset: a classification, and checks of use, bounds and regressions.

    The labels are the dataset's subjects, or the groups of the attribute `truth`, and `distractors`, which no image
    shows. Raises SuiteError where there is only one subject and no `truth`: a classification needs two labels.
    """
    from jinja2 import Environment, StrictUndefined

    labels, true_to = _labels(dataset, truth)
    labels |= _further(labels, distractors)
    over = next(iter(dataset.attributes))
    if len(dataset.attributes) > 1:
        over = "crossed" if _fewest(dataset, index) >= FEWEST else "each"
    by_subject = true_to is None and _fewest(dataset, index, index.subject.tolist()) >= FEWEST
    gaps = [over] if over != "each" or dataset.counterfactual else list(dataset.attributes)
    environment = Environment(  # noqa: S701 - YAML, not HTML
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    environment.filters["quoted"] = _quoted
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        name=name,
        dataset=dataset.name,
        model=model,
        baseline=baseline,
        labels=labels,
        truth=true_to,
        words=[f"{_quoted(key)}: {_quoted(word)}" for key, word in labels.items() if word != key],
        over=over,
        more_than_chance=f"{(1 + 1 / len(labels)) / 2:.2f}",  # half way between chance and certainty
        counterfactual=dataset.counterfactual,
        gaps=[(group, "group" if group in ("each", "crossed") else group) for group in gaps],
        by=", by: subject" if by_subject else "",
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


def _fewest(dataset: DatasetFacts, index: GroupedRows, *columns: Sequence[str]) -> int:
    """Images of the smallest crossing of all attributes, and of further columns."""
    groups = [list(dataset.attributes[name]) for name in dataset.attributes] + [list(set(column)) for column in columns]
    counts = dict.fromkeys(product(*groups), 0)
    held = [index.attributes[name].tolist() for name in dataset.attributes]
    for cell in zip(*held, *columns, strict=True):
        counts[cell] += 1
    return min(counts.values())


def _quoted(text: str) -> str:
    """Plain where YAML reads it back as it is, else in double quotes."""
    plain = text.replace("_", "").replace("-", "").replace(" ", "").isalpha() and text == text.strip()
    spoken = text.lower() in {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return text if plain and not spoken and text.isascii() and text[0] != "-" else f'"{escaped}"'
