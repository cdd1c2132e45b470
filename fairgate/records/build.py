"""How much of what a build started came out: `yield.json`, written by the build, read by the dataset card."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, Field

YIELD_FILE: Final = "yield.json"
PLOT_FILE: Final = "yield.csv"
DROPS_FILE: Final = "drops.csv"

_Count = Annotated[int, Field(ge=0)]


class GroupYield(BaseModel):
    """Members of one group: those made, those that failed where a set was dropped, and the share that passed."""

    tried: _Count
    failed: _Count
    passed_share: float | None = None


class PartYield(BaseModel):
    """Counts of one part of a recipe: sets started, kept, and dropped by reason; members by attribute and group."""

    started: _Count
    kept: _Count
    kept_share: float | None = None
    dropped: dict[str, int]
    groups: dict[str, dict[str, GroupYield]] = {}


class SubjectYield(BaseModel):
    """One subject of the build. `balance` by attribute: images of the smallest group over those of the largest."""

    sets: _Count
    images: _Count
    exact_duplicates: int | None = None
    balance: dict[str, float] = {}
    parts: dict[str, PartYield]
    per_image: dict[str, float] = {}


class BuildYield(BaseModel):
    """A whole build. `per_image` are evaluations of models per finished image, all dropped ones paid for."""

    sets: int | None = None
    images: int
    per_image: dict[str, float] = {}
    balance: dict[str, float] = {}
    exact_duplicates: int | None = None
    subjects: dict[str, SubjectYield]
