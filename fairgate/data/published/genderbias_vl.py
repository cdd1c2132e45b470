"""GenderBias-VL (Xiao et al. 2024): generated pictures of an occupation, and each edited to the other gender."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from fairgate.data import inside, reading
from fairgate.data.published.contract import HubFiles, Published, PublishedPart, PublishedRow, Reading, register
from fairgate.data.published.source_files import ABSENT, SourceFiles
from fairgate.ground.errors import DatasetError
from fairgate.ground.hashing import read_bounded

GENDERS: Final = ("male", "female")
TREES: Final = {"base": "xl_generate_base", "cf": "xl_generate_cf_via_instructpix2pix"}
ALONE: Final = "image whose counterpart the test files do not name"
_MOST: Final = 256 << 20
_Key = tuple[str, str, str]
"""Occupation as a folder, gender of the picture before the edit, file."""


def _named(path: Path, kind: str) -> dict[_Key, None]:
    """The pictures that a file of questions is about, each once, in its order."""
    with reading("the file of questions", path, "a JSON file as it was published"):
        entries = json.loads(read_bounded(path, _MOST))
    if not isinstance(entries, list):
        raise DatasetError("the file holds no list of questions.", where=str(path), remedy="take it as published")
    names: dict[_Key, None] = {}
    for number, entry in enumerate(entries):
        place = f"{path}: question {number + 1}"
        image = entry.get("image") if isinstance(entry, dict) else None
        parts = inside(image, place).parts if isinstance(image, str) else ()
        if len(parts) != 4 or parts[0] != TREES[kind] or parts[2] not in GENDERS or entry.get("gender") != parts[2]:
            raise DatasetError(
                f"the question is not about a picture of {TREES[kind]}: {str(image)[:80]!r}.",
                where=place,
                remedy="take the files of test_meta_file/VLbias as they were published",
            )
        names[parts[1], parts[2], parts[3]] = None
    return names


def read(files: SourceFiles, part: str) -> Reading:  # noqa: ARG001 -- there is one part
    """Pairs that the questions are about: a picture, and what it was edited to."""
    tables = {kind: files.one(f"VLbias/occ_test_{kind}_ask_gender.json") for kind in TREES}
    named = {kind: _named(path, kind) for kind, path in tables.items()}
    pictures = files.by_tail(4)
    left_out: Counter[str] = Counter()
    if alone := len(named["base"].keys() ^ named["cf"].keys()):
        left_out[ALONE] = alone
    rows: list[PublishedRow] = []
    for key in named["base"]:
        names = {kind: str(PurePosixPath(tree, *key)) for kind, tree in TREES.items()}
        if key in named["cf"] and all(name in pictures for name in names.values()):
            rows += _pair(key, {kind: pictures[name] for kind, name in names.items()})
        elif key in named["cf"]:
            left_out[ABSENT] += 2
    return Reading(rows, left_out, [*tables.values(), *files.archives])


def _pair(key: _Key, paths: dict[str, Path]) -> Iterator[PublishedRow]:
    """The two members. Tables and folders of edited pictures name the gender before the edit: it is the other one."""
    occupation, before, file = key
    kinds = {before: "base", GENDERS[1 - GENDERS.index(before)]: "cf"}
    for gender in GENDERS:
        kind = kinds[gender]
        yield PublishedRow(
            set_id=f"{occupation}-{before}-{PurePosixPath(file).stem}",
            member=gender,
            subject=occupation.replace("_", " "),
            path="/".join((TREES[kind], *key)),
            groups={"gender": gender},
            image=paths[kind],
            extra={"image_type": kind},
        )


DATASET = Published(
    name="genderbias_vl",
    title="GenderBias-VL: generated pictures of occupations, each with its edit to the other gender",
    licence="CC-BY-NC-4.0",
    citation="Xiao et al., GenderBias-VL: Benchmarking Gender Bias in Vision Language Models via Counterfactual "
    "Probing, 2024.",
    counterfactual=True,
    read=read,
    parts={
        "vlbias": PublishedPart(
            "Pairs that the questions of VLbias are about.",
            "8.8 GB, and as much again unpacked",
            HubFiles(
                "xiaoyisong/GenderBias-VL",
                (*(f"{tree}.tar.gz" for tree in TREES.values()), "test_meta_file/VLbias/*_ask_gender.json"),
            ),
            {"gender": GENDERS},
        )
    },
    layout=f"put {' and '.join(f'{tree}.tar.gz' for tree in TREES.values())}, or what they unpack to, into it",
    notes=(
        "Tables and folders of edited pictures name the gender before the edit: members are named by the one after it.",
        "The occupation is the folder's: in the tables Waiter becomes Waitress by gender, which would divide a pair.",
        "Tables of pictures and of edits were listed apart: those of one kind alone are left out and counted.",
        "Groups are those that were prompted. The edit is by InstructPix2Pix; nobody says how many show it.",
    ),
)
register(DATASET)
