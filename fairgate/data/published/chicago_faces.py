"""The Chicago Face Database (Ma et al. 2015): faces before one background, groups as people named theirs."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from fairgate.data import MEMBER, unique_ids
from fairgate.data.published.contract import ByHand, Published, PublishedPart, PublishedRow, Reading, register
from fairgate.data.published.source_files import SourceFiles

RACES: Final = {"A": "Asian", "B": "Black", "L": "Latino", "W": "White", "M": "Multiracial", "I": "Indian"}
GENDERS: Final = {"F": "Female", "M": "Male"}
EXPRESSIONS: Final = {"N": "neutral", "HO": "happy, open", "HC": "happy, closed", "A": "angry", "F": "fearful"}
BROKEN: Final = "file name does not say race, gender, target and expression"
_NAME: Final = re.compile(
    r"CFD-(?P<race>[ABILMW])(?P<gender>[FM])-(?P<target>\d+)-\d+(?:-\d+)?-(?P<expression>N|HO|HC|A|F)\.jpe?g",
    re.IGNORECASE,
)
_MAIN: Final = "ABLW"


def read(files: SourceFiles, part: str) -> Reading:
    """Rows of the photographs that the part has; names that say too little are counted. Those of a person with several
    expressions are one cluster."""
    races, several = RACES if part == "all" else _MAIN, part == "expressions"
    left_out: Counter[str] = Counter()
    photographs = []
    for tail, path in sorted(files.by_tail(1).items()):
        if not tail.lower().endswith((".jpg", ".jpeg")):
            continue
        match = _NAME.fullmatch(tail)
        if match is None:
            left_out[BROKEN] += 1
        elif match["race"].upper() in races and (several or match["expression"].upper() == "N"):
            names = {name: text.upper() for name, text in match.groupdict().items()}
            photographs.append((tail, path, names, f"{names['race']}{names['gender']}-{names['target']}"))
    ids = unique_ids([tail for tail, *_ in photographs])
    if several:
        photographs.sort(key=lambda photograph: photograph[-1])  # people one after another
    rows = [
        PublishedRow(
            set_id=person if several else ids[tail],
            member=ids[tail] if several else MEMBER,
            path=tail,
            groups={"race": RACES[match["race"]], "gender": GENDERS[match["gender"]]}
            | ({"expression": EXPRESSIONS[match["expression"]]} if several else {}),
            image=path,
            extra={"model": person},
        )
        for tail, path, match, person in photographs
    ]
    return Reading(rows, left_out, files.archives, {"cluster_column": "model"} if several else {})


_SOURCE: Final = ByHand(
    "https://www.chicagofaces.org/",
    "Ask for it by the form on that page (research use; the archive may not be passed on), and unpack it.",
)
_GROUPS: Final = {"race": [RACES[code] for code in _MAIN], "gender": list(GENDERS.values())}
_SIZE: Final = "not confirmed; by form"

DATASET = Published(
    name="chicago_faces",
    title="Chicago Face Database 3.0: photographs of faces before one background",
    licence="research use, by form; not to be passed on",
    terms="Chicago Face Database: for research, not to be passed on; keep reports where its photographs may be seen.",
    citation="Ma, Correll and Wittenbrink, The Chicago Face Database, Behavior Research Methods 2015, "
    "10.3758/s13428-014-0532-5 (CFD-MR: 10.3758/s13428-020-01482-5; CFD-INDIA: 10.3389/fpsyg.2021.627678).",
    counterfactual=False,
    read=read,
    parts={
        "main": PublishedPart("Neutral faces of the 597 people of the main set.", _SIZE, _SOURCE, _GROUPS),
        "all": PublishedPart(
            "Neutral faces of all three sets, with CFD-MR and CFD-INDIA.",
            _SIZE,
            _SOURCE,
            {"race": list(RACES.values()), "gender": list(GENDERS.values())},
        ),
        "expressions": PublishedPart(
            "Faces of the main set with every expression that somebody has.",
            _SIZE,
            _SOURCE,
            {**_GROUPS, "expression": list(EXPRESSIONS.values())},
        ),
    },
    layout="give `CFD Version 3.0`, or its folder Images: photographs are called CFD-AF-200-228-N.jpg",
    notes=(
        "Groups are from the file names: how people identified themselves. The ratings of the norming tables (.xlsx) "
        "are not read; `model` (AF-200) is their key, which India's write without the hyphen.",
        "Expressions other than neutral are of a part of the Black and White people: compare within an expression. "
        "A person's photographs are one cluster: they count as one.",
    ),
)
register(DATASET)
