"""`debiased:FILE?model=URI`: a two-tower model behind a mitigation, so that a suite gates it against its origin.

A mitigation changes embeddings and no weights. It is a JSON file that `fairgate mitigate` writes, for one checkpoint:

- CLIP-clip (Wang, Liu and Wang 2021, section 4.2): the dimensions that tell most about an attribute, by their mutual
  information with it on a release of labelled pictures, are left out of images and texts. Both are normalised after
  that, as GenSynth's code (Smith et al. 2023) does; Wang's normalises before, and its similarities are no cosines.
- Projection (Chuang et al. 2023, section 3): texts are projected onto what is orthogonal to every prompt that names a
  group, such as "a photo of a man". Images stay as they are. With pairs of prompts that differ in the group alone, it
  is calibrated as in their code: texts are first multiplied with the inverse of I + strength * mean of (a - b)(a - b)',
  so that both texts of a pair come out alike.
- A learned prompt array (after Berg et al. 2022, DeBiasCLIP): learned tokens after the one that opens each text, where
  theirs come before it: `prompt_tokens` has all departures. The published array cannot be opened.

The name of the scheme is the field's word for such methods; no result says that a model is free of bias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from fairgate.ground.errors import ModelError, listed
from fairgate.ground.hashing import digest, read_bounded
from fairgate.ground.validation_words import fault_words
from fairgate.models.checkpoints import MAX_SIDE, Checkpoint, Device, Embeddings, Encoder, require_file, resolve
from fairgate.models.contract import Capability, Floats, ImageSource, Request, register
from fairgate.models.family import FileFamily, require_unfitted
from fairgate.models.two_towers import SAME_TEXT, TwoTowers, as_two_towers

CODE_VERSION = 1  # raise it when a mitigation's file gives other embeddings
MAX_BYTES = 1 << 20
MAX_PROMPT = 1000
MAX_PROMPTS = 1000


class _Mitigation(BaseModel):
    """What a file holds. `origin` is the fingerprint of the checkpoint whose embeddings it was made for."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: Literal[1] = 1
    origin: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    decides: ClassVar[set[str]] = set()

    @property
    def change(self) -> dict[str, Any]:
        """All that embeddings depend on: the fields that `decides` names."""
        return self.model_dump(mode="json", include=self.decides)


Named = Annotated[str, Field(min_length=1, max_length=200)]


class _Fitted(_Mitigation):
    """What a file says that it was fitted on."""

    attribute: Named
    release: Named
    fingerprint: Named

    def require_other(self, source: ImageSource, where: str) -> None:
        """Raises ModelError for pictures of a release that it was fitted on: what was fitted there is no evidence."""
        command = "`fairgate mitigate ... --data ...`"
        require_unfitted(source, self.release, self.fingerprint, where, "mitigation", command)


class ClipClip(_Fitted):
    """The dimensions that are left out, and what they were found on."""

    method: Literal["clip_clip"] = "clip_clip"
    dimensions: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    width: Annotated[int, Field(ge=2, le=MAX_SIDE)]
    decides = {"method", "dimensions", "width"}

    @model_validator(mode="after")
    def _leaves_some(self) -> ClipClip:
        if not len(set(self.dimensions)) == len(self.dimensions) < self.width > max(self.dimensions):
            raise ValueError("dimensions are left out once each, below the width, and not all of them")
        return self

    @property
    def note(self) -> str:
        """What a reader of the verdict should know."""
        return (
            f"the candidate is mitigated: {len(self.dimensions)} of {self.width} dimensions, which tell most about "
            f"'{self.attribute}', are left out (CLIP-clip); by its own file it was fitted on {self.release}"
        )

    def checkpoint(self, origin: Checkpoint, uri: str) -> Checkpoint:  # noqa: ARG002
        """The origin without these dimensions."""
        kept = ~np.isin(np.arange(self.width), self.dimensions)

        def clipped(embed: Callable[[Any], Embeddings]) -> Callable[[Any], Embeddings]:
            return lambda batch: embed(batch)[:, kept]  # IndexError for another width

        def load(device: Device) -> Encoder:
            encoder: Encoder = origin.load(device)
            images, texts = clipped(encoder.encode_images), clipped(encoder.encode_tokens)
            return replace(encoder, encode_images=images, encode_tokens=texts)

        return replace(origin, load=load)


