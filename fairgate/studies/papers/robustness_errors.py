"""Sets in which a model gets the reference member right and another one wrong, counted and drawn (appendix A9)."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fairgate.data import Dataset, picture_rows
from fairgate.ground.errors import SettingsError, did_you_mean
from fairgate.ground.randomness import stream
from fairgate.probes import ProbeScores
from fairgate.records import StudyCell, StudyPicture, StudyTable

SHOWN = 10
"""Sets of each member that are drawn, as in the paper."""


@dataclass(frozen=True, slots=True)
class Errors:
    """`sheet` is the PNG of `picture`; both are None where no set is."""

    table: StudyTable
    picture: StudyPicture | None
    sheet: bytes | None


def require_member(data: Dataset, member: str, option: str) -> None:
    """Raises SettingsError for a member that no set has."""
    members = sorted({str(one) for one in data.index.member})
    if member not in members:
        raise SettingsError(
            f"no set of {data.manifest.ref} has a member '{member}'.",
            where=option,
            remedy=did_you_mean(member, members) or f"members: {', '.join(members[:20])}",
        )


def errors_of(data: Dataset, own: Mapping[str, ProbeScores], reference: str) -> Errors:
    """Of every model and member, the sets that it gets wrong while the reference is right; at most ten are drawn."""
    index, rows, drawn = data.index, list[list[StudyCell]](), list[tuple[str, list[str], str]]()
    sets: dict[str, dict[str, int]] = {}
    for place, (set_id, member) in enumerate(zip(index.set_id.tolist(), index.member.tolist(), strict=True)):
        sets.setdefault(set_id, {})[member] = place
    for name, scores in own.items():
        right, taken = cast(NDArray[np.bool_], scores.correct), cast(NDArray[np.object_], scores.predicted)
        for member in dict.fromkeys(str(one) for one in index.member):
            pairs = [of for of in sets.values() if reference in of and member in of]
            wrong = [of for of in pairs if right[of[reference]] and not right[of[member]]]
            if member == reference or not wrong:
                continue
            (label, count), *_ = Counter(str(taken[of[member]]) for of in wrong).most_common(1)
            rows.append([name, member, len(pairs), len(wrong), f"{label} ({count})"])
            draws = stream(0, "errors", name, member).permutation(len(wrong))[:SHOWN]
            drawn.append((name, [str(index.set_id[wrong[one][member]]) for one in sorted(draws)], member))
    table = StudyTable(
        name="errors",
        title=f"Sets in which {reference} is right and another member is not",
        source="appendix A9",
        columns=["model", "member", "sets", "wrong", "most taken for"],
        rows=rows,
    )
    if not drawn:
        return Errors(table, None, None)
    pictures = data.images_of(sorted({one for _, chosen, _ in drawn for one in chosen}))
    cells = []
    for name, chosen, member in drawn:
        shown = [dict(pictures[one]) for one in chosen]
        cells.append((f"{name}\n{member}", [of[who] for of in shown for who in (reference, member)]))
    held = io.BytesIO()
    picture_rows(cells).save(held, "PNG")
    picture = StudyPicture(
        name="errors-sheet",
        title=f"Pairs of {reference} and a member that is taken for something else",
        source="appendix A9",
        alt=f"Rows by model and member: in each pair the left picture, {reference}, is classified correctly, and the "
        "right one is not.",
    )
    return Errors(table, picture, held.getvalue())
