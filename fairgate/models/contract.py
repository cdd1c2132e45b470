"""What a judged model is: its source of images, its capabilities, and the family that opens it by URI."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar, cast, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fairgate.data import TextRows
from fairgate.ground.errors import CapabilityError, ModelError
from fairgate.ground.plugins import Registry

if TYPE_CHECKING:
    from fairgate.models.cache import EmbeddingCache
    from fairgate.models.checkpoints import Device

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Progress = Callable[[int, int], None]


class ImageIndex(Protocol):
    """Names of the images, one entry a row: string arrays of shape (images,), or columns that read as they do."""

    @property
    def set_id(self) -> TextRows: ...
    @property
    def member(self) -> TextRows: ...
    @property
    def path(self) -> TextRows: ...


class ImageSource(Protocol):
    """Images in a fixed order. A released dataset is one; so is anything a test makes up."""

    @property
    def fingerprint(self) -> str:
        """Digest of the content: equal fingerprints mean equal images in equal order."""
        ...

    @property
    def folder(self) -> Path: ...

    @property
    def index(self) -> ImageIndex: ...

    def __len__(self) -> int: ...

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:
        """Row numbers and encoded image bytes (JPEG, PNG, ...), each row once."""
        ...


Capability = Literal["log_probabilities", "similarity", "edit", "generate", "detect", "predict", "answer", "measure"]
"""What a model can do, by the name of the method that does it; a probe names the one that it needs."""


class Capable(Protocol):
    """What names what it can do."""

    @property
    def uri(self) -> str: ...
    @property
    def capabilities(self) -> frozenset[Capability]: ...


PRECOMPUTED = "precomputed"
"""The precision of answers that someone computed before: how texts and pictures were read is not known of them."""


class Model(Capable, Protocol):
    """A model that is judged, bound to the items of one source, so that answers can be cached and streamed.

    `fingerprint` is a digest over the checkpoint's files, taken before they are loaded. `precision` says how numbers
    were computed ("fp32", "amp_bf16", "bf16", PRECOMPUTED), `device` where, `preparation` which code prepared images
    and prompts ("open_clip/1"): other numbers of the same files are not compared where it changed. `tokenizer` and
    `preprocessing` are digests of how texts and pictures are read, None where nothing is; `texts_read_by`, where a
    model has it, is what messages call the first ("labels" of a classifier), or returns it for another model.
    """

    @property
    def fingerprint(self) -> str: ...
    @property
    def precision(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def preparation(self) -> str: ...
    @property
    def tokenizer(self) -> str | None: ...
    @property
    def preprocessing(self) -> str | None: ...


class LabelModel(Model, Protocol):
    """A model that weighs labels against each other: a CLIP, a classifier, a language model's label likelihood."""

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        """Log-softmax over exactly these prompts: (images, prompts) float64."""
        ...


class SimilarityModel(Model, Protocol):
    """A model that compares images with texts."""

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> Floats:
        """Cosine of each image to the re-normalised average of each ensemble's unit text embeddings.

        Shape (images, ensembles), float64.
        """
        ...


@dataclass(frozen=True, slots=True)
class Editing:
    """How a picture is edited (img2img): `strength` (0..1] is the share of the schedule that is run again, `guidance`
    the classifier-free scale. Edits of another `seed` are made from other noise."""

    strength: float
    seed: int = 0
    steps: int = 50
    guidance: float = 7.5


class EditingModel(Model, Protocol):
    """A model that edits its source's images as a prompt says: a Stable Diffusion's img2img."""

    @property
    def source(self) -> ImageSource: ...

    def edit(self, prompt: str, how: Editing) -> ImageSource:
        """The edits of all images, in the source's order and under its names; made as they are read.

        The noise of an edit depends on the image's set and member and on the seed alone, not on the prompt, the
        strength or the weights: the edits of two models are paired by image and seed.
        """
        ...


MOST_BOXES = 100
"""Boxes of an image that a detector returns at most, those with the highest scores: COCO's largest number."""
LOWEST_SCORE = 0.01
"""Boxes with lower scores are not returned."""


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """Boxes that a detector found: `row` (boxes,) is the image of each, `score` (boxes,) is in 0..1, `corners`
    (boxes, 4) are left, top, right and bottom in pixels of the image. By image, and the highest score first."""

    row: Rows
    score: Floats
    corners: Floats


