"""The dataset card's sections on review, balance and yield, as Markdown."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from fairgate.builds.review.mark_statistics import Figures, ShareRow, columns, percent, share
from fairgate.builds.review.marks import INSTRUCTIONS, QUALITIES, SCENES, Record, instructions_digest
from fairgate.builds.review.sample import has_sets
from fairgate.data import Dataset, Manifest
from fairgate.ground.errors import DatasetError
from fairgate.ground.hashing import digest, read_bounded, sha256_bytes
from fairgate.ground.markdown import escape, table
from fairgate.ground.number_format import ABSENT, share_words
from fairgate.ground.validation_words import fault_words
from fairgate.records import DROPS_FILE, YIELD_FILE, BuildYield

_MOST_SLICES: Final = 200
_MOST_YIELDS: Final = 100
_MAX_BYTES: Final = 64 << 20


def review_section(dataset: Dataset, records: Sequence[Record], figures: Figures) -> str:
    """`## Review`: raters, their answers with 95% intervals, the instructions, and what was not reviewed."""
    names, sets = list(dataset.manifest.attributes), has_sets(dataset.manifest)
    whole = f" and {share_words(figures.sets, 'whole set')}" if sets else ""
    parts = [
        "## Review",
        f"People looked at {share_words(figures.images, 'image')}{whole}: a random sample that is drawn "
        "from every subject and group alike. Their answers say what they perceived, and are no facts about a person. "
        "Shares are of the sample, with 95% intervals (Wilson).",
        table(
            ["rater (pseudonym)", "images", *["sets"] * sets, "from", "to"],
            [
                [escape(record.rater), f"{len(record.images):,}"]
                + [f"{len(record.scenes):,}"] * sets
                + [record.opened[0].at[:10], record.last[:10]]
                for record in records
            ],
        ),
        "### What people found",
        table(["", "images", "share"], _everything(figures, names)),
        "An image can count in several lines. A good image is in none of the lines of faults. A question without a "
        f"majority counts in no line of its own, and its image is not good ({figures.no_majority} such). After the "
        f"prompt had been shown, {share_words(figures.changed, 'image')} had a perceived group changed; what had been "
        "said before counts.",
        "### By subject and recorded group",
        _slices(figures.rows, names),
    ]
    if figures.intersections:
        parts += ["### By intersection", _slices(figures.intersections, names)]
    if figures.agreement:
        parts += ["### Agreement of raters", *_agreement(figures)]
    if figures.groups or figures.scores:
        parts += ["### Automatic filters against people", *_filters(figures)]
    return "\n\n".join([*parts, *_shown(records, sets=sets), *_open(dataset, figures)])


def unreviewed_section(dataset: Dataset, reason: str) -> str:
    """`## Review` of a dataset that nobody looked at, with the reason that was given."""
    return (
        f"## Review\n\n**Nobody reviewed this dataset**: {escape(reason, 500)}\n\nNone of its "
        f"{share_words(len(dataset), 'image')} was looked at by a person for this release."
    )


def balance_section(lowest: float, tolerance: float) -> str:
    """`## Balance`: how far counts may lie apart, and how far they do."""
    return (
        "## Balance\n\nOf the counts that are compared (subjects; groups; groups of each subject; intersections) the "
        f"smallest is never below {100 * lowest:.1f}% of the largest. {100 * (1 - tolerance):.1f}% were allowed."
    )


def _everything(figures: Figures, attributes: Sequence[str]) -> list[list[str]]:
    everything = figures.rows[0].shares
    rows = [
        [_named(column), f"{everything[column].count:,}", percent(everything[column])] for column in columns(attributes)
    ]
    scene = figures.same_scene
    if scene.of:
        rows.append(["sets that show one scene", f"{scene.count:,} of {scene.of:,} sets", percent(scene)])
    return rows


def _slices(rows: Sequence[ShareRow], attributes: Sequence[str]) -> str:
    shown = columns(attributes)
    lines = [
        [
            escape(row.name if row.kind in ("all", "subject") else f"{row.kind}: {row.name}"),
            f"{row.shares['good'].of:,}",
            *(percent(row.shares[column]) for column in shown),
        ]
        for row in rows
    ]
    return _cut(["", "images", *map(_named, shown)], lines, _MOST_SLICES, "are not shown")


def _named(column: str) -> str:
    return escape(column.replace("_", " "))


def _agreement(figures: Figures) -> list[str]:
    rows = [
        [_named(question), f"{result.units:,}", _plain(result.raw), _plain(result.alpha)]
        for question, result in figures.agreement.items()
    ]
    note = (
        "Units were answered by two raters or more. Raw agreement is a share; Krippendorff's alpha is 1 for "
        "perfect agreement and 0 for chance. “Cannot tell” is an answer like the others."
    )
    return [note, table(["question", "units", "raw", "alpha"], rows)]


def _filters(figures: Figures) -> list[str]:
    parts = []
    if figures.groups:
        rows = [
            [
                escape(row.column),
                escape(row.group),
                *map(_plain, (row.precision, row.recall, row.f1)),
                f"{row.support:,}",
            ]
            for row in figures.groups
        ]
        parts += [
            "People's blind answers are taken as right; images of which they could not tell are left out.",
            table(["column", "group", "precision", "recall", "F1", "support"], rows),
        ]
    if figures.scores:
        parts += [
            "The chance that a score is higher for a good image than for another one (0.5: it says nothing; below: it "
            "is higher where people find fault).",
            table(
                ["column", "good", "not good", "AUC"],
                [[escape(row.column), f"{row.good:,}", f"{row.other:,}", _plain(row.auc)] for row in figures.scores],
            ),
        ]
    return parts


def _plain(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}"


def _shown(records: Sequence[Record], *, sets: bool) -> Iterable[str]:
    yield "### Instructions for raters"
    yield "\n".join(f"- {line}" for line in INSTRUCTIONS)
    quality = "; ".join(f"**{answer.label}** ({answer.hint[:-1].lower()})" for answer in QUALITIES)
    scene = "; ".join(f"**{answer.label}** ({answer.hint[:-1].lower()})" for answer in SCENES)
    yield f"Of an image: {quality}." + (f" Of a set: {scene}." if sets else "")
    other = [
        record.rater for record in records if {page.instructions for page in record.opened} != {instructions_digest()}
    ]
    if other:
        yield f"Other wording was shown to {', '.join(map(escape, other))}: by an earlier or later fairgate."


def _open(dataset: Dataset, figures: Figures) -> Iterable[str]:
    manifest = dataset.manifest
    yield "### What was not reviewed"
    whole = f", and {manifest.n_sets - figures.sets:,} of {manifest.n_sets:,} sets by nobody as a whole"
    yield (
        f"{manifest.n_rows - figures.images:,} of {manifest.n_rows:,} images were judged by nobody on their own"
        f"{whole if has_sets(manifest) else ''}. What filters had dropped before is not in "
        "the dataset and was not looked at either: nothing here says how much of it was good."
    )


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
        groups = Counter[tuple[str, str, str, str]]()  # sets that were dropped at a group, over all subjects
        for row in csv.DictReader(io.StringIO(texts[1].decode())) if len(texts) > 1 else ():
            if row["attribute"] not in ("all", "member"):
                groups[row["part"], row["attribute"], row["group"], row["reason"]] += int(row["count"])
    except (OSError, ValueError, KeyError, csv.Error) as error:
        cause = getattr(error, "strerror", None) or error
        reason = fault_words(error.errors()[0]) if isinstance(error, ValidationError) else cause
        where = str(getattr(error, "filename", None) or folder)
        raise DatasetError(f"the build's yields cannot be read: {reason}.", where=where, remedy=remedy) from error
    if yields.images != manifest.n_rows:
        raise DatasetError(
            f"the yields are of {yields.images:,} images, and the dataset has {manifest.n_rows:,}.",
            where=str(folder / YIELD_FILE),
            remedy=remedy,
        )
    return "\n\n".join(_parts(yields, groups)), digest([sha256_bytes(text) for text in texts])


def _parts(yields: BuildYield, groups: Counter[tuple[str, str, str, str]]) -> Iterator[str]:
    yield "## Yield"
    yield (
        "What the recipe started, kept and dropped, in sets. A part may keep more than was chosen for the next one. "
        "Unequal failure between groups is a property of the generator and its filters: it can look like a model's."
    )
    rows = []
    for subject, made in yields.subjects.items():
        for name, part in made.parts.items():
            kept = f"{100 * part.kept / part.started:.1f}%" if part.started else ABSENT
            listed = sorted(part.dropped.items(), key=lambda entry: -entry[1])
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
        order = sorted(groups.items(), key=lambda entry: (entry[0][0], entry[0][1], entry[0][3], -entry[1]))
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
                for group, counts in groups.items():
                    tried[name, attribute, group] += counts.tried
                    failed[name, attribute, group] += min(counts.failed, counts.tried)
    return [
        [*map(escape, key), f"{made:,}", f"{failed[key]:,}", percent(share(made - failed[key], made))]
        for key, made in tried.items()
    ]


def _cut(
    head: list[str], rows: list[list[str]], most: int = _MOST_YIELDS, where: str = "lines are in the build's own files"
) -> str:
    more = f"\n\n{len(rows) - most:,} more {where}." if len(rows) > most else ""
    return table(head, rows[:most]) + more
