"""What a row is: the columns of every dataset, the rules that names and rows obey, and counts per subject and group."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from fairgate.data.manifest import CROSS, HARMFUL, Counts
from fairgate.errors import DatasetError, did_you_mean, first_harmful


def crossings(attributes: Sequence[str]) -> list[tuple[str, ...]]:
    """The intersections that a manifest counts: every pair of attributes, and all of them together."""
    crossed: list[tuple[str, ...]] = list(combinations(attributes, 2))
    return crossed if len(attributes) < 3 else [*crossed, tuple(attributes)]


class Tally:
    """Counts rows as they pass; `counts()` is the manifest's summary of them."""

    def __init__(self, attributes: Mapping[str, Sequence[str]]) -> None:
        self._attributes = attributes
        self._cells: Counter[tuple[str, ...]] = Counter()

    def add(self, row: Mapping[str, object]) -> None:
        """Count one row by its subject and groups."""
        self._cells[(str(row["subject"]), *(str(row[attribute]) for attribute in self._attributes))] += 1

    def counts(self) -> Counts:
        """Everything counted so far, in declared order."""
        declared, place = self._attributes.items(), {name: at for at, name in enumerate(self._attributes, start=1)}
        by_subject = self._by([0])
        by_group = {name: self._by([at]) for name, at in place.items()}
        by_both = {name: self._by([0, at]) for name, at in place.items()}
        subjects = sorted(subject for (subject,) in by_subject)
        return Counts(
            subjects={subject: by_subject[subject,] for subject in subjects},
            groups={name: {group: by_group[name][group,] for group in groups} for name, groups in declared},
            subject_groups={
                subject: {name: {group: by_both[name][subject, group] for group in groups} for name, groups in declared}
                for subject in subjects
            },
            intersections={
                CROSS.join(crossed): self._crossed(crossed, [place[name] for name in crossed])
                for crossed in crossings(list(place))
            },
        )

    def _by(self, places: Sequence[int]) -> Counter[tuple[str, ...]]:
        """Rows by the entries at some places of a cell: 0 is the subject, then come the attributes."""
        counted: Counter[tuple[str, ...]] = Counter()
        for cell, count in self._cells.items():
            counted[tuple(cell[place] for place in places)] += count
        return counted

    def _crossed(self, attributes: tuple[str, ...], places: list[int]) -> dict[str, int]:
        counted = self._by(places)
        order = [{group: rank for rank, group in enumerate(self._attributes[attribute])} for attribute in attributes]

        def rank(groups: tuple[str, ...]) -> list[int]:
            return [ranks.get(group, len(ranks)) for ranks, group in zip(order, groups, strict=True)]

        return {CROSS.join(groups): counted[groups] for groups in sorted(counted, key=rank)}


