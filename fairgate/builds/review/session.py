"""One rater at work: what the page may know at each moment, and what becomes of an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Literal

from fairgate.builds.review import marks
from fairgate.builds.review.sample import ImageItem, Sample, SetItem, read_png
from fairgate.data import Dataset
from fairgate.ground.errors import DatasetError, SettingsError
from fairgate.records import plain_notice
from fairgate.version import __version__

Clock = Callable[[], datetime]
What = Literal["perceived", "quality", "scene"]
_AGAIN = "load the page again"


def utc_now() -> datetime:
    """The clock of real reviews."""
    return datetime.now(UTC)


def moment(clock: Clock) -> str:
    """A time as records hold it: UTC, whole seconds."""
    return clock().astimezone(UTC).isoformat(timespec="seconds")


def opened_line(dataset: Dataset, sample: Sample, rater: str, clock: Clock = utc_now) -> marks.Opened:
    """The line with which a rater's session begins. Raises SettingsError for a name that is none."""
    try:
        return marks.Opened(
            at=moment(clock),
            dataset=dataset.name,
            fingerprint=dataset.manifest.fingerprint,
            rater=rater,
            images=len(sample.images),
            sets=len(sample.sets),
            instructions=marks.instructions_digest(),
            fairgate=__version__,
        )
    except ValueError as error:
        raise SettingsError(
            f"'{rater}' is not a rater's name.",
            where="--rater",
            remedy="take a pseudonym of at most 40 small letters, digits, '-' and '_': it is shown in the dataset card",
        ) from error


class Session:
    """Answers of one rater over one sample. Methods may be called from several threads."""

    def __init__(self, dataset: Dataset, sample: Sample, keeper: marks.Keeper, clock: Clock = utc_now) -> None:
        """Raises DatasetError where there is nothing to look at."""
        if dataset.manifest.image_encoding == "none":
            raise DatasetError(
                f"dataset '{dataset.name}' has labels and no images.",
                where=str(dataset.folder),
                remedy="review a dataset with images; release this one with --unreviewed and the reason",
            )
        self._dataset = dataset
        self._items = sample.items
        self._keeper = keeper
        self._clock = clock
        self._lock = threading.Lock()
        self._done = self._marked_before()

    def overview(self) -> dict[str, Any]:
        """Everything that the page shows, as JSON data. An image's prompt is included once it was judged blind."""
        notice = self._dataset.manifest.notice
        with self._lock:
            return {
                "dataset": self._dataset.name,
                "notice": notice and plain_notice(notice),
                "rater": self._keeper.record.rater,
                "attributes": [
                    {"name": name, "groups": groups} for name, groups in self._dataset.manifest.attributes.items()
                ],
                "qualities": [asdict(answer) for answer in marks.QUALITIES],
                "scenes": [asdict(answer) for answer in marks.SCENES],
                "items": [self._view(number) for number in range(len(self._items))],
            }

    def mark(self, number: int, what: str, answer: object) -> dict[str, Any]:
        """Save an answer and return the item as the page may now show it. Raises DatasetError for an invalid answer."""
        with self._lock:
            line = self._line(self._item(number), what, answer)
            self._keeper.add(line)
            self._done.append((number, line.kind))
            return self._view(number)

    def undo(self) -> dict[str, Any]:
        """Withdraw the latest answer that counts: {"number", "item"}, or {} where there is none."""
        with self._lock:
            if not self._done:
                return {}
            number, what = self._done[-1]
            item = self._items[number]
            member = item.member if isinstance(item, ImageItem) else None
            self._keeper.add(marks.Withdrawn(at=moment(self._clock), what=what, set_id=item.set_id, member=member))
            self._done = [mark for mark in self._done if mark != (number, what)]
            return {"number": number, "item": self._view(number)}

    def picture(self, number: int, place: int) -> bytes:
        """A picture of an item as PNG. Raises DatasetError where there is none, or it cannot be read."""
        item = self._item(number)
        rows = (item.row,) if isinstance(item, ImageItem) else item.rows
        if place >= len(rows):
            raise DatasetError("there is no such picture.", remedy=_AGAIN)
        return read_png(self._dataset, rows[place])

    def progress(self) -> tuple[int, int, int, int]:
        """(images marked, images, sets marked, sets) of the sample."""
        with self._lock:
            images, sets = (
                [None not in self._marks(item).values() for item in self._items if isinstance(item, kind)]
                for kind in (ImageItem, SetItem)
            )
        return sum(images), len(images), sum(sets), len(sets)

    def _marked_before(self) -> list[tuple[int, What]]:
        """What earlier sessions marked of this sample, so that it can be undone."""
        before = [
            (line.at, number, what)
            for number, item in enumerate(self._items)
            for what, line in self._marks(item).items()
            if line is not None
        ]
        return [(number, what) for _, number, what in sorted(before)]

    def _marks(self, item: ImageItem | SetItem) -> dict[What, marks.Mark | None]:
        """The rater's last answer to every question about an item."""
        record = self._keeper.record
        if isinstance(item, SetItem):
            return {"scene": record.scenes.get(item.set_id)}
        key = (item.set_id, item.member)
        return {"perceived": record.perceived.get(key), "quality": record.qualities.get(key)}

    def _item(self, number: int) -> ImageItem | SetItem:
        if not 0 <= number < len(self._items):
            raise DatasetError(f"there is no item {number}.", remedy=_AGAIN)
        return self._items[number]

    def _view(self, number: int) -> dict[str, Any]:
        item = self._items[number]
        answers: dict[str, Any] = {what: line and getattr(line, what) for what, line in self._marks(item).items()}
        complete = None not in answers.values()
        if isinstance(item, SetItem):
            return {"kind": "set", "pictures": len(item.rows), **answers, "complete": complete}
        shown = {"kind": "image", "pictures": 1, "perceived": answers["perceived"], "complete": complete}
        if answers["perceived"] is None:
            return {**shown, "quality": None, "asked": None}
        asked = {"subject": item.subject, "caption": item.caption, "groups": item.recorded}
        return {**shown, "quality": answers["quality"], "asked": asked}

    def _line(self, item: ImageItem | SetItem, what: str, answer: object) -> marks.Mark:
        """The answer as a line of the record."""
        now, record = moment(self._clock), self._keeper.record
        try:
            if isinstance(item, SetItem) and what == "scene":
                return marks.SceneMark.model_validate({"at": now, "set_id": item.set_id, "scene": answer})
            if isinstance(item, ImageItem) and what in ("perceived", "quality"):
                key = (item.set_id, item.member)
                about = {"at": now, "set_id": item.set_id, "member": item.member, what: answer}
                if what == "quality" and key in record.perceived:
                    return marks.Quality.model_validate(about)
                if what == "perceived" and marks.is_perception(answer, self._dataset.manifest):
                    return marks.Perceived.model_validate(about | {"blind": key not in record.seen})
        except ValueError as error:
            raise DatasetError("that is not an answer to this question.", remedy=_AGAIN) from error
        raise DatasetError("that is not an answer to this question.", remedy=_AGAIN)
