"""What `gensynth` costs, beside the published procedure: same models, same photographs, same choices.

The plain procedure is the paper's, written anew: every edit of every photograph is made and embedded, the filter judges
them all, and of the accepted edits of each group one is taken at random (the first of the same drawn order, so that
both ways choose the same). It makes edits in batches of another size, whose sums are rounded in another order: pictures
differ by a level of grey, and where one stands at a threshold the choice can differ. It is also filtered by the paper's
own pool, which is all crops and all edits, to say how many photographs each pool keeps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from fairgate.builds.build import read_build
from fairgate.builds.recipes.edited_photographs import GROUPS
from fairgate.builds.recipes.gensynth import Gensynth, GensynthSettings
from fairgate.builds.steps import Meter, Row, SetRows, run_steps
from fairgate.builds.steps.crop_edit import EditWorkshop, NeighbourPool
from fairgate.builds.steps.person_photographs import PHOTO, box_of, pasted
from fairgate.builds.steps.pictures import picture, png
from fairgate.formulas.metrics import knn_accept

SUBJECT, PHOTOGRAPHS, PILOT = "doctor", 40, 6
ALIKE = 2
"""Levels of grey by which two pictures of one edit may differ."""


@dataclass
class Bill:
    """What one way of doing it took. `unet` counts evaluations per image, seconds are CPU time."""

    seconds: float = 0.0
    unet: int = 0
    edits: int = 0
    images: dict[str, list[bytes]] = field(default_factory=dict)

    @property
    def unet_per_image(self) -> float:
        """UNet evaluations for an image of a kept set."""
        return self.unet / max(1, sum(len(images) for images in self.images.values()))


@dataclass(frozen=True)
class Before:
    """A finished part as the next one finds it."""

    kept: dict[str, SetRows] = field(default_factory=dict)

    @property
    def set_ids(self) -> Sequence[str]:
        """In the order of the shards."""
        return list(self.kept)

    def sets(self, set_ids: Sequence[str]) -> Iterator[SetRows]:
        """As stored."""
        return (self.kept[set_id] for set_id in set_ids)


@dataclass(frozen=True)
class Compared:
    """Both bills, and how many photographs the paper's own pool keeps."""

    plain: Bill
    ours: Bill
    photographs: int
    kept_by_the_papers_pool: int

    @property
    def same(self) -> int:
        """Sets that both keep, with the same pictures."""
        return sum(
            all(_alike(*pair) for pair in zip(images, self.ours.images[set_id], strict=True))
            for set_id, images in self.plain.images.items()
            if set_id in self.ours.images
        )


def compare_embedded(build: str = "gensynth-embedded", photographs: int = PHOTOGRAPHS, pilot: int = PILOT) -> Compared:
    """One occupation of a build of params.yaml, both ways. Raises AssertionError where 1 set in 20 is not the same."""
    settings = read_build(build).settings
    assert isinstance(settings, GensynthSettings)
    recipe = Gensynth(settings.model_copy(update={"pilot_photos": pilot, "sets": None}))
    photos = _run(recipe, 0, Before(), Meter())
    before = Before(dict(list(photos.kept.items())[:photographs]))
    ours = Bill()
    started, meter = time.process_time(), Meter()
    pilots = _run(recipe, 1, before, meter)
    edits = _run(recipe, 2, pilots, meter)
    ours.seconds, ours.unet, ours.edits = time.process_time() - started, meter.counts["unet"], meter.counts["edits"]
    ours.images = {set_id: [png(picture(row["image"])) for row in rows.rows] for set_id, rows in edits.kept.items()}
    pool = recipe.parts()[2].context(SUBJECT, pilots)
    plain, kept = _published(recipe.settings, before, pool)
    compared = Compared(plain, ours, len(before.kept), kept)
    assert compared.same >= 0.95 * max(len(plain.images), len(ours.images))
    return compared


def _alike(first: bytes, second: bytes) -> bool:
    one, other = (np.asarray(picture(each), dtype=np.int16) for each in (first, second))
    return bool(np.abs(one - other).max() <= ALIKE)


