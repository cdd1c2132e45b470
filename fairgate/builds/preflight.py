"""Before a build: is everything there that it reads, and what will it cost? Nothing is loaded or downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairgate.builds.memory import Way, ways_to_fit
from fairgate.builds.plan import Need, needs_of
from fairgate.builds.recipes import Recipe, Work
from fairgate.ground.errors import FairgateError, ModelError
from fairgate.models.checkpoints import model_folder
from fairgate.models.generation import PUBLISHED, PublishedModel, addresses


@dataclass(frozen=True, slots=True)
class GPU:
    """A card: memory in GB, dense TFLOP/s of tensor cores in half precision, and the watts that it may draw."""

    name: str
    memory: int
    tflops: int
    watts: int


GPUS = (GPU("T4", 16, 65, 70), GPU("RTX 4090", 24, 165, 450), GPU("A100", 80, 312, 400), GPU("H100", 80, 989, 700))
"""Makers' figures."""
SHARE_OF_PEAK = {512: 0.218, 768: 0.218, 1024: 0.354}
"""What painting reached of an H100's TFLOP/s in batches of 8, by the side of the pictures, with random weights at the
sizes of SD 1.5 and SDXL (docs/evidence/cost.md). That other cards reach as much of theirs is assumed."""


@dataclass(frozen=True, slots=True)
class GpuCost:
    """A build on one card, computed: `hours` and `kilowatt_hours` at most, None where the work is not known whole."""

    gpu: GPU
    fits: bool
    hours: float
    kilowatt_hours: float


@dataclass(frozen=True, slots=True)
class Preflight:
    """What a build reads and does. `memory` is of its largest part, in GB, None where a model's size is not known;
    `ways` are those to run it that need less (`fairgate.builds.memory`); `unknown` says of which work the number of
    pictures is not known."""

    needs: Sequence[Need]
    work: Sequence[Work]
    memory: float | None
    estimates: Sequence[GpuCost]
    unknown: Sequence[str]
    free_disk: float
    ways: Sequence[Way] = ()

    @property
    def missing(self) -> list[Need]:
        """What is not there, or cannot be used."""
        return [each for each in self.needs if each.problem is not None]

    @property
    def remedies(self) -> dict[str, tuple[str, str]]:
        """Of everything that is missing, once each: what it is (several may share it), its problem and its remedy."""
        found: dict[str, tuple[str, str]] = {}
        for need in self.missing:
            for problem in (need.problem, *_missing_parts(need)):
                assert problem is not None
                names = [*found[problem.problem][0].split(", "), need.name] if problem.problem in found else [need.name]
                found[problem.problem] = (", ".join(dict.fromkeys(names)), problem.remedy or "")
        return {problem: (names, remedy) for problem, (names, remedy) in found.items()}

    @property
    def missing_disk(self) -> float:
        """GB of the published models that are not there."""
        names = {name for need in self.missing if need.model for name in addresses(need.source)}
        return sum(PUBLISHED[name].disk for name in names if name in PUBLISHED)


def published(uri: str) -> PublishedModel | None:
    """What is known of the model that a URI names, with its refiner and VAE; None for a folder of one's own."""
    names = addresses(uri)
    if not names or any(name not in PUBLISHED for name in names):
        return None
    first, *others = (PUBLISHED[name] for name in names)
    licences = "; ".join(dict.fromkeys(each.licence for each in (first, *others)))
    disk, memory = (sum(getattr(each, what) for each in (first, *others)) for what in ("disk", "memory"))
    parts = [each.largest for each in (first, *others) if each.largest is not None]
    return replace(first, licence=licences, disk=disk, memory=memory, largest=max(parts, default=None))


def _missing_parts(need: Need) -> list[FairgateError]:
    """The refiner and the VAE of a pipeline that is missing may be missing too."""
    found: list[FairgateError] = []
    for name in addresses(need.source)[1:] if need.model else ():
        try:
            model_folder(name, Path())
        except ModelError as error:
            found.append(error)
    return found


def preflight_of(recipe: Recipe, out: Path) -> Preflight:
    """Look at everything that a recipe reads, and count what it will do."""
    needs, work, uris = needs_of(recipe), list(recipe.work()), recipe.models()
    sizes = {role: published(uri) for role, uri in uris.items()}
    unknown = [
        f"{one.part}: {_why(one, sizes[one.role])}"
        for one in work
        if one.pictures is None or not _rate(sizes[one.role])
    ]
    tflop = sum(_tflop(one, sizes[one.role]) for one in work)
    ways = ways_to_fit(recipe, sizes)
    memory = ways[0].memory if ways else None
    place = next(each for each in (out, *out.resolve().parents) if each.exists())
    estimates = [_estimate(gpu, tflop, memory) for gpu in GPUS] if tflop and memory is not None else []
    return Preflight(needs, work, memory, estimates, unknown, shutil.disk_usage(place).free / 1e9, ways)


def _rate(size: PublishedModel | None) -> bool:
    return size is not None and size.tflop is not None


def _why(one: Work, size: PublishedModel | None) -> str:
    return "how many pictures there will be depends on the data" if _rate(size) else f"the size of the {one.role}"


def _tflop(one: Work, size: PublishedModel | None) -> float:
    """TFLOP over the share of a card's peak that they run at."""
    if one.pictures is None or size is None or size.tflop is None or size.side is None:
        return 0.0
    return one.pictures * one.evaluations * size.tflop / SHARE_OF_PEAK[size.side]


def _estimate(gpu: GPU, tflop: float, memory: float) -> GpuCost:
    hours = tflop / gpu.tflops / 3600
    return GpuCost(gpu, memory <= gpu.memory, hours, hours * gpu.watts / 1000)