class DetectingModel(Model, Protocol):
    """A model that finds things in its source's images: a DETR, a YOLOS, a Grounding DINO."""

    def detect(self, what: str) -> Detections:
        """Boxes of what a label or a text names, MOST_BOXES of an image at most, of scores above LOWEST_SCORE."""
        ...


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a model takes every image for: `labels` (images,) text, empty where it gives none, and where it says how
    sure it is, `confidence` (images,) from 0 to 1."""

    labels: TextRows
    confidence: Floats | None = None


class PredictingModel(Model, Protocol):
    """A model that names one of its own labels for an attribute of every image: a classifier of gender, age, jobs."""

    def predict(self, attribute: str) -> Predicted:
        """Its label for every image. Raises ModelError for an attribute that it has no labels of."""
        ...


@dataclass(frozen=True, slots=True)
class Generating:
    """How a picture is made of a prompt: `guidance` is the classifier-free scale. Pictures of another `seed` are made
    from other noise."""

    seed: int = 0
    steps: int = 50
    guidance: float = 7.5


class GeneratingModel(Model, Protocol):
    """A model that makes pictures of prompts, such as a Stable Diffusion."""

    @property
    def source(self) -> ImageSource: ...

    def generate(self, prompts: Sequence[str], how: Generating) -> ImageSource:
        """A picture of every row's prompt, under the names of its source's rows; made as they are read.

        The noise of a picture depends on the row's set and member and on the seed alone, not on the prompt or the
        weights: the pictures of two models are paired by row.
        """
        ...


@runtime_checkable
class FixedLabels(Protocol):
    """A classifier, which knows its own labels and no others."""

    def require_label(self, label: str) -> None:
        """Raises ModelError for a label that it does not have."""
        ...


class AnsweringModel(Model, Protocol):
    """A model that answers questions about images in words: a vision-language model."""

    def answer(self, prompts: Sequence[str], longest: int) -> NDArray[np.object_]:
        """The raw text that is answered to one prompt per image, greedily, in at most `longest` tokens: (images,).

        An image with an empty prompt is not asked, and its answer is empty.
        """
        ...


class MeasuringModel(Model, Protocol):
    """What gives every image a number: a table of what somebody measured."""

    def measure(self, column: str) -> Floats:
        """The numbers that a column holds, finite, (images,)."""
        ...


@runtime_checkable
class RereadingModel(Model, Protocol):
    """A model that can be judged with another one's tokenizer or preprocessing, to see what a change of these hides.

    Where a model cannot, and these are not its baseline's, no comparison with the baseline passes.
    """

    def reading_as(self, other: Model, *, tokenizer: bool, preprocessing: bool) -> RereadingModel:
        """This model, given texts by another one's tokenizer, or pictures by its preprocessing, or both.

        Raises ModelError, at once or when it is scored, where it cannot take them.
        """
        ...

    def embeds_alike(self, other: RereadingModel) -> bool:
        """Whether what `reading_as` returned and scored gave everything that it was shown the same vectors."""
        ...


class ModelFamily(Protocol):
    """Models of one URI scheme: how a checkpoint is found, hashed and opened, and what its models can do.

    `forms` are the ways to write its URIs, for messages. A family whose URIs hold another model's (`debiased:`) has a
    method `origin(address)`, which returns that URI; one whose options name files (`?labels=FILE`) has a method
    `option_files(address)`, which returns their paths.
    """

    scheme: ClassVar[str]
    forms: ClassVar[tuple[str, ...]]
    capabilities: ClassVar[frozenset[Capability]]

    def local_path(self, address: str) -> Path | None:
        """The file or folder that an address names, as it is written; None for another kind of name. Reads nothing."""
        ...

    def open(self, request: Request) -> Model:
        """Find and hash the model; load it on first use. Raises ModelError."""
        ...


def _checked(scheme: str, family: Any) -> ModelFamily:
    family = family() if isinstance(family, type) else family
    if getattr(family, "scheme", None) != scheme:
        raise TypeError(f"its scheme is '{getattr(family, 'scheme', None)}'")
    for part in ("forms", "capabilities", "local_path", "open"):
        if not hasattr(family, part):
            raise TypeError(f"it lacks `{part}`, which fairgate.models.ModelFamily describes")
    if unknown := sorted(set(family.capabilities) - set(get_args(Capability))):
        raise TypeError(f"'{unknown[0]}' is no capability (they are: {', '.join(get_args(Capability))})")
    return cast(ModelFamily, family)


REGISTERED: Registry[ModelFamily] = Registry("model", _checked)
F = TypeVar("F", bound=type[Any])


def register(family: F) -> F:
    """Class decorator: make a family known by its scheme. Raises FairgateError for a scheme that is taken."""
    REGISTERED.register(family.scheme, family)
    return family


def require_capability(model: Capable, needed: Capability, where: str, remedy: Callable[[], str] | None = None) -> None:
    """Raises CapabilityError, with the name of what a model lacks; `where` says who needs it, `remedy()` what else
    would do."""
    if needed not in model.capabilities:
        have = ", ".join(sorted(model.capabilities)) or "none"
        raise CapabilityError(
            f"the model {model.uri} lacks the capability '{needed}' (it has: {have}).",
            where=where,
            remedy="judge a model that has it, or leave out what needs it" if remedy is None else remedy(),
        )


def _opens_no_other(uri: str, **_: str) -> Model:
    raise ModelError("this request cannot open the model inside.", where=uri, remedy="open it by `open_scorer`")


@dataclass(frozen=True, slots=True)
class Request:
    """One call of `open_scorer`, as model families receive it. `address` is the URI without its scheme; `open_other`
    opens another model over the same source by its URI, such as the one inside this one, `known_as` that or another.
    `seed` draws the pictures and texts on which a faster way is compared with the library's own."""

    uri: str
    address: str
    source: ImageSource
    device: str | Device = "auto"
    cache: EmbeddingCache | None = None
    base: Path = Path()
    progress: Progress | None = None
    batch_size: int | None = None
    open_other: Callable[..., Model] = _opens_no_other
    seed: int = 0


def log_softmax(logits: Floats, out: Floats | None = None) -> Floats:
    """Log-softmax over the last axis, shifted by the maximum so that none overflows; `out` may be the logits."""
    log_p = np.empty_like(logits, dtype=np.result_type(logits, np.float32)) if out is None else out
    step = 1 << 16  # the processor's cache holds as many
    for start in range(0, len(logits), step):
        part = logits[start : start + step]
        shifted = part - part.max(axis=-1, keepdims=True)
        log_p[start : start + step] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return log_p