Prompt = Annotated[str, Field(min_length=1, max_length=MAX_PROMPT)]


class Projection(_Mitigation):
    """The prompts whose span is taken out of texts; `pairs` name one content with two groups, and are made alike."""

    method: Literal["projection"] = "projection"
    prompts: Annotated[tuple[Prompt, ...], Field(min_length=1, max_length=MAX_PROMPTS)]
    pairs: Annotated[tuple[tuple[Prompt, Prompt], ...], Field(max_length=MAX_PROMPTS)] = ()
    strength: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 0.0
    decides = {"method", "prompts", "pairs", "strength"}

    @model_validator(mode="after")
    def _calibrated_or_not(self) -> Projection:
        if bool(self.pairs) != (self.strength > 0):
            raise ValueError("`pairs` and a `strength` above 0 go together")
        return self

    @property
    def note(self) -> str:
        """What a reader of the verdict should know."""
        paired = f", calibrated by {len(self.pairs)} pair(s)" if self.pairs else ""
        shown = _quoted(self.prompts)
        return f"the candidate is mitigated: the span of {shown} is taken out of its texts (projection{paired})"

    def checkpoint(self, origin: Checkpoint, uri: str) -> Checkpoint:
        """The origin, whose texts keep what is orthogonal to the prompts; its images are the origin's own."""

        def load(device: Device) -> Encoder:
            from fairgate.models.embeddings import embed_texts

            encoder: Encoder = origin.load(device)
            exact = replace(device, precision="fp32")
            named = embed_texts(encoder, list(dict.fromkeys(self.prompts)), exact, uri).astype(np.float64)
            near = _ROUNDINGS * SAME_TEXT[device.precision]
            _, sizes, directions = np.linalg.svd(named, full_matrices=False)
            basis = directions[sizes > near * sizes[0]]
            alike = self._calibration(encoder, exact, uri, named.shape[1])

            shown: list[str] = []  # the texts whose tokens were made last, for the error below

            def tokens(prompts: Sequence[str]) -> Mapping[str, Any]:
                shown[:] = prompts
                return encoder.tokens(prompts)

            def projected(batch: Mapping[str, Any]) -> Embeddings:
                texts = encoder.encode_tokens(batch).astype(np.float64)
                calibrated = texts if alike is None else texts @ alike
                left: Floats = calibrated - (calibrated @ basis.T) @ basis
                gone = np.linalg.norm(left, axis=1) <= near * np.linalg.norm(texts, axis=1)
                if gone.any():  # what is left of them is rounding, and would be an answer
                    raise ModelError(
                        "the mitigation takes texts out of which nothing is left: its prompts span them.",
                        where=f"{uri}: {_quoted([text for text, each in zip(shown, gone, strict=False) if each])}",
                        remedy="leave them out of the mitigation's prompts, or out of the suite",
                    )
                return np.asarray(left, dtype=np.float32)

            return replace(encoder, tokens=tokens, encode_tokens=projected)

        return replace(origin, load=load, images_of=origin)

    def _calibration(self, encoder: Encoder, device: Device, uri: str, width: int) -> Floats | None:
        """What texts are multiplied with before they are projected, (dim, dim), symmetric; None without pairs."""
        from fairgate.models.embeddings import embed_texts

        if not self.pairs:
            return None
        one, other = (
            embed_texts(encoder, texts, device, uri).astype(np.float64) for texts in zip(*self.pairs, strict=True)
        )
        apart = one - other
        return np.asarray(np.linalg.inv(np.eye(width) + self.strength / len(apart) * apart.T @ apart))

    def require_other(self, source: ImageSource, where: str) -> None:
        """Nothing was fitted on pictures."""


_Numbers = tuple[Annotated[float, Field(allow_inf_nan=False)], ...]
Token = Annotated[_Numbers, Field(min_length=1, max_length=MAX_SIDE)]


