"""The yields of a build: how much of what was started is in the dataset, per subject, part and group (`yield.json`)."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

YIELD_FILE: Final = "yield.json"
DROPS_FILE: Final = "drops.csv"
"""Dropped sets by member and group: a row has `DROP_COLUMNS`."""
DROP_COLUMNS: Final = ("subject", "part", "attribute", "group", "reason", "count")


class _Yield(BaseModel):
    """Counts are checked when a file is read; keys of later versions are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class GroupYield(_Yield):
    """Members of a group: those made, and those that failed where a set was dropped.

    Where members are made one after the other until one fails, later groups are tried less often: shares compare.
    """

    tried: int = Field(ge=0)
    failed: int = Field(ge=0)
    passed_share: float = 0.0


class PartYield(_Yield):
    """Starting sets of a part, those kept, and drops by reason; `groups` is attribute -> group -> members."""

    started: int = Field(ge=0)
    kept: int = Field(ge=0)
    kept_share: float = 0.0
    dropped: dict[str, int]
    groups: dict[str, dict[str, GroupYield]] = {}


class SubjectYield(_Yield):
    """What one subject adds to the dataset. `balance` is images of the smallest group over those of the largest;
    `per_image` counts models' evaluations per image of the dataset, dropped ones included."""

    sets: int = Field(ge=0)
    images: int = Field(ge=0)
    exact_duplicates: int = 0
    balance: dict[str, float] = {}
    parts: dict[str, PartYield]
    per_image: dict[str, float] = {}


class BuildYield(_Yield):
    """The same of a whole build."""

    sets: int = 0
    images: int
    per_image: dict[str, float] = {}
    balance: dict[str, float] = {}
    exact_duplicates: int = 0
    subjects: dict[str, SubjectYield]
