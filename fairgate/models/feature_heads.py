"""Heads on features: what a file of one holds, how it is read and written, and what it makes of features. No torch.

A head is a .safetensors file. A linear one has `weight` (labels, width) and `bias` (labels,); one of nearest neighbours
has `features` (rows, width), of unit length, and `codes` (rows,). Metadata say the labels, and what it was fitted on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from fairgate.ground.atomic import atomic
from fairgate.ground.errors import ModelError, clean
from fairgate.ground.validation_words import fault_words
from fairgate.models.checkpoints import MAX_SIDE
from fairgate.models.contract import ImageSource
from fairgate.models.family import require_unfitted

Kind = Literal["linear", "knn"]
Pool = Literal["cls", "cls_mean", "mean", "pooled"]
Table = NDArray[np.float32]
NEIGHBOURS, TEMPERATURE = 20, 0.07
"""Of the weighted neighbours' vote, as DINO evaluates (Caron et al. 2021)."""
_LEAST = 1e-6  # probability of a label that no neighbour has
_MOST_ROWS = 5_000_000
_LONGEST = 200


_Note = Annotated[str, AfterValidator(lambda text: clean(text, _LONGEST))]


class Head(BaseModel):
    """`labels` are the names of its outputs, None where its file has none; `attribute` what they are of, empty where it
    does not say; `pool` what it takes of a backbone. `release` and `fingerprint` name what it was fitted on, which is a
    claim of whoever wrote the file; `origin` is the fingerprint of the backbone."""

    model_config = ConfigDict(frozen=True)

    labels: tuple[str, ...] | None = None
    attribute: _Note = ""
    pool: Pool | None = None
    release: _Note = ""
    fingerprint: _Note = ""
    origin: _Note = ""
    neighbours: Annotated[int, Field(ge=1, le=10_000)] = NEIGHBOURS
    tensors: Mapping[str, Any] = Field(default_factory=dict, repr=False, exclude=True)

    @field_validator("labels", mode="before")
    @classmethod
    def _of_json(cls, labels: object) -> object:
        """A file's metadata are texts."""
        return json.loads(labels) if isinstance(labels, str) else labels

    @property
    def width(self) -> int:
        """Numbers of a feature."""
        return int(self.tensors["weight" if "weight" in self.tensors else "features"].shape[1])

    @property
    def outputs(self) -> int:
        """Number of labels."""
        if "weight" in self.tensors:
            return int(self.tensors["weight"].shape[0])
        return int(self.tensors["codes"].max()) + 1 if self.labels is None else len(self.labels)

    def logits(self, features: Table) -> Table:
        """(images, outputs) float32. Of neighbours, the logarithms of their weighted shares of votes."""
        if "weight" in self.tensors:
            return np.asarray(features @ self.tensors["weight"].T + self.tensors["bias"], dtype=np.float32)
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        cosines = (features / np.maximum(lengths, np.finfo(np.float32).tiny)) @ self.tensors["features"].T
        near = np.argsort(-cosines, axis=1, kind="stable")[:, : self.neighbours]
        weight = np.exp((np.take_along_axis(cosines, near, axis=1) - 1.0) / TEMPERATURE, dtype=np.float64)
        votes = np.zeros((len(features), self.outputs))
        np.add.at(votes, (np.arange(len(features))[:, None], self.tensors["codes"][near]), weight)
        shares = votes / votes.sum(axis=1, keepdims=True)
        return np.asarray(np.log(np.maximum(shares, _LEAST)), dtype=np.float32)

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
        said = dict(handle.metadata() or {})
    tensors = _tensors(load_file(path), path)
    try:
        found = Head.model_validate({**said, "tensors": tensors})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _no_head(path, f"its `{first['loc'][0]}` is {first['input']!r:.60}: {fault_words(first)}") from error
    if found.labels is not None and "weight" in tensors and len(found.labels) != found.outputs:
        raise _no_head(path, f"it names {len(found.labels)} labels for {found.outputs} outputs")
    if "codes" in tensors and int(tensors["codes"].max()) >= found.outputs:
        raise _no_head(path, "a picture in it has a label that it does not name")
    return found


def write_head(path: Path, head: Head) -> None:
    """Write a head, atomically."""
    from safetensors.numpy import save

    told = {name: value for name, value in head.model_dump(exclude_none=True).items() if value}
    metadata = {name: value if isinstance(value, str) else json.dumps(value) for name, value in told.items()}
    tensors = {name: np.ascontiguousarray(value) for name, value in head.tensors.items()}
    with atomic(path) as draft:
        draft.write_bytes(save(tensors, metadata=metadata))


def _tensors(held: Mapping[str, NDArray[Any]], path: Path) -> dict[str, NDArray[Any]]:
    """Of a head whose names end so (`fc.weight`), the weight and the bias; else features and codes."""
    if set(held) == {"features", "codes"}:
        features, codes = held["features"], held["codes"]
        rows = features.shape[0] if features.ndim == 2 else 0
        if not 1 <= rows <= _MOST_ROWS or codes.shape != (rows,) or codes.dtype != np.int64 or codes.min() < 0:
            raise _no_head(path, "`features` are (rows, width) and `codes` (rows,) int64, 0 or more")
        found: dict[str, NDArray[Any]] = {"features": _numbers(features, path), "codes": codes}
    else:
        ends = {name.rpartition(".")[2]: value for name, value in held.items()}
        if set(ends) not in ({"weight"}, {"weight", "bias"}) or len(ends) < len(held) or ends["weight"].ndim != 2:
            raise _no_head(path, f"it holds {', '.join(sorted(held)[:4]) or 'nothing'}")
        bias = ends.get("bias", np.zeros(ends["weight"].shape[0]))
        if bias.shape != ends["weight"].shape[:1]:
            raise _no_head(path, "`bias` has not a number for each row of `weight`")
        found = {"weight": _numbers(ends["weight"], path), "bias": _numbers(bias, path)}
    if not 1 <= found[next(iter(found))].shape[1] <= 8 * MAX_SIDE:
        raise _no_head(path, "its features are too wide")
    return found


def _numbers(values: NDArray[Any], path: Path) -> Table:
    numbers = np.asarray(values, dtype=np.float32)
    if not np.isfinite(numbers).all():
        raise _no_head(path, "it holds NaN or infinite numbers")
    return numbers


def _no_head(path: Path, why: str) -> ModelError:
    return ModelError(
        f"the file is no head: {why}.",
        where=str(path),
        remedy="write it with `fairgate head fit`, or as .safetensors with `weight`, `bias` and, in its metadata, "
        "`labels` as a JSON list",
    )