def _run(recipe: Gensynth, number: int, before: Before, meter: Meter) -> Before:
    part = recipe.parts()[number]
    steps = part.steps(SUBJECT, "cpu", part.context(SUBJECT, before))
    shards = list(part.shards(SUBJECT, before))
    for shard in shards:
        run_steps(steps, shard, meter)
    return Before({rows.set_id: rows for rows in chain.from_iterable(shards) if rows.drop is None})


def _published(settings: GensynthSettings, photos: Before, pool: NeighbourPool) -> tuple[Bill, int]:
    """All edits, then the filter, then one accepted edit of each group; and how many the paper's own pool keeps."""
    bill, meter = Bill(), Meter()
    workshop: EditWorkshop = settings.workshop("cpu")
    started = time.process_time()
    made: dict[str, list[Row]] = {}
    for set_id, stored in photos.kept.items():
        rows = SetRows(set_id, stored.subject, stored.names, stored.seed, columns=dict(stored.columns))
        made[set_id] = workshop.edit(rows, settings.photographs.crop(rows), settings.candidates, meter)
    accepted = {
        set_id: [
            settings.rule.accepts(pool.shares(row["embedding"], row["gender"], set_id, settings.rule)) for row in rows
        ]
        for set_id, rows in made.items()
    }
    for set_id, rows in made.items():
        start = photos.kept[set_id]
        chosen = [_chosen(start, group, rows, accepted[set_id]) for group in GROUPS]
        if all(chosen):
            photo = settings.photographs.open(start)
            bill.images[set_id] = [png(pasted(photo, picture(row["image"]), box_of(start))) for row in chosen if row]
    bill.seconds, bill.unet, bill.edits = time.process_time() - started, meter.counts["unet"], meter.counts["edits"]
    return bill, _kept_by_all(settings, photos, made)


def _chosen(rows: SetRows, group: str, made: Sequence[Row], accepted: Sequence[bool]) -> Row | None:
    """A random accepted edit of a group."""
    own = [(row, fine) for row, fine in zip(made, accepted, strict=True) if row["gender"] == group]
    order = rows.stream("order", group).permutation(len(own))
    return next((own[place][0] for place in order if own[place][1]), None)


def _kept_by_all(settings: GensynthSettings, photos: Before, made: dict[str, list[Row]]) -> int:
    """Photographs with an accepted edit of each group, all crops and all edits being the pool (eqs. 4 and 5)."""
    crops = [next(row for row in rows.rows if row["member"] == PHOTO) for rows in photos.kept.values()]
    edits = list(chain.from_iterable(made.values()))

    def columns(rows: Sequence[Row]) -> tuple[Any, Any]:
        return np.array([row["embedding"] for row in rows]), np.array([GROUPS.index(row["gender"]) for row in rows])

    flags = knn_accept(
        *columns(crops),
        *columns(edits),
        k=settings.neighbours,
        tau_real=settings.tau_real,
        tau_group=settings.tau_group,
    ).reshape(len(made), len(GROUPS), -1)
    return int(flags.any(axis=2).all(axis=1).sum())


def main() -> None:
    """Print the comparison."""
    found = compare_embedded()
    plain, ours = found.plain, found.ours
    print(f"gensynth, embedded world, one occupation, {found.photographs} photographs, {PILOT} of them the pilot")
    print("                                    published   recipe   ratio")
    for what, was, now in (
        ("sets kept", len(plain.images), len(ours.images)),
        ("edits made", plain.edits, ours.edits),
        ("UNet evaluations per kept image", plain.unet_per_image, ours.unet_per_image),
        ("CPU seconds", plain.seconds, ours.seconds),
    ):
        print(f"{what:34s}  {was:10,.1f} {now:8,.1f}   {now / was:.2f}")
    print(f"sets that both keep with the same pictures: {found.same}")
    print(f"photographs that the paper's own pool keeps: {found.kept_by_the_papers_pool}")


if __name__ == "__main__":
    main()
