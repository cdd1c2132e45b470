"""What a study found, and the record that is made of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from fairgate import gate
from fairgate.data import Dataset
from fairgate.records import StudyFigure, StudyModel, StudyPicture, StudyRecord, StudyTable
from fairgate.tracking import environment


@dataclass(frozen=True, slots=True)
class StudyContents:
    """What a study returns. `paper` names the publication; `settings` holds every choice that decides a number;
    `drawn` the PNG of each of `pictures`, by its name."""

    title: str
    paper: str
    models: Sequence[StudyModel]
    datasets: Sequence[Dataset]
    settings: Mapping[str, str | int | float | list[str]]
    tables: Sequence[StudyTable] = ()
    figures: Sequence[StudyFigure] = ()
    pictures: Sequence[StudyPicture] = ()
    drawn: Mapping[str, bytes] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StudyPlace:
    """Where and when a study ran: its name, its command line, the repository, the device, and `time.monotonic()` at
    its start."""

    study: str
    command: str
    root: Path
    device: str
    started: float


def finished(contents: StudyContents, place: StudyPlace) -> StudyRecord:
    """The record of a study that has just ended."""
    return StudyRecord(
        study=place.study,
        title=contents.title,
        paper=contents.paper,
        models=list(contents.models),
        datasets=[gate.dataset_info(one) for one in contents.datasets],
        settings=dict(contents.settings),
        tables=list(contents.tables),
        figures=list(contents.figures),
        pictures=list(contents.pictures),
        notes=list(contents.notes),
        environment=environment(place.root, place.device),
        command=place.command,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - place.started, 3),
    )
