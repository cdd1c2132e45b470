"""UTKFace (Zhang, Song and Qi 2017): faces whose file names say age, gender and race."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from fairgate.data import unique_ids
from fairgate.data.published.contract import ByHand, Published, PublishedPart, PublishedRow, Reading, register
from fairgate.data.published.source_files import SourceFiles

GENDERS = ("Male", "Female")
RACES = ("White", "Black", "Asian", "Indian", "Others")
AGES = ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "70 and older")
_LAST = (2, 9, 19, 29, 39, 49, 59, 69)
"""The last year of each age group but the oldest: the groups of FairFace."""
OLDEST = 116
_NAME = re.compile(r"(?P<age>\d{1,3})_(?P<gender>[01])_(?P<race>[0-4])_\d+\.jpg(?P<cropped>\.chip\.jpg)?")
BROKEN = "file name does not say age, gender and race"
_GROUPS = {"race": RACES, "gender": GENDERS, "age": AGES}
_SOURCE = ByHand(
    "https://susanqq.github.io/UTKFace/",
    "Download UTKFace.tar.gz (cropped), or the three parts of the photographs in the wild, from that page.",
)


def age_group(years: int) -> str:
    """The group of an age in years.

    >>> [age_group(years) for years in (2, 3, 9, 10, 70)]
    ['0-2', '3-9', '3-9', '10-19', '70 and older']
    """
    return AGES[sum(years > last for last in _LAST)]


def read(files: SourceFiles, part: str) -> Reading:
    """Rows of the photographs whose names are whole; the others are counted."""
    left_out: Counter[str] = Counter()
    photographs: dict[str, tuple[Path, re.Match[str]]] = {}
    for tail, path in files.by_tail(1).items():
        if not tail.lower().endswith("jpg"):
            continue
        match = _NAME.fullmatch(tail)
        if match is None or int(match["age"]) > OLDEST:
            left_out[BROKEN] += 1
        elif bool(match["cropped"]) == (part == "cropped"):
            photographs[tail] = path, match
    ids = unique_ids(list(photographs))
    rows = []
    for name, (path, match) in photographs.items():
        years = int(match["age"])
        groups = {"race": RACES[int(match["race"])], "gender": GENDERS[int(match["gender"])], "age": age_group(years)}
        rows.append(PublishedRow(ids[name], name, groups, path, extra={"years": years}))
    return Reading(rows, left_out, files.archives)


DATASET = Published(
    name="utkface",
    title="UTKFace: faces of people from 0 to 116 years",
    licence="unknown (commonly stated: non-commercial research only)",
    citation="Zhang, Song and Qi, Age Progression/Regression by Conditional Adversarial Autoencoder, CVPR 2017.",
    counterfactual=False,
    read=read,
    parts={
        "cropped": PublishedPart(
            "The faces, aligned and cropped, about 23,700.", "0.1 GB (not confirmed)", _SOURCE, _GROUPS
        ),
        "wild": PublishedPart("The photographs in the wild, in 3 parts.", "not confirmed", _SOURCE, _GROUPS),
    },
    layout="names end in .jpg.chip.jpg in the cropped set, and in .jpg in the other (--part wild)",
    notes=(
        "Labels are in the file names. A few names lack a field or a dot: they are left out and counted.",
        "Ages are put into the groups of FairFace (0-2, 3-9, 10-19, ... 70 and older); `years` has the number.",
        "One folder with one copy of every image: some mirrors hold the same images several times.",
    ),
)
register(DATASET)
