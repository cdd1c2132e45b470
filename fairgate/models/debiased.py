"""`debiased:FILE?model=URI`: a two-tower model behind a mitigation, so that a suite gates it against its origin.

A mitigation changes embeddings and no weights. It is a JSON file that `fairgate mitigate` writes, for one checkpoint:

- CLIP-clip (Wang, Liu and Wang 2021, section 4.2): the dimensions that tell most about an attribute, by their mutual
  information with it on a release of labelled pictures, are left out of images and texts. Both are normalised after
  that, as GenSynth (Smith et al. 2023) has it; Wang's own code normalises before, and its similarities are no cosines.
- Projection (Chuang et al. 2023, section 3, without their calibration): texts are projected onto what is orthogonal to
  every prompt that names a group, such as "a photo of a man". Images stay as they are.

The name of the scheme is the field's word for such methods; no result says that a model is free of bias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from fairgate.checkpoints import Device, Embeddings, Encoder, require_file, resolve, scoring
from fairgate.errors import ModelError
from fairgate.hashing import digest
from fairgate.metrics import mutual_information
from fairgate.models.contract import Capability, Floats, ImageIndex, ImageSource, Model, Request, Rows
from fairgate.models.registry import open_scorer, register
from fairgate.models.two_towers import TwoTowers

CODE_VERSION = 1  # raise it when a mitigation's file gives other embeddings
MAX_BYTES = 1 << 20
MAX_PROMPT = 1000
_IN_THE_SPAN = 1e-4
"""The share of a unit text that is left where the prompts span it: float32 leaves 1e-7 of it, half precision 1e-3."""


class _Mitigation(BaseModel):
    """What a file holds. `origin` is the fingerprint of the checkpoint whose embeddings it was made for."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: Literal[1] = 1
    origin: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ClipClip(_Mitigation):
    """The dimensions that are left out, and what they were found on."""

    method: Literal["clip_clip"] = "clip_clip"
    attribute: Annotated[str, Field(min_length=1, max_length=200)]
    release: Annotated[str, Field(min_length=1, max_length=200)]
    fingerprint: Annotated[str, Field(min_length=1, max_length=200)]
    dimensions: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    width: Annotated[int, Field(ge=2)]

    @model_validator(mode="after")
    def _leaves_some(self) -> ClipClip:
        if not len(set(self.dimensions)) == len(self.dimensions) < self.width > max(self.dimensions):
            raise ValueError("dimensions are left out once each, below the width, and not all of them")
        return self

    def around(self, encoder: Encoder, device: Device) -> Encoder:  # noqa: ARG002 - the other one needs it
        kept = np.setdiff1d(np.arange(self.width), self.dimensions)

        def clipped(embed: Callable[[Any], Embeddings]) -> Callable[[Any], Embeddings]:
            return lambda batch: _of_width(embed(batch), self.width)[:, kept]

        return replace(
            encoder, encode_images=clipped(encoder.encode_images), encode_tokens=clipped(encoder.encode_tokens)
        )

    def require_other(self, source: ImageSource, where: str) -> None:
        """Raises ModelError for pictures of the release that it was found on: what was fitted there is no evidence."""
        name = self.release.partition("@")[0]
        if source.fingerprint == self.fingerprint or getattr(source, "name", None) == name:
            raise ModelError(
                f"the mitigation was fitted on {self.release}, and dataset '{name}' judges here.",
                where=where,
                remedy="fit it on another release: `fairgate mitigate clip-clip --data ...`",
            )


class Projection(_Mitigation):
    """The prompts whose span is taken out of texts."""

    method: Literal["projection"] = "projection"
    prompts: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=MAX_PROMPT)], ...], Field(min_length=1)]

    def around(self, encoder: Encoder, device: Device) -> Encoder:
        with scoring(device):
            named = encoder.encode_tokens(encoder.tokens(self.prompts)).astype(np.float64)
        _, sizes, directions = np.linalg.svd(named / np.linalg.norm(named, axis=1, keepdims=True), full_matrices=False)
        basis = directions[sizes > _IN_THE_SPAN * sizes[0]]

        def projected(tokens: Mapping[str, Any]) -> Embeddings:
            texts = encoder.encode_tokens(tokens).astype(np.float64)
            left: Floats = texts - (texts @ basis.T) @ basis
            # a text of the span has no direction left: as zeros it is refused by name, its rounding would be an answer
            left[np.linalg.norm(left, axis=1) <= _IN_THE_SPAN * np.linalg.norm(texts, axis=1)] = 0.0
            return np.asarray(left, dtype=np.float32)

        return replace(encoder, encode_tokens=projected)

    def require_other(self, source: ImageSource, where: str) -> None:
        """Nothing was fitted on pictures."""


Mitigation = ClipClip | Projection
_ANY: TypeAdapter[Mitigation] = TypeAdapter(Annotated[Mitigation, Field(discriminator="method")])


