"""Groups from recorded values: numbers into bins, values merged under one name, and which groups are large enough.

>>> ages = ColumnGrouping(bins={"age": Bins.parse("0-19,20-39,40-")})
>>> ages.group_of("age", "34")
'20-39'
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, product
from typing import NamedTuple

from fairgate.data.dataset import Index
from fairgate.data.defaults import MIN_SETS
from fairgate.data.labels import natural
from fairgate.data.manifest import CROSS
from fairgate.data.rows import crossings
from fairgate.ground.errors import DatasetError, listed, suggestion

_ALL = ""
"""All subjects together: none has an empty name."""
_NUMBER = r"-?\d+(?:\.\d+)?"
_BOUNDED = re.compile(rf"(>?)({_NUMBER})-(?:(<?)({_NUMBER}))?")
_BELOW = re.compile(rf"<(=?)({_NUMBER})")
_ABOVE = re.compile(rf"(?:>(=?)({_NUMBER})|({_NUMBER})\+)")


class Bin(NamedTuple):
    """Numbers from `low` to `high`, which belong to it where `closed` (low, high) says so; `name` is the group."""

    name: str
    low: float
    high: float
    closed: tuple[bool, bool]

    def holds(self, value: float) -> bool:
        """Whether a number is in the bin."""
        return (self.low < value or (self.closed[0] and value == self.low)) and (
            value < self.high or (self.closed[1] and value == self.high)
        )


@dataclass(frozen=True)
class Bins:
    """Bins of numbers in ascending order, and words that stay as they are (`unknown`), as they were written.

    `20-39` holds both of its bounds, so that whole years need no other sign. `>20-40` leaves 20 out, `20-<40` leaves 40
    out; `60-`, `60+`, `>=60` and `>60` have no upper bound, `<20` and `<=20` no lower one. A number between two bins
    (19.5 with `0-19,20-39`) is in none of them, and an error.
    """

    written: tuple[str, ...]

    @staticmethod
    def parse(text: str | Sequence[str]) -> Bins:
        """Bins of `0-19,20-39,40-`, or of their list. Raises DatasetError where they overlap or go down."""
        pieces = text.split(",") if isinstance(text, str) else text
        bins = Bins(tuple(piece.strip() for piece in pieces))
        bins._require_ascending()
        return bins

    @cached_property
    def _bins(self) -> list[Bin]:
        return [bin for bin in map(_bin, self.written) if bin is not None]

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(name for name in self.written if _bin(name) is None)

    def group_of(self, text: str) -> str:
        """The bin of a number. Raises DatasetError for what is no number, and for one that is in no bin."""
        if text in self._words:
            return text
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        for bin in self._bins:
            if bin.holds(value):
                return bin.name
        what = f"{text!r} is no number" if not math.isfinite(value) else f"{text} is in no bin"
        raise DatasetError(
            f"{what}, and the bins are {', '.join(self.written)}.",
            remedy="write decimals with a point"
            if re.fullmatch(r"-?\d+,\d+", text)
            else "give a bin for every number, and other values as a further bin (`--bin age=0-19,20-,unknown`); of a "
            "column of groups (`20-29`), put some together with --merge",
        )

    def _require_ascending(self) -> None:
        names, written = self.written, ", ".join(self.written)
        if not self._bins or not all(names) or len(set(names)) < len(names):
            raise DatasetError(
                f"'{written}' are no different bins.",
                remedy="give them as `0-19,20-39,40-59,60-`, both bounds included",
            )
        for bin in self._bins:
            if bin.low > bin.high or (bin.low == bin.high and not all(bin.closed)):
                raise DatasetError(f"bin '{bin.name}' holds no number.", remedy="give the lower bound first")
        for lower, following in zip(self._bins, self._bins[1:], strict=False):
            if lower.high > following.low or (lower.high == following.low and lower.closed[1] and following.closed[0]):
                raise DatasetError(
                    f"bins '{lower.name}' and '{following.name}' overlap, or are not in ascending order.",
                    remedy="both bounds belong to a bin: write `0-<10,10-<20`, or `0-10,>10-20`, where they meet",
                )


def _bin(name: str) -> Bin | None:
    """The bin of a name, or None for a word."""
    if match := _BOUNDED.fullmatch(name):
        low_out, low, high_out, high = match.groups()
        return Bin(name, float(low), float(high or math.inf), (not low_out, not high_out))
    if match := _BELOW.fullmatch(name):
        return Bin(name, -math.inf, float(match[2]), (True, bool(match[1])))
    if match := _ABOVE.fullmatch(name):
        return Bin(name, float(match[2] or match[3]), math.inf, (bool(match[1] or match[3]), True))
    return None


@dataclass(frozen=True)
class ColumnGrouping:
    """How the values of columns become groups: first into `bins`, by column, then `merge`: old name to new one."""

    bins: Mapping[str, Bins] = field(default_factory=dict)
    merge: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @staticmethod
    def parse(bins: Sequence[str], merge: Sequence[str]) -> ColumnGrouping:
        """Of options: `age=0-19,20-` each of the bins, `race=Latino_Hispanic,Middle Eastern=other` each of the merged.

        Raises DatasetError for what cannot be read so, and for a value that is merged twice.
        """
        binned, merged = dict[str, Bins](), dict[str, dict[str, str]]()
        for option in bins:
            column, equals, written = option.partition("=")
            if not column or not equals or column in binned:
                raise _misread("--bin", option, "write it once a column, as `age=0-19,20-39,40-59,60-`")
            binned[column] = Bins.parse(written)
        for option in merge:
            column, equals, pair = option.partition("=")
            names, to, new = pair.rpartition("=")
            known = merged.setdefault(column, {})
            for name in (each.strip() for each in names.split(",")):
                if not all((column, equals, to, name, new.strip())) or name in known:
                    raise _misread(
                        "--merge", option, "name each value once: `race=Latino_Hispanic,Middle Eastern=other`"
                    )
                known[name] = new.strip()
        return ColumnGrouping(binned, merged)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values change."""
        return tuple(dict.fromkeys([*self.bins, *self.merge]))

    def group_of(self, column: str, text: str) -> str:
        """The group of a recorded value. Raises DatasetError for one that is in no bin."""
        binned = self.bins[column].group_of(text) if column in self.bins else text
        return self.merge.get(column, {}).get(binned, binned)

    def groups(self, column: str, recorded: Iterable[str]) -> list[str]:
        """The groups of a column that holds these values: bins in their order, others in natural order.

        Raises DatasetError where a merged name is none of the values.
        """
        seen = set(recorded)
        bins = self.bins.get(column)
        binned = {bins.group_of(text) for text in seen} if bins else seen
        merged = self.merge.get(column, {})
        if absent := [name for name in merged if name not in binned]:
            raise DatasetError(
                f"column '{column}' has no value '{absent[0]}' to merge.",
                remedy=suggestion(absent[0], binned, f"its values: {listed(sorted(binned, key=natural), 20)}"),
            )
        ordered = [name for name in bins.written if name in binned] if bins else sorted(binned, key=natural)
        names = list(dict.fromkeys(merged.get(name, name) for name in ordered))
        return names if bins else sorted(names, key=natural)

    def recorded(self) -> dict[str, object]:
        """What a manifest's recipe says of it; empty where nothing was grouped."""
        facts: dict[str, object] = {"bins": {column: list(bins.written) for column, bins in self.bins.items()}}
        facts["merged"] = {column: dict(names) for column, names in self.merge.items()}
        return {name: value for name, value in facts.items() if value}


