"""The labels of a first suite, and the words for them: as a prompt shows them, or as a table calls its columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fairgate.data import Manifest
from fairgate.ground.errors import SettingsError, SuiteError, listed
from fairgate.probes import filled, with_article

_SHOWN_COLUMNS = 8


def labels_of(dataset: Manifest, truth: str | None) -> tuple[dict[str, str], str | None]:
    """Each truth and the word for it, and the attribute that holds the truth (None: the subject does).

    Raises SuiteError if there is nothing to tell apart.
    """
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


def with_further(labels: dict[str, str], distractors: Sequence[str]) -> dict[str, str]:
    """The labels, and those that no image shows, each its own word. Raises SuiteError for one that is there."""
    further = list(dict.fromkeys(label.strip() for label in distractors))
    if taken := [label for label in further if not label or label in {*labels, *labels.values()}]:
        raise SuiteError(
            f"'{taken[0]}' is a label already." if taken[0] else "a label is empty.",
            where="--beside",
            remedy="name what an image may be taken for and does not show, for example --beside nurse",
        )
    return {**labels, **{label: label for label in further}}


def labels_in_columns(
    labels: Mapping[str, str], template: str, columns: Collection[str], model: str
) -> tuple[dict[str, str], str]:
    """The word of each label, and the template, by which a table has a column for every label. Raises SettingsError."""
    spoken = ({name: name for name in labels}, {name: name.replace("_", " ") for name in labels}, dict(labels))
    for words in spoken:
        first = next(iter(words.values()))
        phrases = ((with_article(first), "{a_label}"), (first, "{label}"))
        derived = [
            column.replace(phrase, placeholder)
            for column in columns
            for phrase, placeholder in phrases
            if phrase in column and not {"{", "}"} & {*column}
        ]
        for known in (template, "{label}", *derived):
            if all(filled(known, "label", word) in columns for word in words.values()):
                return words, known
    lost = [word for word in labels.values() if not any(word.lower() in column.lower() for column in columns)]
    raise SettingsError(
        f"the table has no column for each label, such as '{(lost or list(labels.values()))[0]}'.",
        where=model,
        remedy=f"call the columns `a photo of a LABEL` or `LABEL`, or append `&LABEL=COLUMN` for each; its columns: "
        f"{listed(list(columns), _SHOWN_COLUMNS)}",
    )
