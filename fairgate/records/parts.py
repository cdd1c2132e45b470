"""What records of all kinds are made of: numbers, and where and on what they were measured."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, field_validator, model_validator

from fairgate.ground.errors import readable


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


Number = Annotated[float | None, PlainSerializer(_finite, return_type=float | None, when_used="json")]
"""A measured number; absent (None) rather than invented. JSON has null for a non-finite one, and a `status`."""

Entropy = Annotated[float, Field(ge=0, allow_inf_nan=False)]

Status = Literal["ok", "infinite", "absent"]


def status_of(value: float | None) -> Status:
    """What became of a number: `ok`, `infinite` (an absent group has a skew of -inf), or `absent`."""
    if value is None or math.isnan(value):
        return "absent"
    return "ok" if math.isfinite(value) else "infinite"


def _readable(value: Any) -> Any:
    """Plain data with every text of it `readable`."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {_readable(key): _readable(part) for key, part in value.items()}
    return [_readable(part) for part in value] if isinstance(value, list | tuple) else value


class RecordPart(BaseModel):
    """A record or a part of one: frozen, strict about unknown keys, with text that every file can hold (`readable`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _readable(cls, given: Any) -> Any:
        return _readable(given)


def plain_notice(notice: str) -> str:
    """A dataset's notice; releases of the demonstration data, which do not change, call it by an older name."""
    return notice.replace("fairgate's embedded world", "fairgate's demonstration data")


class DatasetInfo(RecordPart):
    """The release that was scored. `fingerprint` names its content, not its files; `pictures` says whether it has any
    (None: not known, of an older record)."""

    name: str
    version: str
    fingerprint: str
    counterfactual: bool
    attributes: dict[str, list[str]]
    notice: str | None = None
    pictures: bool | None = None

    @field_validator("notice")
    @classmethod
    def _in_plain_words(cls, notice: str | None) -> str | None:
        """As `plain_notice` has it."""
        return notice and plain_notice(notice)


class ModelInfo(RecordPart):
    """A checkpoint: where it was loaded from and the hash of its bytes. `registered` is the version of a model that
    MLflow's registry holds, `NAME/3`, also where the URI names it by an alias; `preparation` is the code that prepared
    images and prompts, `open_clip/1`. `tokenizer` and `preprocessing` are digests of the files and settings that turn
    text into tokens and pictures into tensors; `logit_scale` multiplies cosines before the softmax. Each is None where
    it is not known (a table of scores, a record from before there were such fields). `frequencies`: a table of
    shares of sampled answers, which have no label temperature. `weights` counts the numbers in its safetensors files,
    adapters aside; None where it has none here. `served` is what a server reports of a model that it serves, whose
    `fingerprint` is new at each opening."""

    uri: str
    fingerprint: str
    precision: str | None = None
    registered: str | None = None
    preparation: str | None = None
    tokenizer: str | None = None
    preprocessing: str | None = None
    logit_scale: Number = None
    frequencies: bool = False
    weights: Annotated[int, Field(ge=1)] | None = None
    served: str | None = None


def same_architecture(weights: int | None, others: int | None) -> bool:
    """Whether two checkpoints may be of one architecture, by their numbers of weights: these differ by 0.5% at most, or
    one is not known. New labels or tokens change a network's size by less, another patch size by more (ViT-B/32 and
    ViT-B/16: 1.1%).

    >>> same_architecture(151_277_313, 149_620_737), same_architecture(151_277_313, 151_278_000)
    (False, True)
    """
    return weights is None or others is None or abs(weights - others) <= 0.005 * max(weights, others)


class Environment(RecordPart):
    """Where the run took place. Never part of a verdict. `git_height` counts the commits that led here, and `processor`
    is the model of the CPU (None if it is not known, or in older records).

    `plugins` are the installed packages of which a metric, probe or model was used, as `VERSION sha256:CODE`; None in
    records from before there was such a field.
    """

    fairgate: str
    python: str
    platform: str
    device: str
    processor: str | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    plugins: dict[str, str] | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None
    git_branch: str | None = None
    git_height: int | None = None
    pull_request: int | None = None
    ci_url: str | None = None
