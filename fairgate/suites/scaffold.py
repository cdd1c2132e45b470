"""A first suite for a dataset (`fairgate suite new`), with comments that give the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairgate.data import MIN_SETS, Manifest
from fairgate.ground.errors import SettingsError, SuiteError
from fairgate.ground.text import slug
from fairgate.metrics import GroupedRows
from fairgate.probes import ABSTAINED, Item, filled
from fairgate.suites.label_words import labels_in_columns, labels_of, with_further
from fairgate.suites.targets import MOST, MOST_SETS, as_json, options_of, quoted, right_of, tally_of, written

if TYPE_CHECKING:
    from numpy.typing import NDArray


TOLERATES = (0.03, 0.04, 0.05)
"""Margins that a suite tries, the smallest that its images can decide; a wider one only if somebody names it."""
_TOP, _FEWEST_AT_TOP = 5, 15
"""Top-5 accuracy is of use from so many labels on: of 15, blind answers have a third."""
_SMALL_EFFECT = 0.2
"""Standard deviations that the mean of a group may lose: Cohen's d is called small up to here."""
_SEARCHED = ("{subject}", "a photo of {a_subject}")
_UNCROSSED = "{% if uncrossed %}\n  # left out: {{ uncrossed }}\n{% endif %}\n"


@dataclass(frozen=True, slots=True)
class SuiteDraft:
    """A first suite for a dataset: what the suites of all kinds of models have in common. A method returns a text.

    It has no check for which the dataset has too few sets. Raises SuiteError if no attribute has enough of every group.
    """

    name: str
    dataset: Manifest
    index: GroupedRows
    model: str
    baseline: str
    margin: float = TOLERATES[0]
    views: int = 1
    min_sets: int = MIN_SETS

    def of_labels(
        self,
        truth: str | None = None,
        distractors: Sequence[str] = (),
        *,
        searches: bool = True,
        template: str = "a photo of {a_label}",
        columns: Collection[str] | None = None,
    ) -> str:
        """A classification, and checks of use, bounds and regressions.

        The labels are the dataset's subjects, or the groups of the attribute `truth`, and `distractors`, which no image
        shows; `searches` says whether the model can rank, `template` how it is shown a label. A table has `columns`,
        which decide how labels are written. Raises SuiteError if there is only one subject and no `truth`: a
        classification needs two labels; SettingsError if a label has no column.
        """
        labels, true_to = labels_of(self.dataset, truth)
        labels = with_further(labels, distractors)
        if columns is not None:
            labels, template = labels_in_columns(labels, template, columns, self.model)
            searches = searches and all(
                filled(prompt, "subject", subject) in columns
                for prompt in _SEARCHED
                for subject in self.dataset.subjects
            )
        each_subject = _fewest(self.dataset, self.index, [], self.index.subject.tolist()) >= self.min_sets
        compared = self._compared()
        return self._rendered(
            "new_suite.yaml.j2",
            compared,
            labels=labels,
            truth=true_to,
            prompt=template,
            words=_reworded(labels),
            searches=searches and true_to is None,
            searched=_SEARCHED,
            more_than_chance=_more_than_chance(labels),
            counterfactual=self.dataset.counterfactual,
            by=", by: subject" if compared.by_subject and true_to is None else "",
            each_subject=", by: subject" if each_subject else "",
            left_out="" if true_to else self._left_out(compared),
        )

    def of_predictions(self, truth: str | None) -> str:
        """For a model that predicts the attribute `truth`, or, without one, the subject.

        Raises SuiteError if there is nothing to predict.
        """
        labels, true_to = labels_of(self.dataset, truth)
        return self._rendered(
            "new_prediction_suite.yaml.j2",
            self._compared(),
            truth=true_to or "subject",
            more_than_chance=_more_than_chance(labels),
        )

    def of_classes(
        self,
        distractors: Sequence[str] = (),
        *,
        template: str = "a photo of {a_label}",
        columns: Collection[str] | None = None,
        predicts: bool = False,
    ) -> str:
        """For a dataset without groups: is the model as accurate as before, and among five labels, if there are many?

        As `of_labels`; a model that `predicts` has labels of its own, and gives one. Raises as `of_labels` does.
        """
        labels = with_further(labels_of(self.dataset, None)[0], distractors)
        if columns is not None:
            labels, template = labels_in_columns(labels, template, columns, self.model)
        return self._rendered(
            "new_accuracy_suite.yaml.j2",
            _UNGROUPED,
            labels=labels,
            prompt=template,
            words=_reworded(labels),
            predicts=predicts,
            top=0 if predicts or len(labels) < _FEWEST_AT_TOP else _TOP,
        )

    def of_detections(self, boxes: bool) -> str:
        """For a detector of persons; `boxes` says whether the dataset records where they are."""
        compared = self._compared()
        by = ", by: subject" if compared.by_subject and len(self.dataset.subjects) > 1 else ""
        left_out = self._left_out(compared)
        return self._rendered("new_detection_suite.yaml.j2", compared, boxes=boxes, by=by, left_out=left_out)

    def of_numbers(self, columns: Sequence[str], numbers: Callable[[str], NDArray[np.float64]]) -> str:
        """For a table of numbers, one probe for each of its columns, whose `numbers`, (images,), give the margin of a
        group's mean its unit. Raises SettingsError for one without any."""
        if not 1 <= len(columns) <= MOST:
            raise SettingsError(
                f"the table has {len(columns)} columns of numbers, and not 1 to {MOST}.",
                where=self.model,
                remedy="keep the columns that are to be judged, beside the one that names the images",
            )
        margins = [f"{_SMALL_EFFECT * float(np.std(numbers(column))):.2g}" for column in columns]
        names = [slug(column) if len(columns) > 1 else "numbers" for column in columns]
        probes = [
            (name, column, np.format_float_positional(float(margin), trim="0"))
            for name, column, margin in zip(names, columns, margins, strict=True)
        ]
        return self._rendered("new_number_suite.yaml.j2", self._compared(), probes=probes)

    def of_items(self, items: Sequence[Item]) -> str:
        """For a model that answers the questions in the dataset's captions, `items`."""
        missing = "missing" in self.dataset.attributes.get("picture", ())
        leanings = [
            name
            for name, ambiguous in (("ambiguous", True), ("disambiguated", False))
            if any(item.stereotype and (item.right == ABSTAINED) == ambiguous and item.right for item in items)
        ]
        return self._rendered(
            "new_item_suite.yaml.j2",
            self._compared(),
            missing=missing,
            right=any(item.right is not None for item in items),
            leanings=leanings,
        )

    def of_answers(self, answers: Mapping[tuple[int, str], str], targets: Mapping[tuple[int, str], str]) -> str:
        """For a table of `answers` by (row, prompt), and the `targets` that it calls right, if it does; options are the
        targets, or what it answers.

        Raises SettingsError for answers in free words of which no options can be read.
        """
        by_prompt: dict[str, list[str]] = {} if answers else {"": []}
        for (_, prompt), answer in answers.items():
            by_prompt.setdefault(prompt, []).append(answer)
        several = len(by_prompt) > 1
        compared, questions = self._compared(), []
        for number, (prompt, given) in enumerate(by_prompt.items(), 1):
            wanted = {row: target for (row, asked), target in targets.items() if asked == prompt}
            options, end = options_of(given, list(wanted.values())), f"{number}" if several else ""
            if not options:
                raise SettingsError(
                    f"the answers are {len(set(given))} different texts, and not 2 to {MOST} short ones.",
                    where=self.model,
                    remedy=f"copy the suite of docs/use/questions.md to fairness_suites/{self.name}.yaml, and name its "
                    "options there",
                )
            counted = options[:1] if len(options) == 2 else options
            right = right_of(wanted, options, self.dataset, self.index, MOST_SETS // len(by_prompt))
            questions.append(
                {
                    "probe": f"question_{end}" if several else "question",
                    "end": f"-{end}" if several else "",
                    "text": prompt,
                    "options": options,
                    "counted": counted,
                    "right": written(right),
                    "tally": tally_of(right),
                    "differs": right is not None and not isinstance(right, str),
                    "unlike": right is None and bool(wanted),
                }
            )
        long = any("\n" in str(asked["right"]) for asked in questions)
        return self._rendered("new_question_suite.yaml.j2", compared, questions=questions, long=long)

    def _left_out(self, compared: _Compared) -> str:
        """Why no check is by subject, and which images would allow it; empty if there are enough."""
        if compared.by_subject or len(self.dataset.subjects) < 2:
            return ""
        unit, (groups, most) = "sets" if self.dataset.counterfactual else "images", compared.rarest
        return f"{self.min_sets} {unit} of each group and subject are needed; {' × '.join(groups)} has {most}"

    def _compared(self) -> _Compared:
        return _compared(self.dataset, self.index, self.min_sets)

    def _rendered(self, template: str, compared: _Compared, **values: object) -> str:
        """A template of this folder with its values."""
        from jinja2 import Environment, StrictUndefined

        environment = Environment(  # noqa: S701 - YAML, not HTML
            trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
        )
        environment.filters |= {"quoted": quoted, "json": as_json}
        text = Path(__file__).with_name(template).read_text(encoding="utf-8")
        return environment.from_string(text + _UNCROSSED).render(
            uncrossed=compared.uncrossed,
            name=self.name,
            dataset=self.dataset.name,
            model=self.model,
            baseline=self.baseline,
            groups="" if self.min_sets == MIN_SETS else f"\ngroups: {{min_sets: {self.min_sets}}}",
            overs=compared.overs,
            gaps=compared.gaps,
            margin=f"{self.margin:g}",
            views=self.views,
            **values,
        )


def _reworded(labels: Mapping[str, str]) -> list[str]:
    """`words` of a probe, an entry each: of labels that are not written as the dataset calls them."""
    return [f"{quoted(key)}: {quoted(word)}" for key, word in labels.items() if word != key]


def _more_than_chance(labels: Mapping[str, str]) -> str:
    """Half way between chance and certainty."""
    return f"{(1 + 1 / len(labels)) / 2:.2f}"


@dataclass(frozen=True, slots=True)
class _Compared:
    """Which groups a dataset has sets enough for: what `over` says, with the end of a check's id; the same for gaps,
    with the name in their ids; and the rarest of them within a subject, with its sets; `least` are enough.
    `uncrossed` says why groups are not crossed."""

    overs: list[tuple[str, str]]
    gaps: list[tuple[str, str]]
    rarest: tuple[tuple[str, ...], int]
    least: int
    uncrossed: str

    @property
    def by_subject(self) -> bool:
        """Whether there are enough sets of every subject."""
        return self.rarest[1] >= self.least


_UNGROUPED = _Compared([], [], ((), 0), 1, "")
"""Of a dataset without attributes."""


def _compared(dataset: Manifest, index: GroupedRows, least: int) -> _Compared:
    """The groups with enough sets. Raises SuiteError if no attribute has them of every group."""
    enough = [name for name in dataset.attributes if _fewest(dataset, index, [name]) >= least]
    if not enough:
        raise _too_few(dataset, index, least)
    every = len(enough) == len(dataset.attributes) > 1
    few = [sets < least for sets in _sets(dataset, index, enough).values()] if every else []
    overs, groupings = ["each"] if every else enough, [[name] for name in enough]
    if every and not any(few):
        overs, groupings = ["crossed"], [enough]
    uncrossed = ""
    if any(few):
        unit = "sets" if dataset.counterfactual else "images"
        uncrossed = f"crossings: {sum(few)} of {len(few)} of {' × '.join(enough)} have fewer than {least} {unit}"
    subjects = index.subject.tolist()
    sets = [item for grouping in groupings for item in _sets(dataset, index, grouping, subjects).items()]
    return _Compared(
        [(over, f"-{over}" if len(overs) > 1 else "") for over in overs],
        [(group, "group" if group in ("each", "crossed") else group) for group in overs],
        min(sets, key=lambda item: (item[1], item[0])),
        least,
        uncrossed,
    )


def _fewest(dataset: Manifest, index: GroupedRows, crossed: Sequence[str], *columns: Sequence[str]) -> int:
    """Sets that hold an image of the rarest crossing of some attributes, and of further columns."""
    return min(_sets(dataset, index, crossed, *columns).values())


def _sets(
    dataset: Manifest, index: GroupedRows, crossed: Sequence[str], *columns: Sequence[str]
) -> dict[tuple[str, ...], int]:
    """How many sets hold an image of every crossing of some attributes, and of further columns."""
    groups = [list(dataset.attributes[name]) for name in crossed] + [list(set(column)) for column in columns]
    values = [index.attributes[name].tolist() for name in crossed]
    cells = {(*cell, set_id) for *cell, set_id in zip(*values, *columns, index.set_id.tolist(), strict=True)}
    counts = Counter(key[:-1] for key in cells)
    return {cell: counts[cell] for cell in product(*groups)}


def _too_few(dataset: Manifest, index: GroupedRows, least: int) -> SuiteError:
    of_group = {name: _sets(dataset, index, [name]) for name in dataset.attributes}
    rarest = [f"{min(sets, key=sets.__getitem__)[0]} ({min(sets.values())})" for sets in of_group.values()]
    nearest = max(of_group, key=lambda name: min(of_group[name].values()))
    most = min(of_group[nearest].values())
    lacking = [f"{least - sets} of {group}" for (group,), sets in of_group[nearest].items() if sets < least]
    smaller = f", or measure whether smaller groups decide: --min-sets {most}" if most > 1 else ""
    return SuiteError(
        f"no attribute of dataset '{dataset.name}' has {least} sets of every group, and no group is judged on fewer.",
        where=f"the rarest groups of {', '.join(of_group)}: {', '.join(rarest)} sets",
        remedy=f"import more sets with {nearest}: {', '.join(lacking)}{smaller}",
    )
