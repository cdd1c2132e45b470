"""Contact sheets of a generator: what it painted, by subject and group as read, next to what it is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fairgate.ground.errors import clean
from fairgate.ground.number_format import share_words
from fairgate.reports.outputs import Painted
from fairgate.reports.standalone_page import data_uri

MOST_SUBJECTS = 8
"""Subjects that a page shows, those first whose groups moved most."""


@dataclass(frozen=True, slots=True)
class Strip:
    """Pictures of one model that are read alike: how many there are of how many, and data URIs of the first ones."""

    words: str
    uris: Sequence[str]


@dataclass(frozen=True, slots=True)
class ContactSheet:
    """A probe's pictures of one subject by group, the most frequent first; the models in the order given."""

    probe: str
    subject: str
    groups: Mapping[str, Sequence[Strip]]
    compared: bool
    """Whether the pictures of another model are next to the candidate's"""


def contact_sheets(painted: Mapping[str, Mapping[str, Painted]], most: int) -> list[ContactSheet]:
    """Sheets of the probes whose pictures are at hand, with `most` pictures of each subject, group and model.

    `painted` holds the models of each probe by what they are: `baseline`, `candidate`.
    """
    sheets = []
    for probe, of in painted.items():
        counts = {who: _counts(pictures) for who, pictures in of.items()}
        subjects = dict.fromkeys(subject for of_model in counts.values() for subject in of_model)
        moved = sorted(subjects, key=lambda name: -_moved([of_model[name] for of_model in counts.values()]))
        for subject in moved[:MOST_SUBJECTS]:
            total: Counter[str] = sum((of_model[subject] for of_model in counts.values()), Counter())
            groups = {
                clean(group, 80): [_strip(who, pictures, subject, group, most) for who, pictures in of.items()]
                for group, _ in total.most_common()
            }
            if most and any(strip.uris for strips in groups.values() for strip in strips):
                sheets.append(ContactSheet(clean(probe, 80), clean(subject, 80), groups, len(of) > 1))
    return sheets


def _counts(pictures: Painted) -> dict[str, Counter[str]]:
    """Pictures by subject and group."""
    counts: dict[str, Counter[str]] = {}
    for subject, group in zip(pictures.subjects, pictures.read_as, strict=True):
        counts.setdefault(subject, Counter())[group] += 1
    return counts


def _moved(counts: Sequence[Counter[str]]) -> int:
    """By how many pictures the group that moved most differs between the models."""
    groups: Iterable[str] = set().union(*counts)
    return max(max(of[group] for of in counts) - min(of[group] for of in counts) for group in groups)


def _strip(who: str, pictures: Painted, subject: str, group: str, most: int) -> Strip:
    own = [row for row, name in enumerate(pictures.subjects) if name == subject]
    read = [row for row in own if pictures.read_as[row] == group]
    shown = [pictures.small[row] for row in read if row in pictures.small][:most]
    return Strip(
        f"{who}: {len(read):,} of {share_words(len(own), 'image')}", [data_uri("jpeg", data) for data in shown]
    )