@register
class Debiased:
    """Mitigations of two-tower models."""

    scheme: ClassVar[str] = "debiased"
    forms: ClassVar[tuple[str, ...]] = ("debiased:FILE?model=URI",)
    capabilities: ClassVar[frozenset[Capability]] = TwoTowers.capabilities

    def local_path(self, address: str) -> Path | None:
        """The mitigation's file."""
        return Path(address.partition("?")[0])

    def origin(self, address: str) -> str:
        """The URI of the model that it changes."""
        return address.partition("?model=")[2]

    def open(self, request: Request) -> TwoTowers:
        """Read the mitigation, and find its model. Raises ModelError, also where they do not belong to each other."""
        named, origin = request.address.partition("?")[0], self.origin(request.address)
        if not named or not origin or origin.startswith("debiased:"):
            raise ModelError(
                "it names no file, no model that it changes, or another mitigation as that model.",
                where=request.uri,
                remedy="write debiased:FILE?model=URI, such as debiased:clip100.json?model=hf:runs/checkpoint",
            )
        path = resolve(named, request.base)
        mitigation = read_mitigation(path)
        mitigation.require_other(request.source, request.uri)
        model = two_towers(_open(origin, request), request.uri)
        if model.fingerprint != mitigation.origin:
            raise ModelError(
                f"{path.name} was made for checkpoint {mitigation.origin[:12]}, and {origin} is "
                f"{model.fingerprint[:12]}: dimensions and directions of one are not the other's.",
                where=request.uri,
                remedy="make it again for this checkpoint: `fairgate mitigate`",
            )

        def load(device: Device) -> Encoder:
            return mitigation.around(model.checkpoint.load(device), device)

        change = {"code": CODE_VERSION, **mitigation.model_dump(mode="json")}
        checkpoint = replace(
            model.checkpoint,
            fingerprint=digest({"origin": model.fingerprint, "mitigation": change}),
            identity={**model.checkpoint.identity, "mitigation": change},
            load=load,
        )
        return TwoTowers(checkpoint, request)


def _open(uri: str, request: Request) -> Model:
    return open_scorer(
        uri,
        request.source,
        device=request.device,
        cache=request.cache,
        allow_pickle=request.allow_pickle,
        base=request.base,
        progress=request.progress,
        batch_size=request.batch_size,
    )


def two_towers(model: Model, where: str) -> TwoTowers:
    """A model as one whose embeddings can be changed. Raises ModelError for another kind."""
    if not isinstance(model, TwoTowers):
        raise ModelError(
            f"{model.uri} has no embeddings of images and texts that a mitigation could change.",
            where=where,
            remedy="name a checkpoint with two towers (open_clip:, hf:)",
        )
    return model


def read_mitigation(path: Path) -> Mitigation:
    """A mitigation from its file. Raises ModelError for one that is missing, too large or not what its method needs."""
    require_file(path)
    remedy = "make it again: `fairgate mitigate`"
    if path.stat().st_size > MAX_BYTES:
        raise ModelError(
            f"the file is larger than {MAX_BYTES:,} bytes, and no mitigation.", where=str(path), remedy=remedy
        )
    try:
        found = _ANY.validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(map(str, first["loc"])) or "the file"
        raise ModelError(f"it is no mitigation ({at}: {first['msg']}).", where=str(path), remedy=remedy) from error
    return found


def fit_clip_clip(model: Model, labels: Rows, *, attribute: str, release: str, fingerprint: str, drop: int) -> ClipClip:
    """CLIP-clip for a model that is bound to labelled pictures: the `drop` dimensions of highest mutual information.

    `labels` are the codes of the attribute's groups (images,), -1 for undefined; of equal dimensions the earlier one
    goes. Raises ModelError for a model without two towers and where nothing would be left, MetricError for labels of
    fewer than two groups.
    """
    images = two_towers(model, model.uri).image_embeddings()
    dimensions = sorted(np.argsort(-mutual_information(images, labels), kind="stable")[:drop].tolist())
    width = images.shape[1]
    if not 0 < drop < width:
        raise ModelError(
            f"{drop} of {width} dimensions cannot be left out.",
            where=model.uri,
            remedy=f"leave out 1 to {width - 1} (Wang et al.: 100 of 512)",
        )
    return ClipClip(
        origin=model.fingerprint,
        attribute=attribute,
        release=release,
        fingerprint=fingerprint,
        dimensions=tuple(dimensions),
        width=width,
    )


def fit_projection(uri: str, prompts: Sequence[str], *, device: str = "auto", base: Path = Path()) -> Projection:
    """The projection of a model's texts that takes these prompts out. Raises ModelError for one without two towers."""
    model = two_towers(open_scorer(uri, _NoPictures(), device=device, base=base), uri)
    if not prompts or not all(0 < len(prompt) <= MAX_PROMPT for prompt in prompts):
        raise ModelError(
            f"a prompt has 1 to {MAX_PROMPT:,} characters, and one of these has not.",
            where=uri,
            remedy="name a group in each, such as 'a photo of a man'",
        )
    model.text_embeddings(prompts)  # refuses what cannot be embedded
    return Projection(origin=model.fingerprint, prompts=tuple(prompts))


class _NoPictures:
    """A source for a model of which only texts are asked."""

    fingerprint, folder = "", Path()

    @property
    def index(self) -> ImageIndex:
        raise ModelError(
            "it is a table of answers about pictures, without embeddings of texts that a mitigation could change.",
            remedy="name a checkpoint with two towers (open_clip:, hf:)",
        )

    def __len__(self) -> int:
        return 0

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:  # noqa: ARG002
        return iter(())


def _of_width(embeddings: Embeddings, width: int) -> Embeddings:
    if embeddings.shape[1] != width:
        raise ModelError(
            f"the model embeds in {embeddings.shape[1]} dimensions, and the mitigation was made for {width}.",
            remedy="make it again: `fairgate mitigate`",
        )
    return embeddings
