"""PATA (Seth et al. 2023): scenes with people of other perceived race, gender and age, as a list of addresses."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator
from typing import Final

from fairgate.data import reading
from fairgate.data.published.contract import Published, PublishedPart, PublishedRow, Reading, WebFiles, register
from fairgate.data.published.source_files import ABSENT, SourceFiles
from fairgate.ground.errors import DatasetError
from fairgate.ground.hashing import read_bounded

RACES: Final = ("black", "caucasian", "eastasian", "hispanic", "indian")
_GROUPS: Final = {"race": RACES, "gender": ("female", "male"), "age": ("young", "old")}
_ADDRESS: Final = "https://github.com/pata-fairness/pata_dataset"
_COMMIT: Final = "4fad61d322263154e6b5a643a01ec858abb864c4"
_LIST: Final = "pata_fairness.files.lst"
_MOST: Final = 16 << 20
_URL: Final = f"https://raw.githubusercontent.com/pata-fairness/pata_dataset/{_COMMIT}/{_LIST}"
REPEATED = "same address as an earlier line"


def _lines(files: SourceFiles) -> Iterator[tuple[str, str, dict[str, str], str]]:
    """(name of the picture, scene, groups, address) of every line; scenes may have `_` in them."""
    path = files.one(_LIST)
    with reading("the list", path, "the list as it was published"):
        lines = read_bounded(path, _MOST).decode("utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        labels, bar, url = line.partition("|")
        scene, *groups = labels.rsplit("_", len(_GROUPS))
        named = dict(zip(_GROUPS, groups, strict=False))
        if not bar or not scene or len(named) < len(_GROUPS) or any(named[name] not in _GROUPS[name] for name in named):
            raise DatasetError(
                f"the line is not scene_race_gender_age|address: '{line[:80]}'.",
                where=f"{path}:{number}",
                remedy="take the list as it was published",
            )
        yield f"pata_{number:05d}", scene.replace("_", " "), named, html.unescape(url.strip())


def read(files: SourceFiles, part: str) -> Reading:  # noqa: ARG001 -- one list, whatever the part
    """Rows whose pictures are there; the others are counted, and in no denominator."""
    pictures = files.pictures_by_name()
    left_out: Counter[str] = Counter()
    seen: set[str] = set()
    rows = []
    for name, scene, groups, url in _lines(files):
        if url in seen:
            left_out[REPEATED] += 1
        elif name not in pictures:
            left_out[ABSENT] += 1
        else:
            rows.append(PublishedRow(name, pictures[name].name, groups, pictures[name], scene))
        seen.add(url)
    return Reading(rows, left_out, [files.one(_LIST)], loose=[pictures[row.set_id] for row in rows])


DATASET = Published(
    name="pata",
    title="PATA: scenes with people who differ in perceived race, gender and age",
    licence="unknown (no licence file; pictures are of stock agencies and others)",
    citation="Seth, Hemani and Agarwal, DeAR: Debiasing Vision-Language Models with Additive Residuals, CVPR 2023.",
    counterfactual=False,
    read=read,
    parts={
        "all": PublishedPart(
            "4,934 addresses of pictures of 24 scenes.",
            "a list of 0.7 MB, and your pictures",
            WebFiles(_ADDRESS, {_LIST: _URL}, _MOST),
            _GROUPS,
        )
    },
    layout="the list has addresses only: put the pictures next to it, as pata_00001.jpg, and name the folder (--from)",
    notes=(
        "The list has addresses, which break. No picture is fetched: put those that you have next to the list as "
        "pata_00001.jpg, by their line, and name the folder (--from). The others are counted and in no denominator. "
        "Repeated addresses count once.",
        "Some addresses are of pornographic sites, and many of stock agencies: look at the list before you fetch it.",
    ),
)
register(DATASET)
