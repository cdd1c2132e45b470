"""`labels:FILE`: labels that somebody's model gave before, a row per image and a column per attribute. No torch.

A CSV or Parquet table; rows are matched as those of a table of scores. An empty cell is an image without a label. A
column `ATTRIBUTE_confidence`, from 0 to 1, says how sure the model was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from fairgate.ground.errors import ScoresError
from fairgate.ground.hashing import digest, sha256_file
from fairgate.models.checkpoints import require_file, resolve, split_options
from fairgate.models.contract import PRECOMPUTED, Capability, Predicted, Request, register
from fairgate.models.score_table import ScoreTable, read_table

CONFIDENCE = "_confidence"


@register
class LabelTables:
    """Tables of labels that somebody's model gave before."""

    scheme: ClassVar[str] = "labels"
    forms: ClassVar[tuple[str, ...]] = ("labels:FILE",)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"predict"})

    def local_path(self, address: str) -> Path | None:
        """The table."""
        return Path(address.partition("?")[0])

    def open(self, request: Request) -> PrecomputedLabels:
        """Open a table. Raises ScoresError: unreadable, images missing, doubled or foreign."""
        address, _ = split_options(request.uri, request.address, (), ScoresError)
        path = resolve(address, request.base)
        require_file(path, ScoresError)
        fingerprint = digest({"file": sha256_file(path)})
        return PrecomputedLabels(request.uri, fingerprint, read_table(path, request.source.index))


@dataclass(frozen=True)
class PrecomputedLabels:
    """A model that only looks up. Its attributes are the table's columns."""

    capabilities: ClassVar[frozenset[Capability]] = LabelTables.capabilities

    uri: str
    fingerprint: str
    table: ScoreTable = field(repr=False)
    precision: str = PRECOMPUTED
    preparation: str = "labels/1"
    tokenizer: str | None = None
    preprocessing: str | None = None
    device: str = "none"

    def predict(self, attribute: str) -> Predicted:
        """The attribute's column, and its confidence where the table has it. Raises ScoresError."""
        sure = f"{attribute}{CONFIDENCE}"
        confidence = self.table.column(sure, (0.0, 1.0)) if sure in self.table.prompts else None
        return Predicted(np.asarray(self.table.labels(attribute), dtype=object), confidence)
