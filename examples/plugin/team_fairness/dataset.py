"""An importer: `jobs_in_tones`, sets of two pictures of a person at work, a light and a dark one.

`fairgate dataset get jobs_in_tones --from FOLDER`, with files such as `FOLDER/doctor/007_light.png`.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from fairgate.data.published import ByHand, Published, PublishedPart, PublishedRow, Reading, SourceFiles

TONES = ("light", "dark")


def read(files: SourceFiles, part: str) -> Reading:
    """Sets of both tones; other pictures are left out and counted."""
    sets: dict[tuple[str, str], dict[str, Path]] = defaultdict(dict)
    for path in files.matching(*(f"*_{tone}.png" for tone in TONES)):
        number, _, tone = path.stem.rpartition("_")
        sets[path.parent.name, number][tone] = path
    pairs = {key: members for key, members in sets.items() if len(members) == len(TONES)}
    alone = len(sets) - len(pairs)
    return Reading(
        rows=[
            PublishedRow(
                set_id=f"{subject}-{number}",
                member=tone,
                subject=subject,
                caption=f"a {tone} picture of a {subject}",
                path=path.name,
                groups={"tone": tone},
                image=path,
            )
            for (subject, number), members in pairs.items()
            for tone, path in members.items()
        ],
        left_out={"picture without the other tone": alone} if alone else {},
        files=files.archives,
        loose=[path for members in pairs.values() for path in members.values()],
    )


DATASET = Published(
    name="jobs_in_tones",
    title="Jobs in two tones: pictures of people at work",
    licence="CC0-1.0",
    citation="The team, 2026.",
    counterfactual=True,
    read=read,
    parts={
        "all": PublishedPart(
            about="All pictures.",
            size="1 MB",
            source=ByHand("https://example.org/jobs-in-tones", "Ask the team for the folder."),
            attributes={"tone": TONES},
        )
    },
)
