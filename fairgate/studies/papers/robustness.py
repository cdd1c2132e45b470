"""Does an order of models by F_M hold? The robustness checks of Lui et al. 2023: sets whose base picture all models get
right, the strongest wrong label alone, larger models, other releases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from fairgate.data import Dataset, read_labels
from fairgate.ground.errors import SettingsError, listed
from fairgate.models import LabelModel, indistinct
from fairgate.probes import ProbeScores, classify, filled
from fairgate.records import StudyModel, StudyPicture, StudyTable
from fairgate.studies.papers import robustness_tables
from fairgate.studies.papers.contract import Models, Study, StudyContents, StudyPlace, register, required_template

_MOST = 1_000


def published_labels() -> robustness_tables.HardLabels:
    """Table 2 of the paper: the true occupation, then seven in the same line of work."""
    read: dict[str, list[str]] = json.loads((files(__package__) / "hard_labels.json").read_text("utf-8"))["labels"]
    return read


def labels_of_file(path: Path) -> robustness_tables.HardLabels:
    """Of a CSV with columns `subject` and `label`, a line for each label. Raises DatasetError or SettingsError."""
    table, by_subject = read_labels(path), dict[str, list[str]]()
    table.column("subject", "says of which images")
    table.column("label", "says what competes there")
    for line, row in table:
        label, own = row["label"].strip(), by_subject.setdefault(row["subject"].strip(), [])
        if not label or label in own or len(own) >= _MOST:
            raise SettingsError(
                f"the label '{label[:40]}' is empty, given twice for one subject, or one of more than {_MOST:,}.",
                where=table.place(line),
                remedy="write each label of a subject once",
            )
        own.append(label)
    return by_subject


def require_labels(
    labels: robustness_tables.HardLabels, subjects: Sequence[str], words: Mapping[str, str], where: str
) -> None:
    """Raises SettingsError unless every subject has labels, its own word among them, and another one."""
    for subject in subjects:
        own = labels.get(subject, ())
        if words[subject] not in own or len(own) < 2:
            raise SettingsError(
                f"subject '{subject}' of {where} has no labels, or '{words[subject]}' is not among them.",
                where="--labels",
                remedy="give a CSV with the columns subject and label: the true label of each subject, and others",
            )


@register
class RobustnessStudy(Study):
    """F_M with hard labels by subject, size and release, and under checks of robustness (Lui et al. 2024)."""

    name: ClassVar[str] = "robustness"
    title: ClassVar[str] = "Does the order of models by F_M hold?"
    paper: ClassVar[str] = (
        "Lui et al., Leveraging Diffusion Perturbations for Measuring Fairness in Computer Vision, 2024"
    )

    model: Models = Field(description="A model, URI or NAME=URI; repeat for each.")
    data: tuple[str, ...] = Field(description="Release, NAME or NAME@VERSION; repeat for further ones.")
    labels: Path | None = Field(
        None,
        description="CSV, from the current folder, with columns subject and label. Default: the paper's occupations.",
    )
    template: str = Field("A photo of {a_label}", description="Prompt with {label} or {a_label}.")
    base: str | None = Field(None, description="Member that the others of its set were made from.")
    reference: str | None = Field(
        None, description="Member; draws sets in which it is right and another member is not."
    )

    def run(self, place: StudyPlace) -> StudyContents:
        """F_M of every model on every release, and again under the first release's robustness checks.

        Raises SettingsError, DatasetError or ModelError for what cannot be opened, or asked.
        """
        labels = published_labels() if self.labels is None else labels_of_file(self.labels)
        required_template(self.template, "label")
        data = [place.release(name) for name in self.data]
        alike = dict[str, None]()
        models, answers = dict[str, StudyModel](), dict[tuple[str, str], ProbeScores]()
        for release in data:
            require_labels(labels, release.manifest.subjects, robustness_tables.words_of(release), release.manifest.ref)
            for name, uri in self.model.items():
                scorer = place.opened(name, uri, release, "log_probabilities")
                models[name] = StudyModel(name=name, uri=uri, fingerprint=scorer.fingerprint)
                alike.update(dict.fromkeys(self._alike(name, scorer, release, labels)))
                answers[name, release.manifest.ref] = self._ask(scorer, release, labels)
        first = data[0]
        own = {name: answers[name, first.manifest.ref] for name in self.model}
        sizes = {name: robustness_tables.parameters_of(uri, place.root) for name, uri in self.model.items()}
        checks = robustness_tables.f_m_of_checks(first, own, self.base)
        errors, sheets = list[StudyTable](), list[tuple[StudyPicture, bytes]]()
        if self.reference is not None:
            robustness_tables.require_member(first, self.reference, "--reference")
            table, sheets = robustness_tables.errors_of(first, own, self.reference)
            errors = [table]
        return StudyContents(
            models=list(models.values()),
            datasets=data,
            settings={
                "template": self.template,
                "base": self.base or "none",
                "reference": self.reference or "none",
                "labels": [f"{subject}: {', '.join(labels[subject])}" for subject in first.manifest.subjects],
            },
            tables=[
                robustness_tables.label_table(labels, first),
                robustness_tables.main_table(first, own, sizes),
                robustness_tables.subject_table(first, own),
                *robustness_tables.check_tables(first, own, checks, labels),
                *([robustness_tables.release_table(data, answers, self.model)] if len(data) > 1 else []),
                *errors,
            ],
            sheets=sheets,
            figures=[*robustness_tables.size_figure(first, own, sizes), robustness_tables.check_figure(checks)],
            notes=[
                "F_M is 1 minus the median over sets of the sample standard deviation of P(true label) inside a set. "
                "Intervals hold the median over sets with a probability of 95% (order statistics); 'n' counts sets.",
                "`fairgate audit` compares models pair by pair (Mood's median test, a paired test, regressions by "
                "group).",
                *alike,
            ],
        )

    def _ask(self, scorer: LabelModel, data: Dataset, labels: robustness_tables.HardLabels) -> ProbeScores:
        word = robustness_tables.words_of(data)
        truth = np.array([word[subject] for subject in data.index.subject.tolist()], dtype=object)

        def prompt(label: str) -> str:
            return filled(self.template, "label", label)

        return classify(scorer, data.index.subject, truth, lambda subject: labels[subject], prompt)

    def _alike(
        self, name: str, scorer: LabelModel, data: Dataset, hard_labels: robustness_tables.HardLabels
    ) -> list[str]:
        """A note on labels of one subject that a model cannot tell apart: many of them may be unknown words to it."""
        pairs, every = list[tuple[str, str, str]](), 0
        for subject in data.manifest.subjects:
            labels = hard_labels[subject]
            every += len(labels)
            same = indistinct(scorer, [[filled(self.template, "label", label)] for label in labels])
            pairs += [(subject, labels[first], labels[other]) for first, other in same]
        if not pairs:
            return []
        alike = {(subject, label) for subject, *both in pairs for label in both}
        shown = listed([f"'{first}' and '{other}'" for _, first, other in pairs], 3, more="more pairs")
        return [f"{name} reads {len(alike)} of {every} labels as the same text as another of their subject's: {shown}"]
