"""What an adapter hands to the scorer: a hashed checkpoint, and how to load it as two towers; and how pictures are
prepared in two steps, up to their 8-bit levels one by one, then to float32 as a batch, on the device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import FairgateError, ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints.device import Device

if TYPE_CHECKING:
    import torch

Embeddings = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Encoder:
    """A loaded two-tower model: `scale` multiplies cosines into logits, `bias` is added (0 where there is none).

    `vocabulary` is the number of tokens that the text tower knows.
    """

    scale: float
    bias: float
    vocabulary: int
    prepare: Callable[[Any], Any]
    """A Pillow RGB image as the tensor that the image tower takes; in two steps if it is an `EightBit`. Called from
    several threads and processes."""
    encode_images: Callable[[Any], Embeddings]
    """Prepared images, a sequence or one tensor, to (images, dim) float32, of any length."""
    tokens: Callable[[Sequence[str]], Mapping[str, Any]]
    """Prompts as what the text tower is given: `ids` (prompts, length), and a `mask` where it takes one."""
    encode_tokens: Callable[[Mapping[str, Any]], Embeddings]
    """Tokens to (prompts, dim) float32, of any length."""
    text_features: Callable[[Mapping[str, Any]], Any] | None = None
    """The same as a tensor, with gradients; None where the adapter offers none."""
    words: Any = None
    """The text tower's embedding of tokens (`torch.nn.Embedding`), for what learns or adds some; None as above."""
    image_tower: Callable[[], str] | None = None
    """Digest of the image tower, its weights and its settings; None if the adapter cannot tell it from the rest."""


@contextmanager
def naming(where: str, what: str, shown: object = None) -> Iterator[None]:
    """Turn what libraries raise inside into a ModelError: the model cannot `what`. What a library was `shown` for it,
    such as a temporary folder of links, is called `where`."""
    try:
        yield
    except (FairgateError, MemoryError):
        raise
    except Exception as error:  # of any type: Hugging Face's tokenizers raise Exception itself
        if type(error).__name__ == "OutOfMemoryError":  # torch's: a smaller batch may fit
            raise
        reason = f"{type(error).__name__}: {error}"
        raise ModelError(
            f"the model cannot {what} ({reason if shown is None else reason.replace(str(shown), where)}).",
            where=where,
            remedy="check the checkpoint's configs and tokenizer; save them again with the model",
        ) from error


def named(prepare: Callable[[Any], Any], where: str) -> Callable[[Any], Any]:
    """The same; what it raises is a ModelError that names the model."""
    name = naming(where, "prepare a picture")
    return replace(prepare, levels=name(prepare.levels)) if isinstance(prepare, EightBit) else name(prepare)


