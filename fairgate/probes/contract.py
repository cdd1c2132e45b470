"""What a probe is: how a model is queried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class DatasetFacts(Protocol):
    """What planning needs to know of a dataset; its manifest has it."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def attributes(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def subjects(self) -> Sequence[str]: ...
    @property
    def counterfactual(self) -> bool: ...
    @property
    def n_sets(self) -> int: ...
    @property
    def n_rows(self) -> int: ...
