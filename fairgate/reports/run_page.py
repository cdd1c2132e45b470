"""report.html: which checks are shown in full, with which drawings, tables and pictures, in one file under 5 MB."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number
from fairgate.ground.png import png_of
from fairgate.records import CheckResult, PastValue, RunRecord, WorstSet
from fairgate.reports import charts, run_tables
from fairgate.reports import formatting as words
from fairgate.reports.contact_sheet import ContactSheet, contact_sheets
from fairgate.reports.data_table import Table
from fairgate.reports.member_words import answer_words, right_words, value_words
from fairgate.reports.next_steps import shown_sets
from fairgate.reports.outputs import Output, Painted, PictureSource, register
from fairgate.reports.standalone_page import PageFilter, data_uri, filter_of, render_page

MAX_BYTES: Final = 5_000_000
_GROUPS_IN_A_CHECK: Final = 200


@dataclass(frozen=True, slots=True)
class PageLimits:
    """How much one page holds: checks in full, checks in rows, changes of the gate's definition, group rows over all,
    subjects in a drawing, pictures in characters, painted pictures of a group and model."""

    failing: int
    waived: int
    passing: int
    changes: int
    group_rows: int
    tables: int
    subjects: int
    picture_chars: int
    painted: int


_LEVELS: Final = (
    PageLimits(60, 30, 300, 200, 1500, 30, 40, 3_000_000, 12),
    PageLimits(30, 10, 150, 50, 400, 10, 20, 2_000_000, 6),
    PageLimits(10, 5, 50, 20, 100, 3, 10, 500_000, 0),
)


def render_html(
    record: RunRecord,
    pictures: PictureSource | None,
    history: Sequence[PastValue] | None = None,
    painted: Mapping[str, Mapping[str, Painted]] | None = None,
) -> str:
    """The page as text, under 5 MB in UTF-8. It loads nothing: no script, no font, no address is fetched.

    `pictures` is called once, with the sets that are shown, and returns their encoded pictures; None, or an empty
    result, is for datasets that have scores only. `history` holds what earlier runs measured, oldest first; a check
    that has fewer than two numbers in it, with this run's, shows none. `painted` are the pictures of generators, by
    probe and model. The page says what was left out because it did
    not fit; results.json has all of it.
    """
    sets = wanted_sets(words.reading_order(record.checks))
    given = pictures(sets[:MOST_SETS]) if pictures is not None and sets else {}
    text = ""
    for limits in _LEVELS:
        sheets = contact_sheets(painted or {}, limits.painted)
        text = _render(record, album(given, sets, limits.picture_chars), limits, history or (), sheets)
        if len(text.encode()) <= MAX_BYTES:
            break
    return text


def _render(
    record: RunRecord, album: Album, limits: PageLimits, history: Sequence[PastValue], sheets: Sequence[ContactSheet]
) -> str:
    """The page with what fits within limits of a record; what does not is counted."""
    key = run_tables.group_key(record.dataset)
    checks = words.reading_order(record.checks)
    failing, waived, passing = words.by_outcome(checks)
    tables = run_tables.confusion_tables(record.confusions, key)
    shown = [*failing[: limits.failing], *waived[: limits.waived], *passing[: limits.passing]]
    views = _Views(
        record,
        album,
        key,
        {table.key: table for table in tables},
        charts.sparks_of(record, history, shown),
        limits.group_rows,
        filter_of(shown),
    )
    failed, excused = views.of(failing, limits.failing), views.of(waived[: limits.waived], limits.waived)
    page = {
        "filter": views.choices,
        "failing": failed,
        "waived": excused,
        "more_waived": len(waived) - len(excused),
        "passing": views.of(passing[: limits.passing], limits.passing),
        "more_passing": max(0, len(passing) - limits.passing),
        "subjects": run_tables.subject_tables(checks, limits.subjects)[: limits.tables],
        "effects": run_tables.effect_tables(checks, key, limits.subjects)[: limits.tables],
        "confusions": tables[: limits.tables],
        "more_confusions": max(0, len(tables) - limits.tables),
        "sheets": sheets,
    }
    return render_page("run", admit={"img-src": "data:"}, page=page, record=record, limits=limits, charts=charts)


@dataclass(slots=True)
class _Views:
    """Turns checks into views, spending group rows and confusion tables until there are none left."""

    record: RunRecord
    album: Album
    key: run_tables.GroupKey
    tables: dict[tuple[str, ...], Table]
    sparks: Mapping[str, charts.Spark]
    rows_left: int
    choices: PageFilter
    places: Iterator[int] = field(default_factory=partial(count, 1))
    shown_at: dict[str, str] = field(default_factory=dict)

    def of(self, checks: Sequence[CheckResult], most: int) -> list[dict[str, Any]]:
        """One view per check; the first `most` of them in full."""
        return [self.view(check, at < most) for at, check in enumerate(checks)]

    def view(self, check: CheckResult, in_full: bool) -> dict[str, Any]:
        """A check with its drawings, or, where it is not shown in full, its sentence alone."""
        anchor = f"check-{next(self.places)}"
        view = {"check": check, "anchor": anchor, "in_full": in_full}
        if not in_full:
            return view
        failing = check.verdict != "pass"
        grouped = len(check.groups) <= min(self.rows_left, _GROUPS_IN_A_CHECK)
        self.rows_left -= len(check.groups) if grouped else 0
        return view | {
            "groups": self._groups(check) if grouped else None,
            "heat": run_tables.heat_map(check, self.key) if grouped else None,
            "sets": [self._set(check, worst, anchor) for worst in shown_sets(check)],
            "confusion": self.tables.pop((check.probe, check.subject or ""), None) if failing else None,
            "history": self.sparks.get(check.item),
        }

    def _groups(self, check: CheckResult) -> Table | None:
        """The table of a check's groups, each row of which the filter finds."""
        table = run_tables.groups_table(check, words.unit_of(self.record))
        if table is None:
            return None
        return replace(
            table,
            lines=[
                replace(line, look=f"{line.look} {self.choices.of_group(line.name)}".strip()) for line in table.lines
            ],
        )

    def _set(self, check: CheckResult, worst: WorstSet, anchor: str) -> dict[str, Any]:
        """What the template draws of a worst set: its members in the order of groups, each with its picture or why it
        has none; its subject, where that is not clear, and how bad it is.

        `shown_at` is the anchor of an earlier check where the pictures are: a set speaks against several checks, and
        its pictures are in the file once.
        """
        unit = words.measured_as(self.record, check)
        earlier = self.shown_at.setdefault(worst.set_id, anchor)
        shown_at = None if earlier == anchor or self.album.empty else earlier
        members = sorted(worst.members, key=lambda member: self.key(member.group))
        values = [member.value for member in members if member.value is not None]
        ends = (min(values), max(values)) if len(values) > 1 and min(values) < max(values) else None
        views = []
        for member in members:
            place = (worst.set_id, member.member)
            uri = None if shown_at else self.album.uris.get(place)
            lack = None if uri or shown_at else "unreadable" if place in self.album.unreadable else "no picture"
            answer = answer_words(member, 60) if unit == words.ANSWERED and member.predicted else None
            mark = None
            if ends and answer is None and member.value in ends:
                mark = "lowest" if member.value == ends[0] else "highest"
            drawn = unit == "P(true)" and member.value is not None and 0 <= member.value <= 1
            share = charts.percent(100 * (member.value or 0.0)) if drawn else None
            texts = {"answer": answer, "measured": value_words(unit, member), "right": right_words(member, 60)}
            views.append({"member": member, "uri": uri, "lack": lack, "mark": mark, "share": share, **texts})
        subject = clean(worst.subject, 80) if len(words.subjects_of(self.record)) > 1 and check.subject is None else ""
        how_bad = ""
        if worst.spread is not None:
            text = "spread {number}" if (metric := words.spec_of(check)) is None else metric.worst_set
            how_bad = text.format(number=number(worst.spread), count=f"{worst.spread:g}")
        heading = " · ".join(part for part in (subject, how_bad) if part)
        lack = "Pictures left out to keep this file small." if worst.set_id in self.album.left_out else None
        lack = "No pictures are in this dataset." if self.album.empty else lack
        return {"worst": worst, "members": views, "said": heading, "lack": lack, "shown_at": shown_at}