def diverged(problem: str, where: str) -> ModelError:
    """The error for numbers of a model that are none."""
    remedy = "check the checkpoint (did training diverge?); with half precision, try --fairness-device cpu"
    return ModelError(problem, where=where, remedy=remedy)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model that is known by content and not loaded yet.

    `identity` is plain data: everything besides the fingerprint that numbers depend on (adapter and its code
    version, library versions, preprocessing where the files do not fix it). `tokenizer` and `preprocessing` are the
    digests of how it reads texts and pictures (`fairgate.models.input_digests`). `images_of` is the checkpoint that
    embeds pictures the same, where there is one: theirs in the cache serve both.
    """

    fingerprint: str
    identity: Mapping[str, Any]
    load: Callable[[Device], Any]
    """An `Encoder` of two towers, a classifier, or a detector."""
    tokenizer: str | None = None
    preprocessing: str | None = None
    images_of: Checkpoint | None = None

    @property
    def preparation(self) -> str:
        """`open_clip/1`: which adapter prepares images and prompts, and in which version of its code."""
        return f"{self.identity['adapter']}/{self.identity['code']}"

    def key(self, device: Device, **more: str) -> str:
        """Digest that names numbers of this model at a precision."""
        named = {"fingerprint": self.fingerprint, "identity": dict(self.identity), "precision": device.precision}
        return digest({**named, **more})

    def open(self, device: Device, uri: str) -> Encoder:
        """The loaded model. What it fails at names it: what loads may still make nothing computable."""
        encoder: Encoder = self.load(device)
        return replace(
            encoder,
            prepare=named(encoder.prepare, uri),
            encode_images=naming(uri, "embed pictures")(encoder.encode_images),
            tokens=naming(uri, "read prompts")(encoder.tokens),
            encode_tokens=naming(uri, "embed prompts")(encoder.encode_tokens),
        )


_EXTRAS = {"peft": "'fairgate[adapters]'"}


def versions(*packages: str) -> dict[str, str]:
    """Installed versions by distribution name, read without importing them."""
    return {package: _version(package) for package in packages}


@cache  # 2 ms a package, asked for at every model that is opened
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError as error:
        raise ModelError(
            f"the package '{package}', which this model needs, is not installed.",
            remedy=f"install it: `pip install {_EXTRAS.get(package, package)}`",
        ) from error


Prepare = Callable[[Any], Any]
_LARGE = 1 << 22  # pixels from which memory is used again
_STRIP = 128  # lines that are copied at once


@dataclass(frozen=True, slots=True)
class EightBit:
    """What prepares a picture, as a call of one step or as two: levels are a quarter of the bytes to hand over."""

    levels: Prepare
    """A Pillow RGB image, resized and cropped: uint8, channels first or last. From several threads or processes."""
    finish: Callable[[torch.Tensor], torch.Tensor]
    """Levels of a batch on any device as the image tower takes them: (pictures, 3, height, width) float32."""

    def __call__(self, image: Any) -> torch.Tensor:
        return self.finish(self.levels(image)[None])[0]


def of_chain(transform: Any) -> Prepare:
    """The two steps of a transform that ends in ToTensor and Normalize, as open_clip's and timm's do."""
    import torch
    from torchvision.transforms import Compose, Normalize, ToTensor

    steps: list[Any] = list(getattr(transform, "transforms", ()))
    if len(steps) < 2 or not isinstance(steps[-2], ToTensor) or not isinstance(steps[-1], Normalize):
        return transform  # type: ignore[no-any-return]
    shape, normalizing = Compose(steps[:-2]), steps[-1]

    def levels(image: Any) -> torch.Tensor:
        return torch.from_numpy(np.array(shape(image)))

    def finish(batch: torch.Tensor) -> torch.Tensor:
        # by a tensor: a GPU multiplies by the inverse of a plain number, which rounds to other levels
        numbers = batch.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
        return normalizing(numbers.div_(torch.tensor(255.0, device=batch.device)))  # type: ignore[no-any-return]

    return _same(transform, EightBit(levels, finish))


def of_processor(processor: Any) -> Prepare:
    """An image processor of transformers as what prepares one picture, in two steps if it normalizes last. What is
    prepared raises ModelError where a picture is cut into several."""

    def prepare(image: Any, **how: bool) -> torch.Tensor:
        made: torch.Tensor = processor(images=image, return_tensors="pt", **how)["pixel_values"]
        if len(made) != 1:
            raise ModelError(
                f"its processor ({type(processor).__name__}) makes {len(made)} pictures of one.",
                remedy="save a processor that does not cut pictures into pieces (crop_to_patches, do_image_splitting, "
                "do_pan_and_scan), as the model was trained",
            )
        return made[0]

    if not (hasattr(processor, "rescale_and_normalize") and processor.do_rescale and processor.do_normalize):
        return prepare
    mean, std = tuple(processor.image_mean), tuple(processor.image_std)

    def finish(batch: torch.Tensor) -> torch.Tensor:
        return processor.rescale_and_normalize(batch, True, processor.rescale_factor, True, mean, std)  # type: ignore[no-any-return]

    def levels(image: Any) -> torch.Tensor:
        return prepare(image, do_rescale=False, do_normalize=False)

    planes = _Planes()

    def levels_of_planes(image: Any) -> torch.Tensor:
        return levels(planes.of(image)).clone()  # it may be a view of memory that the next picture takes

    def sized(image: Any) -> torch.Tensor:
        return levels(image) if image.width * image.height < _LARGE else levels_of_planes(image)

    alike = isinstance(_same(prepare, EightBit(levels_of_planes, finish)), EightBit)
    return _same(prepare, EightBit(sized if alike else levels, finish))


class _Planes(threading.local):
    """Memory for the levels of a picture, used for the next one again: a processor copies a Pillow picture four times,
    and new pages for that took as long as resizing 12 megapixels."""

    memory: Any = None

    def of(self, image: Any) -> torch.Tensor:
        """The levels, (3, height, width) uint8, until the next call in this thread."""
        import torch

        (width, height), size = image.size, 3 * image.width * image.height
        if self.memory is None or len(self.memory) < size:
            self.memory = torch.empty(size, dtype=torch.uint8)
        planes: torch.Tensor = self.memory[:size].view(3, height, width)
        for top in range(0, height, _STRIP):
            strip = image.crop((0, top, width, min(height, top + _STRIP)))
            planes.numpy()[:, top : top + _STRIP] = np.asarray(strip).transpose(2, 0, 1)
        return planes


def _same(prepare: Prepare, steps: EightBit) -> Prepare:
    """The two steps if they give every number of the one on a picture of noise, which has all levels; else the one."""
    import torch
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (257, 301, 3), dtype=np.uint8)
    try:
        wanted, levels = prepare(Image.fromarray(noise)), steps.levels(Image.fromarray(noise))
        alike = levels.dtype == torch.uint8 and torch.equal(steps.finish(levels[None])[0], wanted)
    except Exception:  # of any type: what a strange config raises is told when a picture is prepared
        return prepare
    return steps if alike else prepare
