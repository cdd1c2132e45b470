"""PAIRS (Fraser and Kiritchenko 2024): generated pictures of one scene with a Black or White man or woman in it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath
from typing import Final

from fairgate.data.published.contract import Published, PublishedPart, PublishedRow, Reading, WebFiles, register
from fairgate.data.published.source_files import SourceFiles, put_once

ADDRESS: Final = "https://github.com/katiefraser/PAIRS"
_COMMITS: Final = {
    "occupations": "ba607c5a60f43479a397386a32630f4a517d2f65",
    "status": "fb6fa43cb301ef246d772aa6eb76b2b33ec03b51",
    "potential_crime": "3ff93b424e69683db959a7c5c63a5d4dcf7d4742",
}
_SCENES: Final = {
    "occupations": "airplane apron bank black_apron blackboard clipboard coffee computer dental_office desk headset "
    "lab_coat law_office mopping overalls restaurant scrubs studying taxi vest",
    "status": "basketball brick_wall bus casual city cooking guitar hoodie microphone phone professional shopping "
    "smiling stroller tattoo tent train university white_shirt wine",
    "potential_crime": "bandanna baseball_bat convenience_store courtroom jumpsuit money running ski_mask smoking "
    "window",
}
MEMBERS: Final = ("black_man", "black_woman", "white_man", "white_woman")
_ODD: Final = {("status", "phone", "white_man"): "white_man1.png"}
"""The one file that is named otherwise."""
_NAME: Final = re.compile(r"(?P<member>(?:black|white)_(?:man|woman))\d?\.png")
INCOMPLETE = "images of a set that lacks a member"
_GROUPS: Final = {"race": ("Black", "White"), "gender": ("man", "woman")}


def read(files: SourceFiles, part: str) -> Reading:
    """Sets of four of the themes that the part has; those that are not whole are counted."""
    themes = list(_SCENES) if part == "all" else [part]
    scenes: dict[tuple[str, str], dict[str, Path]] = defaultdict(dict)
    for name, path in files.paths.items():
        theme, scene, file = ("", "", "", *PurePosixPath(name).parts)[-3:]
        named = _NAME.fullmatch(file)
        if theme not in themes or named is None:
            continue
        member = named["member"]
        put_once(scenes[theme, scene], member, path, f"two images are the {member} of '{theme}/{scene}'.")
    left_out: Counter[str] = Counter()
    rows: list[PublishedRow] = []
    for (theme, scene), members in sorted(scenes.items()):
        if len(members) < len(MEMBERS):
            left_out[INCOMPLETE] += len(members)
            continue
        rows += [_row(theme, scene, member, members[member]) for member in MEMBERS]
    published = sum(len(_SCENES[theme].split()) for theme in themes)
    facts = {"sets_as_published": len(rows) == len(MEMBERS) * published, "published_sets": published}
    loose = [path for members in scenes.values() for path in members.values()]
    return Reading(rows, left_out, [], facts, loose)


def _row(theme: str, scene: str, member: str, path: Path) -> PublishedRow:
    race, gender = member.split("_")
    return PublishedRow(
        set_id=f"{theme}-{scene}",
        member=member,
        subject=scene.replace("_", " "),
        path=f"{theme}/{scene}/{path.name}",
        groups={"race": race.capitalize(), "gender": gender},
        image=path,
        extra={"theme": theme},
    )


def _source(themes: list[str]) -> WebFiles:
    """Every picture at the commit that brought its theme."""
    urls = {}
    for theme in themes:
        for scene in _SCENES[theme].split():
            for member in MEMBERS:
                path = f"data/{theme}/{scene}/{_ODD.get((theme, scene, member), f'{member}.png')}"
                urls[path] = f"https://raw.githubusercontent.com/katiefraser/PAIRS/{_COMMITS[theme]}/{path}"
    return WebFiles(ADDRESS, urls, 4 << 20)


def _part(themes: list[str], about: str) -> PublishedPart:
    scenes = sum(len(_SCENES[theme].split()) for theme in themes)
    size = f"{scenes * len(MEMBERS)} PNG files of 256 x 256 pixels"
    return PublishedPart(about.format(scenes), size, _source(themes), _GROUPS)


DATASET = Published(
    name="pairs",
    title="PAIRS: generated pictures of the same scene with people who differ in race and gender",
    licence="CC BY 4.0 (its data sheet; the repository has no licence file)",
    terms="PAIRS, CC BY 4.0 by its data sheet: for testing only, not for training, and never to predict anybody's race "
    "or gender.",
    citation="Fraser and Kiritchenko, Examining Gender and Racial Bias in Large Vision-Language Models Using a Novel "
    "Dataset of Parallel Images, EACL 2024.",
    counterfactual=True,
    read=read,
    parts={
        "all": _part(list(_SCENES), "All {} scenes: occupations, status and potential crime."),
        "occupations": _part(["occupations"], "{} scenes in which a man and a woman may be taken for other jobs."),
        "status": _part(["status"], "{} scenes in which somebody may be taken for rich or poor."),
        "potential_crime": _part(["potential_crime"], "{} scenes in which somebody may be taken for a criminal."),
    },
    layout="give a clone of its repository: pictures are in data/THEME/SCENE/black_man.png",
    notes=(
        "Made with Midjourney: groups are those that were prompted. One file is named otherwise (white_man1.png).",
        "The authors' questions are in their paper, not in the repository. A theme alone has 10 or 20 sets, which is "
        "less than the 30 that a suite asks for unless it says otherwise (min_sets).",
    ),
)
register(DATASET)