TEXT_COLUMNS = ("set_id", "member", "subject", "caption", "path")
OWN_COLUMNS = ("image", *TEXT_COLUMNS)
"""Columns that fairgate gives a meaning to; attributes and extra columns have other names."""

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
        if not attribute or attribute in OWN_COLUMNS:
            raise DatasetError(
                f"an attribute cannot be called '{attribute}'.",
                where="the attributes",
                remedy=f"choose another name; fairgate's own columns are {', '.join(OWN_COLUMNS)}",
            )
        if isinstance(groups, str) or not groups or len(set(groups)) != len(groups):
            raise DatasetError(
                f"attribute '{attribute}' needs a list of different groups, and got {groups!r}.",
                where=f"attribute '{attribute}'",
                remedy="declare every group once, in the order in which reports should show them",
            )
        if (harmful := first_harmful([attribute, *map(str, groups)])) is not None:
            raise DatasetError(
                f"{HARMFUL.format(harmful)}.",
                where=f"attribute '{attribute}'",
                remedy="give the attribute or group a plain name",
            )
        if odd := [group for group in groups if not group or CROSS in group]:
            raise DatasetError(
                f"attribute '{attribute}' has a group called {odd[0]!r}.",
                where=f"attribute '{attribute}'",
                remedy=f"groups are non-empty text without '{CROSS}', which joins the groups of an intersection",
            )
        require_distinct(groups, f"groups of '{attribute}'", f"attribute '{attribute}'")
    require_distinct(attributes, "attributes", "the attributes")
    return {attribute: list(groups) for attribute, groups in attributes.items()}


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
    _seen: set[str] = field(default_factory=set)

    def sets(self, rows: Iterable[Mapping[str, object]]) -> Iterator[list[Row]]:
        """Each set as soon as its last row has passed. Raises DatasetError at the first row that breaks a rule."""
        current: list[Row] = []
        for given in rows:
            row = self._checked(given)
            if current and row["set_id"] != current[0]["set_id"]:
                yield self._whole(current)
                current = []
            if not current:
                set_id = str(row["set_id"])
                if set_id in self._seen:
                    raise DatasetError(
                        f"rows of set '{set_id}' are not consecutive.",
                        where=f"set '{set_id}'",
                        remedy="give all members of a set one after another; all of them go into one shard",
                    )
                self._seen.add(set_id)
            current.append(row)
        if current:
            yield self._whole(current)

    def _checked(self, given: Mapping[str, object]) -> Row:
        row: Row = {"image": None, "caption": "", "path": None, **given}
        where = f"set '{row.get('set_id')}', member '{row.get('member')}'"
        for column in ("set_id", "member", "subject"):
            if not isinstance(row.get(column), str) or not row[column]:
                raise DatasetError(
                    f"column '{column}' needs text, and got {row.get(column)!r}.",
                    where=where,
                    remedy="every row names its set, its member and its subject",
                )
        if (odd := first_harmful([str(row[column]) for column in ("set_id", "member", "subject")])) is not None:
            raise DatasetError(
                f"{HARMFUL.format(odd)}.", where=where, remedy="give the set, member or subject a plain name"
            )
        for column in ("caption", "path"):
            if not isinstance(row[column], str | None):
                raise DatasetError(
                    f"column '{column}' needs text, and got {row[column]!r}.", where=where, remedy="give text or None"
                )
        self._check_groups(row, where)
        self._check_columns(row, where)
        self._check_image(row, where)
        return {column: row[column] for column in self.columns or ()}

    def _check_groups(self, row: Row, where: str) -> None:
        for attribute, groups in self.attributes.items():
            if attribute not in row:
                raise DatasetError(
                    f"the row has no column '{attribute}', which is a declared attribute.",
                    where=where,
                    remedy=did_you_mean(attribute, row) or f"give one of: {', '.join(groups)}",
                )
            if row[attribute] not in groups:
                raise DatasetError(
                    f"{row[attribute]!r} is not a declared group of '{attribute}'.",
                    where=where,
                    remedy=f"declared groups: {', '.join(groups)}",
                )

    def _check_columns(self, row: Row, where: str) -> None:
        if self.columns is None:
            extras = [column for column in row if column not in OWN_COLUMNS and column not in self.attributes]
            self.columns = (*OWN_COLUMNS, *self.attributes, *extras)
        if differing := sorted(set(row).symmetric_difference(self.columns)):
            raise DatasetError(
                f"column '{differing[0]}' is not in every row.",
                where=where,
                remedy="give every row the same columns, with None where nothing was measured",
            )

    def _check_image(self, row: Row, where: str) -> None:
        image = row["image"]
        if not isinstance(image, bytes | None):
            raise DatasetError(
                f"column 'image' needs the bytes of an encoded image, and got {type(image).__name__}.",
                where=where,
                remedy="give the bytes of a PNG or JPEG file, or None",
            )
        if self.has_images is None:
            self.has_images = image is not None
        if self.has_images != (image is not None):
            raise DatasetError(
                "some rows have an image and some have none.",
                where=where,
                remedy="give an image in every row, or in none (labels only)",
            )

    def _whole(self, rows: list[Row]) -> list[Row]:
        set_id = rows[0]["set_id"]
        members = [str(row["member"]) for row in rows]
        if doubled := [member for member in members if members.count(member) > 1]:
            raise DatasetError(
                f"set '{set_id}' has member '{doubled[0]}' twice.",
                where=f"set '{set_id}'",
                remedy="give each member of a set its own name",
            )
        if len({row["subject"] for row in rows}) > 1:
            raise DatasetError(
                f"set '{set_id}' has more than one subject.",
                where=f"set '{set_id}'",
                remedy="members of a set differ in social attributes and in nothing else",
            )
        if not self.counterfactual:
            return rows
        if self.members is None:
            self.members = tuple(members)
        if set(members) != set(self.members) or len(members) < 2:
            raise DatasetError(
                f"set '{set_id}' has the members {', '.join(members)}; expected {', '.join(self.members)}.",
                where=f"set '{set_id}'",
                remedy="every set of a counterfactual dataset has the same members, at least two; "
                "drop incomplete sets, or declare counterfactual=False",
            )
        order = {member: place for place, member in enumerate(self.members)}
        return sorted(rows, key=lambda row: order[str(row["member"])])
