"""The dataset card's section on yield: sets made, selected and dropped, per subject, group and reason."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from fairgate.builds.review.figures import percent, share
from fairgate.data import Manifest
from fairgate.ground.errors import DatasetError
from fairgate.ground.hashing import digest, read_bounded, sha256_bytes
from fairgate.ground.markdown import escape, table
from fairgate.ground.number_format import ABSENT
from fairgate.records import DROPS_FILE, YIELD_FILE, BuildYield

_MOST_ROWS: Final = 100
_MAX_BYTES: Final = 64 << 20


def yield_section(folder: Path, manifest: Manifest) -> tuple[str, str] | None:
    """`## Yield` of a build's folder and a digest of the files that it summarises; None where it has none.

    Raises DatasetError where they are another dataset's, or no yields.
    """
    if not (folder / YIELD_FILE).is_file():
        return None
    remedy = "run the build again: it writes its yields anew"
    try:
        texts = [
            read_bounded(folder / name, _MAX_BYTES) for name in (YIELD_FILE, DROPS_FILE) if (folder / name).is_file()
        ]
        yields = BuildYield.model_validate_json(texts[0])
        drops = list(csv.DictReader(io.StringIO(texts[1].decode()))) if len(texts) > 1 else []
        groups = _groups(drops)
    except (OSError, ValueError, KeyError, csv.Error) as error:
        said = getattr(error, "strerror", None) or error
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else said
        where = str(getattr(error, "filename", None) or folder)
        raise DatasetError(f"the build's yields cannot be read: {reason}.", where=where, remedy=remedy) from error
    if yields.images != manifest.n_rows:
        raise DatasetError(
            f"the yields are of {yields.images:,} images, and the dataset has {manifest.n_rows:,}.",
            where=str(folder / YIELD_FILE),
            remedy=remedy,
        )
    return "\n\n".join(_parts(yields, groups)), digest([sha256_bytes(text) for text in texts])


def _groups(drops: list[dict[str, str]]) -> Counter[tuple[str, str, str, str]]:
    """Sets that were dropped at a group, over all subjects: (part, attribute, group, reason)."""
    counted: Counter[tuple[str, str, str, str]] = Counter()
    for row in drops:
        if row["attribute"] not in ("all", "member"):
            counted[row["part"], row["attribute"], row["group"], row["reason"]] += int(row["count"])
    return counted


def _parts(yields: BuildYield, groups: Counter[tuple[str, str, str, str]]) -> Iterator[str]:
    yield "## Yield"
    yield (
        "What the recipe started, kept and dropped, in sets. A part may keep more than was chosen for the next one. "
        "Unequal failure between groups is a property of the generator and its filters: it can look like a model's."
    )
    rows = []
    for subject, found in yields.subjects.items():
        for name, part in found.parts.items():
            kept = f"{100 * part.kept / part.started:.1f}%" if part.started else ABSENT
            listed = sorted(part.dropped.items(), key=lambda one: -one[1])
            reasons = ", ".join(f"{escape(reason)} {count:,}" for reason, count in listed) or ABSENT
            rows.append([escape(subject), escape(name), f"{part.started:,}", f"{part.kept:,}", kept, reasons])
    yield _cut(["subject", "part", "started", "kept", "kept share", "dropped because"], rows)
    if passed := _passed(yields):
        yield "### By group"
        yield (
            "Members that were made, those that failed where a set was dropped, and the share that passed, with 95% "
            "intervals (Wilson), over all subjects. Where members are made until one fails, later groups are tried "
            "less often."
        )
        yield _cut(["part", "attribute", "group", "made", "failed", "passed"], passed)
    if groups:
        yield "### Dropped at a group"
        yield "Sets of all subjects that were dropped at the member of a group: the first that failed, where one did."
        order = sorted(groups.items(), key=lambda one: (one[0][0], one[0][1], one[0][3], -one[1]))
        lines = [
            [*(escape(name) for name in (part, attribute, group, reason)), f"{count:,}"]
            for (part, attribute, group, reason), count in order
        ]
        yield _cut(["part", "attribute", "group", "reason", "sets"], lines)
    work = [f"{escape(what)}: {count:,.1f}" for what, count in yields.per_image.items()]
    if work:
        yield f"Evaluations of a model per finished image, including dropped ones: {', '.join(work)}."


def _passed(yields: BuildYield) -> list[list[str]]:
    tried, failed = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    for subject in yields.subjects.values():
        for name, part in subject.parts.items():
            for attribute, groups in part.groups.items():
                for group, found in groups.items():
                    tried[name, attribute, group] += found.tried
                    failed[name, attribute, group] += min(found.failed, found.tried)
    return [
        [*map(escape, key), f"{made:,}", f"{failed[key]:,}", percent(share(made - failed[key], made))]
        for key, made in tried.items()
    ]


def _cut(head: list[str], rows: list[list[str]]) -> str:
    more = f"\n\n{len(rows) - _MOST_ROWS:,} more lines are in the build's own files." if len(rows) > _MOST_ROWS else ""
    return table(head, rows[:_MOST_ROWS]) + more