MOST_SETS: Final = 24
_SIDES: Final = (256, 160, 96)
_MAGIC: Final = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}


@dataclass(frozen=True, slots=True)
class Album:
    """Data URIs by (set, member). `unreadable` pictures could not be decoded; sets of `left_out` did not fit."""

    uris: Mapping[tuple[str, str], str]
    unreadable: frozenset[tuple[str, str]] = frozenset()
    left_out: frozenset[str] = frozenset()

    @property
    def empty(self) -> bool:
        """Whether there was no picture to be had."""
        return not (self.uris or self.unreadable or self.left_out)


def wanted_sets(checks: Iterable[CheckResult]) -> list[str]:
    """The sets that the page lists: the worst few of each check that did not pass, in reading order, each once."""
    return list(dict.fromkeys(worst.set_id for check in checks for worst in shown_sets(check)))


def album(given: Mapping[str, Sequence[tuple[str, bytes]]], set_ids: Sequence[str], budget: int) -> Album:
    """The pictures of these sets (24 of them at most) as data URIs of at most `budget` characters together.

    Pictures that are small enough stay as they are. Otherwise larger ones are made smaller, step by step, and at last
    sets are left out from the end.
    """
    raw = {(set_id, member): data for set_id in set_ids[:MOST_SETS] for member, data in given.get(set_id, ())}
    encoded = {place: _as_they_are(data) for place, data in raw.items()}
    unreadable = frozenset(place for place, uri in encoded.items() if uri is None)
    uris = {place: uri for place, uri in encoded.items() if uri is not None}
    for side in _SIDES:
        if _size(uris) <= budget:
            break
        smaller = {place: _reencoded(raw[place], side) for place in uris}
        unreadable |= {place for place, uri in smaller.items() if uri is None}
        uris = {place: min(uris[place], uri, key=len) for place, uri in smaller.items() if uri is not None}
    left_out = set(set_ids[MOST_SETS:]) if raw else set()
    while _size(uris) > budget:
        last = next(reversed(uris))[0]
        left_out.add(last)
        uris = {place: uri for place, uri in uris.items() if place[0] != last}
    return Album(uris, unreadable, frozenset(left_out))


def _size(uris: Mapping[tuple[str, str], str]) -> int:
    return sum(map(len, uris.values()))


def _as_they_are(data: bytes) -> str | None:
    """A data URI of a raster format that every browser draws; others are decoded and written as PNG.

    None for what is no picture, or unpacks to more pixels than are decoded anywhere: a browser would try.
    """
    from fairgate.data import require_bounded

    kind = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "webp"
    if kind is None:
        return _reencoded(data, None)
    try:
        require_bounded(data)
    except ValueError:
        return None
    return data_uri(kind, data)


def _reencoded(data: bytes, side: int | None) -> str | None:
    from fairgate.data import decode

    try:
        picture = decode(data).convert("RGB")
    except ValueError:
        return None
    if side is None:
        return data_uri("png", png_of(picture))
    buffer = io.BytesIO()
    picture.thumbnail((side, side))
    picture.save(buffer, "JPEG", quality=82)
    return data_uri("jpeg", buffer.getvalue())


register(
    Output(
        "page",
        "report.html",
        ("gate", "render"),
        lambda record, context: render_html(record, context.pictures, context.past(), context.painted).encode(),
    )
)
