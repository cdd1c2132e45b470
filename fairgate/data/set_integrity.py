"""What can be wrong with a dataset's sets, in words (kind, sentence, place, remedy), found row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fairgate.data.manifest import Manifest

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


class SetLedger:
    """Which members of which sets went by. Remembers whole sets by id, and members only of those that are not."""

    def __init__(self, manifest: Manifest) -> None:
        self._expected = tuple(manifest.members) if manifest.members is not None else None
        self._whole: dict[str, str] = {}
        self._odd: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        self._current: tuple[str, str] | None = None
        self._members: list[str] = []
        self.split = False

    def __len__(self) -> int:
        self._close()
        return len(self._whole) + len(self._odd)

    def add(self, shard: str, set_id: str, member: str) -> None:
        """Note one row, in stored order."""
        if self._current != (shard, set_id):
            self._close()
            self._current = (shard, set_id)
        self._members.append(member)

    def _close(self) -> None:
        if self._current is None:
            return
        (shard, set_id), members = self._current, tuple(self._members)
        self._current, self._members = None, []
        good = members == self._expected if self._expected is not None else len(set(members)) == len(members)
        if set_id in self._whole:
            self._odd[set_id] = [(self._whole.pop(set_id), self._expected or ())]
        if set_id in self._odd:
            self.split = True
            self._odd[set_id].append((shard, members))
        elif good:
            self._whole[set_id] = shard
        else:
            self._odd[set_id] = [(shard, members)]

    def problems(self) -> Iterator[Problem]:
        """What is wrong with sets, once all rows have gone by."""
        self._close()
        for set_id, pieces in self._odd.items():
            shards = list(dict.fromkeys(shard for shard, _ in pieces))
            members = [member for _, piece in pieces for member in piece]
            where = f"{', '.join(shards)}, set '{set_id}'"
            if len(pieces) > 1:
                places = f"over the shards {', '.join(shards)}" if len(shards) > 1 else "within its shard"
                what = f"set '{set_id}' is split {places}."
                yield Problem("split_set", what, where, REBUILD)
            yield from self._wrong_members(set_id, members, where)

    def _wrong_members(self, set_id: str, members: list[str], where: str) -> Iterator[Problem]:
        expected = self._expected if self._expected is not None else tuple(dict.fromkeys(members))
        if missing := [member for member in expected if member not in members]:
            what = f"set '{set_id}' is incomplete: member {_quoted(missing)} is missing."
            yield Problem("incomplete_set", what, where, f"{PULL}, or {REBUILD}")
        if foreign := [member for member in dict.fromkeys(members) if member not in expected]:
            what = f"set '{set_id}' has member {_quoted(foreign)}, which other sets do not have."
            yield Problem("incomplete_set", what, where, REBUILD)
        if doubled := [member for member, count in Counter(members).items() if count > 1]:
            what = f"set '{set_id}' has member {_quoted(doubled)} more than once."
            yield Problem("doubled_member", what, where, REBUILD)
        elif not missing and not foreign and members != list(expected):
            what = f"set '{set_id}' has its members in the order {_quoted(members)}, not {_quoted(expected)}."
            yield Problem("member_order", what, where, REBUILD)


def _quoted(members: Sequence[str]) -> str:
    return ", ".join(f"'{member}'" for member in members)
