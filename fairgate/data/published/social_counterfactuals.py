"""SocialCounterfactuals (Howard et al. 2024): generated sets of one occupation that differ in two social attributes.

Three kinds of sets are in one table; each kind has its own members and so its own release.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import Final

from fairgate.data.parquet_rows import HubTable
from fairgate.data.published.contract import HubFiles, Published, PublishedPart, PublishedRow, Reading, register
from fairgate.data.published.source_files import SourceFiles
from fairgate.ground.errors import DatasetError

RACES = ("White", "Black", "Indian", "Asian", "Middle Eastern", "Latino")
GENDERS = ("male", "female")
TRAITS = ("skinny", "obese", "young", "old", "tattooed")
_GROUPS: Final = {"race": RACES, "gender": GENDERS, "physical": TRAITS}
_KINDS: Final = {"race_gender": ("race", "gender"), "physical_gender": ("physical", "gender")}
KINDS: Final[Mapping[str, tuple[str, str]]] = {**_KINDS, "physical_race": ("physical", "race")}
"""Attributes of each kind, in the order in which captions name them."""
SETS: Final = {"race_gender": 7_936, "physical_gender": 5_052, "physical_race": 836}
"""Sets of each kind, counted in the authors' metadata."""
_OF_VALUE: Final = {group.casefold(): (name, group) for name, groups in _GROUPS.items() for group in groups}
_COLUMNS: Final = ("counterfactual_set", "caption", "a1", "a2")
INCOMPLETE = "images of a set that lacks a member"
DOUBLED = "images of a set that has a member twice"
UNCLEAR = "images of a set whose captions do not agree on one occupation"
_Member = tuple[HubTable, int, str]
"""Table, row and caption of an image."""


def read(files: SourceFiles, part: str) -> Reading:
    """The whole sets of one kind; the others of that kind are counted by reason."""
    tables = [HubTable(path) for path in files.matching("train-*.parquet")]
    sets: dict[str, dict[tuple[str, str], list[_Member]]] = defaultdict(lambda: defaultdict(list))
    for table in tables:
        for row, values in table.rows(_COLUMNS):
            pair = _pair(values, f"{table.path}: row {row}")
            if tuple(name for name, _ in pair) == KINDS[part]:
                groups = (pair[0][1], pair[1][1])
                sets[str(values["counterfactual_set"])][groups].append((table, row, str(values["caption"])))
    first, second = KINDS[part]
    wanted = list(product(_GROUPS[first], _GROUPS[second]))
    left_out: Counter[str] = Counter()
    rows: list[PublishedRow] = []
    for name, members in sets.items():
        subjects = {_subject(caption, groups) for groups, images in members.items() for *_, caption in images}
        reason = (
            DOUBLED
            if any(len(images) > 1 for images in members.values())
            else INCOMPLETE
            if len(members) < len(wanted)
            else UNCLEAR
            if len(subjects) > 1 or None in subjects
            else None
        )
        if reason is None:
            rows += _rows(name, str(subjects.pop()), {groups: members[groups][0] for groups in wanted}, KINDS[part])
        else:
            left_out[reason] += sum(map(len, members.values()))
    facts = {"sets_as_published": len(rows) == SETS[part] * len(wanted), "published_sets": SETS[part]}
    return Reading(rows, left_out, [table.path for table in tables], facts)


def _pair(values: Mapping[str, object], place: str) -> list[tuple[str, str]]:
    """The two attributes of an image with their groups, told by the groups: no two attributes share one."""
    pair = [_OF_VALUE.get(str(values[column]).casefold()) for column in ("a1", "a2")]
    if pair[0] is None or pair[1] is None or (pair[0][0], pair[1][0]) not in KINDS.values():
        raise DatasetError(
            f"'{values['a1']}' and '{values['a2']}' are no groups of SocialCounterfactuals.",
            where=place,
            remedy="take the tables as they were published; groups are " + ", ".join((*RACES, *GENDERS, *TRAITS)),
        )
    return [pair[0], pair[1]]


def _subject(caption: str, groups: tuple[str, str]) -> str | None:
    """The occupation that a caption names after its two groups, in small letters.

    >>> _subject("A picture of a Middle Eastern female Civil Engineer", ("Middle Eastern", "female"))
    'civil engineer'
    """
    match = re.search(rf"\b{re.escape(groups[0])} {re.escape(groups[1])} (?P<rest>.+)", caption, re.IGNORECASE)
    return " ".join(match["rest"].split()).lower() if match else None


class _SetPictures:
    """The pictures of one set, read together in the order of the file when the first is wanted; each is given once."""

    def __init__(self, members: Mapping[tuple[str, str], _Member]) -> None:
        self._in_file = sorted(members.items(), key=lambda entry: (entry[1][0].path, entry[1][1]))
        self._held: dict[tuple[str, str], bytes] = {}

    def of(self, groups: tuple[str, str]) -> bytes:
        """The encoded picture of a member."""
        if groups not in self._held:
            self._held = {place: table.picture(row) for place, (table, row, _) in self._in_file}
        return self._held.pop(groups)


def _rows(
    name: str, subject: str, members: Mapping[tuple[str, str], _Member], attributes: tuple[str, str]
) -> Iterator[PublishedRow]:
    """A set's members."""
    pictures = _SetPictures(members)
    for groups, (_, _, caption) in members.items():
        member = " ".join(groups)
        yield PublishedRow(
            set_id=name,
            member=member,
            subject=subject,
            caption=caption,
            path=f"{name}/{member}",
            groups=dict(zip(attributes, groups, strict=True)),
            image=partial(pictures.of, groups),
        )


def _part(kind: str, members: int) -> PublishedPart:
    commit = "7aec7ff57dbd79e6a3731f013d090b43d991a077"
    return PublishedPart(
        f"Sets of {members} that differ in {' and '.join(KINDS[kind])}: {SETS[kind]:,} of them, as their authors say.",
        "28 GB for all three kinds, which lie in the same 61 files",
        HubFiles("Intel/SocialCounterfactuals", ("data/train-*.parquet", "README.md"), commit),
        {name: _GROUPS[name] for name in KINDS[kind]},
    )


DATASET = Published(
    name="social_counterfactuals",
    title="SocialCounterfactuals: generated images of occupations, in counterfactual sets",
    licence="MIT",
    citation="Howard et al., SocialCounterfactuals: Probing and Mitigating Intersectional Social Biases in "
    "Vision-Language Models with Counterfactual Examples, CVPR 2024.",
    counterfactual=True,
    read=read,
    parts={
        "race_gender": _part("race_gender", 12),
        "physical_gender": _part("physical_gender", 10),
        "physical_race": _part("physical_race", 30),
    },
    layout="give the folder with its files train-00000-of-00061-*.parquet",
    notes=(
        "The occupation is read from the caption, after the two groups that it names, in small letters.",
        "Sets that lack a member, have one twice, or name two occupations are left out whole and counted.",
        "Some occupations have a single set, too few to judge or to search among: --fewest-sets 30 leaves these out.",
        "Images are generated and filtered by a model; groups are those that were prompted, not what anybody saw.",
    ),
)
register(DATASET)
