"""What a row is: the columns of every dataset, the rules that names and rows obey, and counts per subject and group."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Final

from fairgate.data.manifest import CROSS, HARMFUL, Counts
from fairgate.ground.errors import DatasetError, did_you_mean, first_harmful


def crossings(attributes: Sequence[str]) -> list[tuple[str, ...]]:
    """The intersections that a manifest counts: every pair of attributes, and all of them together."""
    crossed: list[tuple[str, ...]] = list(combinations(attributes, 2))
    return crossed if len(attributes) < 3 else [*crossed, tuple(attributes)]


class Tally:
    """Counts rows as they pass; `counts()` is the manifest's summary of them."""

    def __init__(self, attributes: Mapping[str, Sequence[str]]) -> None:
        self._attributes = attributes
        self._columns = ("subject", *attributes)
        self._cells: Counter[tuple[str, ...]] = Counter()

    def add(self, row: Mapping[str, object]) -> None:
        """Count one row by its subject and groups."""
        self._cells[tuple(str(row[column]) for column in self._columns)] += 1

    def counts(self) -> Counts:
        """Everything counted so far, in declared order."""
        declared = self._attributes.items()
        of_subject = self._by("subject")
        of_group = {name: self._by(name) for name in self._attributes}
        of_both = {name: self._by("subject", name) for name in self._attributes}
        subjects = sorted(subject for (subject,) in of_subject)
        return Counts(
            subjects={subject: of_subject[subject,] for subject in subjects},
            groups={name: {group: of_group[name][group,] for group in groups} for name, groups in declared},
            subject_groups={
                subject: {name: {group: of_both[name][subject, group] for group in groups} for name, groups in declared}
                for subject in subjects
            },
            intersections={
                CROSS.join(crossed): self._crossed(crossed) for crossed in crossings(list(self._attributes))
            },
        )

    def _by(self, *columns: str) -> Counter[tuple[str, ...]]:
        """Rows by their values of some columns."""
        places = [self._columns.index(column) for column in columns]
        counted: Counter[tuple[str, ...]] = Counter()
        for cell, count in self._cells.items():
            counted[tuple(cell[place] for place in places)] += count
        return counted

    def _crossed(self, attributes: tuple[str, ...]) -> dict[str, int]:
        counted = self._by(*attributes)
        ranks = [{group: rank for rank, group in enumerate(self._attributes[attribute])} for attribute in attributes]
        in_order = sorted(
            counted, key=lambda cell: [of.get(group, len(of)) for of, group in zip(ranks, cell, strict=True)]
        )
        return {CROSS.join(groups): counted[groups] for groups in in_order}


TEXT_COLUMNS = ("set_id", "member", "subject", "caption", "path")
OWN_COLUMNS = ("image", *TEXT_COLUMNS)
"""Columns that fairgate gives a meaning to; attributes and extra columns have other names."""
MEMBER: Final = "only"
"""The member of a set that is one photograph."""

Row = dict[str, object]
_LATIN: Final = str.maketrans(
    "аеорсухіјѕһԁԛԝАВЕКМНОРСТУХІЈЅαορνιΑΒΕΖΗΙΚΜΝΟΡΤΥΧɑɡıո",
    "aeopcyxijshdqwABEKMHOPCTYXIJSaopviABEZHIKMNOPTYXagin",
)
"""Cyrillic, Greek and other letters that are drawn as Latin ones, of Unicode's confusables (UTS 39)."""


def skeleton(name: str) -> str:
    """A name as a reader sees it: equal for names that look alike.

    >>> skeleton("d\\u0430rk\\u200b ") == skeleton("dark")
    True
    """
    plain = unicodedata.normalize("NFKC", name)
    seen = "".join(letter for letter in plain if unicodedata.category(letter) != "Cf")
    return " ".join(seen.translate(_LATIN).split())


