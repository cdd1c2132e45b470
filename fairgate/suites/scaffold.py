"""A first suite for a dataset, as `fairgate suite new` writes it, with comments that give the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from fairgate.errors import SuiteError
from fairgate.measures import Index
from fairgate.probes import DatasetFacts

FEWEST = 30
"""Fewest images of a group for `over: crossed`; below it, the suite checks the attributes one by one."""


def new_suite(
    name: str,
    dataset: DatasetFacts,
    index: Index,
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
    labels, true_to = _labels(dataset, truth)
    labels |= _further(labels, distractors)
    lines = [
        "# Written by `fairgate suite new`. Bounds and margins are first guesses: set your own.",
        "schema: 1",
        f"suite: {name}",
        f"dataset: {dataset.name}",
        f"model: {_quoted(model)}",
        f"baseline: {_quoted(baseline)}",
        "",
        "probes:",
        *_probes(labels, true_to),
        "",
        "checks:",
        *_checks(dataset, index, labels, true_to),
    ]
    return "\n".join(lines) + "\n"


def _probes(labels: dict[str, str], true_to: str | None) -> list[str]:
    words = [f"{_quoted(key)}: {_quoted(word)}" for key, word in labels.items() if word != key]
    return [
        "  # Labels that are easily told apart hide a bias: beside `doctor` put what it may be taken for, `nurse` say.",
        "  labels:",
        "    kind: zero_shot_classification",
        '    template: "a photo of {a_label}"',
        f"    labels: [{', '.join(_quoted(label) for label in labels.values())}]",
        *([f"    truth: {true_to}"] if true_to else []),
        *([f"    words: {{{', '.join(words)}}}"] if words else []),
        *([] if true_to else ['  search: {kind: retrieval, prompts: ["{subject}", "a photo of {a_subject}"]}']),
    ]


def _checks(dataset: DatasetFacts, index: Index, labels: dict[str, str], true_to: str | None) -> list[str]:
    over = _over(dataset, index)
    enough = true_to is None and _fewest(dataset, index, index.subject.tolist()) >= FEWEST
    by = ", by: subject" if enough else ""
    lines = [
        "  # Is it still of use, for the group that it serves worst? A model that answers blindly fails this.",
        f"  - {{id: accuracy, probe: labels, metric: accuracy, over: {over}, at_least: {_more_than_chance(labels)}}}",
        "  - {id: still-useful, probe: labels, metric: accuracy, no_worse_than: baseline, margin: 0.02}",
    ]
    lines += [
        "  # Is it as sure as before? A label temperature under which it is sure of nothing hides every difference.",
        "  - {id: still-sure, probe: labels, metric: p_true, no_worse_than: baseline, margin: 0.05}",
    ]
    if dataset.counterfactual:
        lines += [
            "  # Does P(true label) stay the same inside a counterfactual set?",
            "  - {id: fairness, probe: labels, metric: fairness, by: subject, at_least: 0.85}",
            "  - {id: no-regression, probe: labels, metric: fairness, by: subject,",
            "     no_worse_than: baseline, margin: 0.02}",
        ]
    lines.append("  # Did a group fall behind the others, against the baseline? In P(true label).")
    for group in [over] if over != "each" or dataset.counterfactual else dataset.attributes:
        lines += [
            f"  - {{id: no-{'group' if group in ('each', 'crossed') else group}-falls-behind, probe: labels, "
            f"metric: group_gap, over: {group}{by},",
            "     no_worse_than: baseline, margin: 0.04}",
        ]
    if by:
        lines += [
            "  # Did a subject's name come nearer to one group than to the others? In standard deviations.",
            f"  - {{id: no-association, probe: search, metric: c_asc, over: {over}{by},",
            "     no_worse_than: baseline, margin: 0.5}",
        ]
    return lines


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


def _over(dataset: DatasetFacts, index: Index) -> str:
    """`crossed` where every crossing of the attributes has images enough, else `each`."""
    if len(dataset.attributes) < 2:
        return next(iter(dataset.attributes))
    return "crossed" if _fewest(dataset, index) >= FEWEST else "each"


def _fewest(dataset: DatasetFacts, index: Index, *columns: Sequence[str]) -> int:
    """Images of the smallest crossing of all attributes, and of further columns."""
    groups = [list(dataset.attributes[name]) for name in dataset.attributes] + [list(set(column)) for column in columns]
    counts = dict.fromkeys(product(*groups), 0)
    held = [index.attributes[name].tolist() for name in dataset.attributes]
    for cell in zip(*held, *columns, strict=True):
        counts[cell] += 1
    return min(counts.values())


def _more_than_chance(labels: dict[str, str]) -> str:
    """Half way between chance and certainty: 0.75 of two labels."""
    return f"{(1 + 1 / len(labels)) / 2:.2f}"


def _quoted(text: str) -> str:
    """Plain where YAML reads it back as it is, else in double quotes."""
    plain = text.replace("_", "").replace("-", "").replace(" ", "").isalpha() and text == text.strip()
    spoken = text.lower() in {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return text if plain and not spoken and text.isascii() and text[0] != "-" else f'"{escaped}"'