class PromptArray(_Fitted):
    """Learned tokens after the one that opens each text, and the releases that they were learned on."""

    method: Literal["prompt_array"] = "prompt_array"
    kept: Named
    kept_fingerprint: Named
    prompts: Annotated[tuple[Prompt, ...], Field(min_length=1, max_length=MAX_PROMPTS)]
    array: Annotated[tuple[Token, ...], Field(min_length=1, max_length=16)]
    decides = {"method", "array"}

    @property
    def note(self) -> str:
        """What a reader of the verdict should know."""
        return (
            f"the candidate is mitigated: {len(self.array)} learned token(s) open its texts, so that they tell less of "
            f"'{self.attribute}' (prompt array); by its own file it was fitted on {self.release} and {self.kept}"
        )

    def checkpoint(self, origin: Checkpoint, uri: str) -> Checkpoint:
        """The origin behind the array; its images are the origin's own."""

        def load(device: Device) -> Encoder:
            from fairgate.models.prompt_tokens import prefixed

            encoder: Encoder = origin.load(device)
            return replace(encoder, encode_tokens=prefixed(encoder, self.array, uri), text_features=None, words=None)

        return replace(origin, load=load, images_of=origin)

    def require_other(self, source: ImageSource, where: str) -> None:
        """Raises ModelError for pictures of a release that it was fitted on."""
        super().require_other(source, where)
        command = "`fairgate mitigate ... --keep ...`"
        require_unfitted(source, self.kept, self.kept_fingerprint, where, "mitigation", command)


_ROUNDINGS = 4
"""How many times the distance at which two texts are one a text of the span may be away from it."""

Mitigation = ClipClip | Projection | PromptArray
_ANY: TypeAdapter[Mitigation] = TypeAdapter(Annotated[Mitigation, Field(discriminator="method")])


@register
class Debiased(FileFamily):
    """Mitigations of two-tower models."""

    scheme: ClassVar[str] = "debiased"
    forms: ClassVar[tuple[str, ...]] = ("debiased:FILE?model=URI",)
    capabilities: ClassVar[frozenset[Capability]] = TwoTowers.capabilities

    def origin(self, address: str) -> str:
        """The URI of the model that it changes."""
        return address.partition("?model=")[2]

    def open(self, request: Request) -> TwoTowers:
        """Read the mitigation, and find its model. Raises ModelError, also where they do not belong to each other."""
        named, origin = request.address.partition("?model=")[0], self.origin(request.address)
        if not named or not origin or "?" in named:
            raise ModelError(
                "the URI names no file of a mitigation, no model that it changes, or another option.",
                where=request.uri,
                remedy="write debiased:FILE?model=URI, such as debiased:clip100.json?model=hf:runs/checkpoint",
            )
        path = resolve(named, request.base)
        mitigation = read_mitigation(path)
        mitigation.require_other(request.source, request.uri)
        model = as_two_towers(request.open_other(origin), request.uri)
        if model.fingerprint != mitigation.origin:
            raise ModelError(
                f"{path.name} was made for checkpoint {mitigation.origin[:12]}, and {origin} is "
                f"{model.fingerprint[:12]}: dimensions and directions of one are not the other's.",
                where=request.uri,
                remedy="make it again for this checkpoint: `fairgate mitigate`",
            )
        change = {"code": CODE_VERSION, **mitigation.change}
        checkpoint = replace(
            mitigation.checkpoint(model.checkpoint, request.uri),
            fingerprint=digest({"origin": model.fingerprint, "mitigation": change}),
            identity={**model.checkpoint.identity, "mitigation": change},
        )
        return type(model)(checkpoint, request, mitigation.note)


def read_mitigation(path: Path) -> Mitigation:
    """A mitigation from its file. Raises ModelError for one that is missing, too large or not what its method needs."""
    require_file(path)
    remedy = "make it again: `fairgate mitigate`"
    try:
        return _ANY.validate_json(read_bounded(path, MAX_BYTES), strict=True)
    except OSError as error:
        problem = f"the mitigation cannot be read ({error.strerror})."
        raise ModelError(problem, where=str(path), remedy=remedy) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(map(str, first["loc"])) or "the file"
        raise ModelError(
            f"it is no mitigation ({at}: {fault_words(first)}).", where=str(path), remedy=remedy
        ) from error


def _quoted(texts: Sequence[str]) -> str:
    return listed([f"'{text[:60]}'" for text in texts])