def look_alikes(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two different names of a list that look alike, or None."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(skeleton(name), name)) != name:
            return other, name
    return None


def difference(one: str, other: str) -> str:
    """Where two names that look alike differ first, in code points.

    >>> difference("dark", "d\\u0430rk")
    "letter 2 is U+0061 LATIN SMALL LETTER A in one and U+0430 CYRILLIC SMALL LETTER A in the other"
    """
    place = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    first, second = (_named(name[place : place + 1]) for name in (one, other))
    return f"letter {place + 1} is {first} in one and {second} in the other"


def require_distinct(names: Iterable[str], what: str, where: str) -> None:
    """Raise DatasetError where two of the names look alike; `what` says what they are, `groups of 'race'`."""
    if (pair := look_alikes(names)) is not None:
        raise DatasetError(
            f"two {what} look alike, '{pair[0]}' and '{pair[1]}': {difference(*pair)}.",
            where=where,
            remedy="give them names that look different",
        )


def _named(letter: str) -> str:
    return f"U+{ord(letter):04X} {unicodedata.name(letter, 'without a name')}" if letter else "the end"


def check_attributes(attributes: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The attributes as a plain dict. Raises DatasetError for a name or group that could be confused with another."""
    for attribute, groups in attributes.items():
        where = f"attribute '{attribute}'"
        _refuse(_attribute_faults(attribute, groups), where)
        require_distinct(groups, f"groups of '{attribute}'", where)
    require_distinct(attributes, "attributes", "the attributes")
    return {attribute: list(groups) for attribute, groups in attributes.items()}


Faults = Iterator[tuple[str, str]]
"""Rules that something breaks, each as a problem and its remedy; later rules hold only where earlier ones do."""


def _refuse(faults: Faults, where: str) -> None:
    """Raise DatasetError for the first fault, if there is one."""
    for problem, remedy in faults:
        raise DatasetError(problem, where=where, remedy=remedy)


def _attribute_faults(attribute: str, groups: Sequence[str]) -> Faults:
    if not attribute or attribute in OWN_COLUMNS:
        remedy = f"choose another name; fairgate's own columns are {', '.join(OWN_COLUMNS)}"
        yield f"an attribute cannot be called '{attribute}'.", remedy
    if isinstance(groups, str) or not groups or len(set(groups)) != len(groups):
        remedy = "declare every group once, in the order in which reports should show them"
        yield f"attribute '{attribute}' needs a list of different groups, and got {groups!r}.", remedy
    if (harmful := first_harmful([attribute, *map(str, groups)])) is not None:
        yield f"{HARMFUL.format(harmful)}.", "give the attribute or group a plain name"
    if odd := [group for group in groups if not group or CROSS in group]:
        remedy = f"groups are non-empty text without '{CROSS}', which joins the groups of an intersection"
        yield f"attribute '{attribute}' has a group called {odd[0]!r}.", remedy


@dataclass
class SetReader:
    """Cuts a stream of rows into whole, checked sets; holds one set and the ids of those that went by.

    In a counterfactual dataset every set has the members of the first one, and is put into their order, so that
    stored rows reshape to (sets, members).
    """

    attributes: Mapping[str, Sequence[str]]
    counterfactual: bool
    columns: tuple[str, ...] | None = None
    members: tuple[str, ...] | None = None
    has_images: bool | None = None

    def sets(self, rows: Iterable[Mapping[str, object]]) -> Iterator[list[Row]]:
        """Each set as soon as its last row has passed. Raises DatasetError at the first row that breaks a rule."""
        seen = set[str]()
        for set_id, members in groupby(map(self._checked, rows), key=lambda row: str(row["set_id"])):
            if set_id in seen:
                raise DatasetError(
                    f"rows of set '{set_id}' are not consecutive.",
                    where=f"set '{set_id}'",
                    remedy="give all members of a set one after another; all of them go into one shard",
                )
            seen.add(set_id)
            yield self._whole(list(members))

    def _checked(self, given: Mapping[str, object]) -> Row:
        row: Row = {"image": None, "caption": "", "path": None, **given}
        _refuse(self._row_faults(row), f"set '{row.get('set_id')}', member '{row.get('member')}'")
        return {column: row[column] for column in self.columns or ()}

    def _row_faults(self, row: Row) -> Faults:
        named = ("set_id", "member", "subject")
        for column in named:
            if not isinstance(row.get(column), str) or not row[column]:
                remedy = "every row names its set, its member and its subject"
                yield f"column '{column}' needs text, and got {row.get(column)!r}.", remedy
        if (odd := first_harmful([str(row[column]) for column in named])) is not None:
            yield f"{HARMFUL.format(odd)}.", "give the set, member or subject a plain name"
        for column in ("caption", "path"):
            if not isinstance(row[column], str | None):
                yield f"column '{column}' needs text, and got {row[column]!r}.", "give text or None"
        yield from self._group_faults(row)
        if self.columns is None:
            extras = [column for column in row if column not in OWN_COLUMNS and column not in self.attributes]
            self.columns = (*OWN_COLUMNS, *self.attributes, *extras)
        if differing := sorted(set(row).symmetric_difference(self.columns)):
            remedy = "give every row the same columns, with None where nothing was measured"
            yield f"column '{differing[0]}' is not in every row.", remedy
        image = row["image"]
        if not isinstance(image, bytes | None):
            remedy = "give the bytes of a PNG or JPEG file, or None"
            yield f"column 'image' needs the bytes of an encoded image, and got {type(image).__name__}.", remedy
        if self.has_images is None:
            self.has_images = image is not None
        if self.has_images != (image is not None):
            remedy = "give an image in every row, or in none (labels only)"
            yield "some rows have an image and some have none.", remedy

    def _group_faults(self, row: Row) -> Faults:
        for attribute, groups in self.attributes.items():
            if attribute not in row:
                remedy = did_you_mean(attribute, row) or f"give one of: {', '.join(groups)}"
                yield f"the row has no column '{attribute}', which is a declared attribute.", remedy
            if row[attribute] not in groups:
                remedy = f"declared groups: {', '.join(groups)}"
                yield f"{row[attribute]!r} is not a declared group of '{attribute}'.", remedy

    def _whole(self, rows: list[Row]) -> list[Row]:
        _refuse(self._set_faults(rows), f"set '{rows[0]['set_id']}'")
        if self.members is None:
            return rows
        order = {member: place for place, member in enumerate(self.members)}
        return sorted(rows, key=lambda row: order[str(row["member"])])

    def _set_faults(self, rows: list[Row]) -> Faults:
        set_id = rows[0]["set_id"]
        members = [str(row["member"]) for row in rows]
        if doubled := [member for member in members if members.count(member) > 1]:
            yield f"set '{set_id}' has member '{doubled[0]}' twice.", "give each member of a set its own name"
        if self.counterfactual and len({row["subject"] for row in rows}) > 1:
            remedy = "members of a set differ in social attributes and in nothing else"
            yield f"set '{set_id}' has more than one subject.", remedy
        if self.counterfactual and self.members is None:
            self.members = tuple(members)
        if self.members is not None and (set(members) != set(self.members) or len(members) < 2):
            yield (
                f"set '{set_id}' has the members {', '.join(members)}; expected {', '.join(self.members)}.",
                "every set of a counterfactual dataset has the same members, at least two; drop incomplete sets, or "
                "declare counterfactual=False",
            )
