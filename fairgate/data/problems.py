"""What can be wrong with a dataset, in words: kind, sentence, place, remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "missing_shard",
    "extra_shard",
    "changed_shard",
    "unreadable_shard",
    "unreadable_image",
    "undeclared_group",
    "look_alikes",
    "bad_value",
    "split_set",
    "incomplete_set",
    "doubled_member",
    "member_order",
    "wrong_counts",
    "wrong_fingerprint",
    "doubled_image",
]
PULL = "run `fairgate dataset pull --force datasets.dvc`"
REBUILD = "build the dataset again and release it as a new version"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: its kind, a sentence, the place (shard, set, row), and what to do."""

    kind: Kind
    what: str
    where: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}\n  where:  {self.where}\n  remedy: {self.remedy}"
