"""Heads on features: what a file of one holds, how it is read and written, and what it makes of features. No torch.

A head is a .safetensors file with `weight` (labels, width) and `bias` (labels,). Metadata say the labels, and what it
was fitted on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from fairgate.ground.atomic import atomic
from fairgate.ground.errors import ModelError, clean
from fairgate.ground.hashing import sha256_file
from fairgate.ground.validation_words import fault_words
from fairgate.models.checkpoints import MAX_SIDE
from fairgate.models.contract import ImageSource
from fairgate.models.family import require_unfitted

Pool = Literal["cls", "cls_mean", "mean", "pooled"]
Table = NDArray[np.float32]
_LONGEST = 200
_Note = Annotated[str, AfterValidator(lambda text: clean(text, _LONGEST))]
_OF_TEXT = BeforeValidator(lambda labels: from_json(labels) if isinstance(labels, str) else labels)  # a file's metadata


class Head(BaseModel):
    """`labels` are the names of its outputs, None where its file has none; `attribute` what they are of, empty where it
    does not say; `pool` what it takes of a backbone. `release` and `fingerprint` name what it was fitted on, which is a
    claim of whoever wrote the file; `origin` is the fingerprint of the backbone, and
    `content` the digest of the file that was read."""

    model_config = ConfigDict(frozen=True)

    labels: Annotated[tuple[str, ...] | None, _OF_TEXT] = None
    attribute: _Note = ""
    pool: Pool | None = None
    release: _Note = ""
    fingerprint: _Note = ""
    origin: _Note = ""
    content: str = Field(default="", exclude=True)
    weight: Any = Field(default=None, repr=False, exclude=True)
    bias: Any = Field(default=None, repr=False, exclude=True)

    def logits(self, features: Table) -> Table:
        """(images, labels) float32."""
        return np.asarray(features @ self.weight.T + self.bias, dtype=np.float32)

    def require_other(self, source: ImageSource, where: str) -> None:
        """Raises ModelError for pictures of the release that it was fitted on: what was fitted there is no evidence."""
        if self.release:
            require_unfitted(
                source, self.release, self.fingerprint, where, "head", "`fairgate head fit ... --data ...`"
            )

    @property
    def note(self) -> str | None:
        """What a reader of the verdict should know."""
        if not self.release:
            return None
        return f"the candidate is a backbone with a head that, by its own file, was fitted on {self.release}"


def read_head(path: Path) -> Head:
    """A head from a file that `require_weights` has accepted. Raises ModelError for one that is none."""
    from safetensors import safe_open
    from safetensors.numpy import load_file

    if path.suffix != ".safetensors":
        raise ModelError("a head is a .safetensors file.", where=str(path), remedy="save `weight` and `bias` as one")
    with safe_open(path, framework="np") as handle:
        metadata = dict(handle.metadata() or {})
    content = sha256_file(path)
    weight, bias = _layer(load_file(path), path)
    try:
        return Head.model_validate({**metadata, "content": content, "weight": weight, "bias": bias})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _no_head(path, f"its `{first['loc'][0]}` is {first['input']!r:.60}: {fault_words(first)}") from error


def write_head(path: Path, head: Head) -> None:
    """Write a head, atomically."""
    from safetensors.numpy import save

    told = {name: value for name, value in head.model_dump(exclude_none=True).items() if value}
    metadata = {name: value if isinstance(value, str) else json.dumps(value) for name, value in told.items()}
    tensors = {"weight": np.ascontiguousarray(head.weight), "bias": np.ascontiguousarray(head.bias)}
    with atomic(path) as draft:
        draft.write_bytes(save(tensors, metadata=metadata))


def _layer(held: Mapping[str, NDArray[Any]], path: Path) -> tuple[Table, Table]:
    """The weight and the bias, whose names end so (`fc.weight`)."""
    ends = {name.rpartition(".")[2]: np.asarray(value, dtype=np.float32) for name, value in held.items()}
    if set(ends) not in ({"weight"}, {"weight", "bias"}) or len(ends) < len(held) or ends["weight"].ndim != 2:
        raise _no_head(path, f"it holds {', '.join(sorted(held)[:4]) or 'nothing'}")
    weight = ends["weight"]
    bias = ends.get("bias", np.zeros(len(weight), dtype=np.float32))
    if bias.shape != weight.shape[:1] or not 1 <= weight.shape[1] <= 8 * MAX_SIDE:
        raise _no_head(path, "`bias` has not a number for each row of `weight`, or these have no usual length")
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise _no_head(path, "it holds NaN or infinite numbers")
    return weight, bias


def _no_head(path: Path, why: str) -> ModelError:
    return ModelError(
        f"the file is no head: {why}.",
        where=str(path),
        remedy="write it with `fairgate head fit`, or as .safetensors with `weight`, `bias` and, in its metadata, "
        "`labels` as a JSON list; of another kind, judge a table of its answers, labels:FILE",
    )