def _misread(option: str, given: str, remedy: str) -> DatasetError:
    return DatasetError(f"'{given}' cannot be read.", where=option, remedy=remedy)


class GroupSize(NamedTuple):
    """How many sets a group, or a crossing of groups, is in. `fewest` is the least of any subject, with its name."""

    over: str
    group: str
    sets: int
    subject: str
    fewest: int

    def judged(self, min_sets: int = MIN_SETS) -> bool:
        """Whether a suite with this `min_sets` would compare the group, over all subjects together."""
        return self.sets >= min_sets


def group_sizes(index: Index) -> list[GroupSize]:
    """The number of sets of every group, of every pair of attributes crossed, and of all attributes crossed.

    A set counts once in each group that one of its members is in. Combinations without a set are there, with 0.
    """
    over = [(attribute,) for attribute in index.groups] + crossings(list(index.groups))
    counted: dict[tuple[str, ...], Counter[tuple[str, tuple[str, ...]]]] = {names: Counter() for names in over}
    columns = [column.tolist() for column in (index.set_id, index.subject, *index.attributes.values())]
    places = {attribute: place for place, attribute in enumerate(index.attributes)}
    for _, members in groupby(zip(*columns, strict=True), key=lambda row: row[0]):
        cells = [(row[1], row[2:]) for row in members]
        for names, counts in counted.items():
            at = [places[name] for name in names]
            shown = {(subject, tuple(cell[place] for place in at)) for subject, cell in cells}
            counts.update(shown | {(_ALL, groups) for _, groups in shown})
    subjects = sorted(set(columns[1]))
    sizes = []
    for names, counts in counted.items():
        for cell in product(*(index.groups[name] for name in names)):
            fewest, subject = min((counts[code, cell], code) for code in subjects)
            sizes.append(GroupSize(CROSS.join(names), CROSS.join(cell), counts[_ALL, cell], subject, fewest))
    return sizes
