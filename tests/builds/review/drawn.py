"""A small build for reviews: drawn squares, no two alike, with columns as automatic filters leave them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

from PIL import Image

from fairgate.builds.review import Sample, Session, draw_sample
from fairgate.builds.review.marks import Keeper
from fairgate.builds.review.sample import ImageItem
from fairgate.builds.review.session import opened_line
from fairgate.data import Dataset, read_dataset, write_dataset

ATTRIBUTES = {"tone": ["light", "dark"], "gender": ["man", "woman"]}
SUBJECTS = ("doctor", "nurse")
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\u202e ::error::x"


def square(*colour: int, encoding: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (24, 24), colour).save(buffer, encoding, **options)
    return buffer.getvalue()


def rows(sets: int = 6, *, caption: str | None = None, **changes: Any) -> Iterator[dict[str, Any]]:
    """Sets of four; `perceived_gender` takes every third set's women for men."""
    for number in range(sets):
        for place, (tone, gender) in enumerate(product(*ATTRIBUTES.values())):
            yield {
                "image": square(number % 256, 60 * place, number // 256),
                "set_id": f"set-{number:03}",
                "member": f"{tone}-{gender}",
                "subject": SUBJECTS[number % 2],
                "caption": caption or f"a {tone} {gender}",
                "tone": tone,
                "gender": gender,
                "perceived_gender": "man" if number % 3 == 0 else gender,
                "p_gender": 0.5,
                "vqa_real": number / sets,
                "clip_caption": None if number == 0 else 0.2 + number / 100,
            } | changes


def write_build(folder: Path, found: Iterable[Mapping[str, Any]] | None = None, **options: Any) -> Dataset:
    """The dataset in `folder/dataset`, as a build leaves it."""
    said: dict[str, Any] = {
        "name": "people",
        "version": "v1",
        "attributes": ATTRIBUTES,
        "recipe": {"name": "drawn"},
        "licence": "Apache-2.0",
        "counterfactual": True,
        "notice": "drawn squares",
    }
    write_dataset(folder / "dataset", rows() if found is None else found, **(said | options))
    return read_dataset(folder / "dataset")


class Ticking:
    """A clock that goes on by a second whenever it is asked."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def open_keeper(dataset: Dataset, folder: Path, sample: Sample, rater: str = "ada", clock: Any = None) -> Keeper:
    """The file of a rater, open for marks."""
    return Keeper(folder, opened_line(dataset, sample, rater, clock or Ticking()), dataset.manifest)


def mark_all(
    dataset: Dataset, folder: Path, size: int, rater: str = "ada", wrong: Mapping[int, Mapping[str, Any]] | None = None
) -> Sample:
    """A rater who answers everything as asked and good, but for `wrong`: place of the image -> answers."""
    sample, clock = draw_sample(dataset, size), Ticking()
    wrong = wrong or {}
    seen = 0
    with open_keeper(dataset, folder, sample, rater, clock) as keeper:
        session = Session(dataset, sample, keeper, clock)
        for number, item in enumerate(sample.items):
            if isinstance(item, ImageItem):
                other = dict(wrong.get(seen, {}))
                quality = other.pop("quality", "good")
                session.mark(number, "perceived", item.recorded | other)
                session.mark(number, "quality", quality)
                seen += 1
            else:
                session.mark(number, "scene", "same")
    return sample
