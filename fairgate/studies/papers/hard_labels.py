"""Labels that compete for each subject's images: the adjacent occupations of Lui et al. 2023, or one's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from fairgate.data import read_labels
from fairgate.ground.errors import SettingsError

HardLabels = Mapping[str, Sequence[str]]
_MOST = 1_000


def published_labels() -> HardLabels:
    """Table 2 of the paper: the true occupation, then seven in the same line of work."""
    read: dict[str, list[str]] = json.loads((files(__package__) / "hard_labels.json").read_text("utf-8"))["labels"]
    return read


def labels_of_file(path: Path) -> HardLabels:
    """Of a CSV with columns `subject` and `label`, a line for each label. Raises DatasetError or SettingsError."""
    table, found = read_labels(path), dict[str, list[str]]()
    table.column("subject", "says of which images")
    table.column("label", "says what competes there")
    for line, row in table:
        label, own = row["label"].strip(), found.setdefault(row["subject"].strip(), [])
        if not label or label in own or len(own) >= _MOST:
            raise SettingsError(
                f"the label '{label[:40]}' is empty, given twice for one subject, or one of more than {_MOST:,}.",
                where=table.place(line),
                remedy="write each label of a subject once",
            )
        own.append(label)
    return found


def require_labels(labels: HardLabels, subjects: Sequence[str], words: Mapping[str, str], where: str) -> None:
    """Raises SettingsError unless every subject has labels, its own word among them, and another one."""
    for subject in subjects:
        own = labels.get(subject, ())
        if words[subject] not in own or len(own) < 2:
            raise SettingsError(
                f"subject '{subject}' of {where} has no labels, or '{words[subject]}' is not among them.",
                where="--labels",
                remedy="give a CSV with the columns subject and label: the true label of each subject, and others",
            )
