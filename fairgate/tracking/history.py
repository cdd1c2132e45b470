"""Runs as series: one per check item, cut where numbers cannot be compared, with the places where they moved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fairgate.ground.errors import SettingsError, did_you_mean
from fairgate.ground.number_format import number
from fairgate.records import CROSS, History, Move, PastRun, Point, Question, Series, item_name, same_architecture, steps
from fairgate.tracking.content import WHOLE, safe_part


def suite_history(
    suite: str,
    runs: Sequence[PastRun],
    *,
    check: str | None = None,
    subject: str | None = None,
) -> History:
    """Series of all items, or of a selection: `check` is an id or an item (`skew[doctor]`), `subject` also a word.

    Of items that measure the same number, as a bound and a margin on one metric do, one is included, unless `check`
    names another. Runs of another architecture than the newest are left out, and so are trials: runs of another one
    than their baseline, unless there are no others. Raises SettingsError where there is no run, or the selection is
    empty.
    """
    if not runs:
        raise SettingsError(
            f"suite '{suite}' has no finished run in this history.",
            where=f"fairgate history {suite}",
            remedy="gate a checkpoint: `fairgate check SUITE`; runs of pull requests need --pull-requests",
        )
    every, runs = runs, _of_one_architecture(runs)
    wanted = _wanted(runs, check, subject)
    by_commit = all(run.height is not None for run in runs)
    once = _told_once(wanted) if check is None else wanted
    shared = _shared_commits(runs)
    anchors = _anchors(runs)
    made = [
        _series(stem, question, runs, shared, by_commit, anchors.get((question.digest, _about(stem))))
        for stem, question in once.items()
    ]
    repeats = tuple(_item(stem, question) for stem, question in wanted.items() if stem not in once)
    others = tuple(run for run in every if run not in runs)
    return History(suite, tuple(runs), tuple(made), by_commit, repeats, others)


def _of_one_architecture(runs: Sequence[PastRun]) -> list[PastRun]:
    """The runs of the newest architecture that was no trial, and those of which it is not known."""
    newest = [run for run in reversed(runs) if run.weights is not None]
    shown = next((run for run in newest if not run.other_architecture), newest[0] if newest else None)
    return [run for run in runs if shown is None or same_architecture(run.weights, shown.weights)]


def _anchors(runs: Sequence[PastRun]) -> dict[tuple[str, str], str]:
    """The stems of comparisons with the anchor, by question and subject."""
    names: dict[tuple[str, str], str] = {}
    for run in runs:
        for stem in run.metrics:
            question = run.questions.get(_part(stem))
            if question is not None and question.against == "anchor" and stem.count("/") == 1:
                names[question.digest, _about(stem)] = stem
    return names


def _told_once(wanted: dict[str, Question]) -> dict[str, Question]:
    """Of the stems that measure one number, the one that is held to a bound, else the first."""
    chosen: dict[tuple[str, str], str] = {}
    for stem, question in sorted(wanted.items(), key=lambda entry: not entry[1].held):
        chosen.setdefault((question.digest, _about(stem)), stem)
    return {stem: question for stem, question in wanted.items() if stem in chosen.values()}


def _wanted(runs: Sequence[PastRun], check: str | None, subject: str | None) -> dict[str, Question]:
    """Stems of the selected items, with the newest question of each."""
    known: dict[str, Question] = {}
    for run in reversed(runs):
        for stem in run.metrics:
            part, slash, rest = stem.partition("/")
            if slash and "/" not in rest and part in run.questions:
                known.setdefault(stem, run.questions[part])
    name, bracket, about = (check or "").partition("[")
    only = safe_part(name) if check else None
    abouts = {
        safe_part(label) for label in (about.removesuffix("]") if bracket else None, subject) if label is not None
    }
    questions = {
        stem: question
        for stem, question in sorted(known.items(), key=lambda entry: _order(entry[0]))
        if only in (None, _part(stem)) and abouts <= {_about(stem)}
    }
    if not questions:
        raise _nothing(known, check=check, subject=subject)
    return questions


def _nothing(known: dict[str, Question], **selection: str | None) -> SettingsError:
    names = {
        "check": sorted({_part(stem) for stem in known} | {_item(stem) for stem in known}),
        "subject": sorted({_about(stem) for stem in known} - {WHOLE}),
    }
    hints = [did_you_mean(text, names[kind]) for kind, text in selection.items() if text and text not in names[kind]]
    listed = f"checks: {', '.join(sorted({_part(stem) for stem in known}))}" if known else "no run measured anything"
    words = ", ".join(f"{kind} '{text}'" for kind, text in selection.items() if text)
    return SettingsError(
        f"no item of the history has {words}." if words else "the runs keep no number of any check.",
        where="fairgate history",
        remedy=next((hint for hint in hints if hint), listed),
    )


def _series(
    stem: str,
    question: Question,
    runs: Sequence[PastRun],
    shared: set[str | None],
    by_commit: bool,
    anchor: str | None,
) -> Series:
    points = tuple(_points(stem, runs, shared, anchor))
    moved = (_move(before, after, by_commit) for before, after in steps(points))
    moves = tuple(move for move in moved if move is not None)
    measured = {point.place for point in points}
    without = tuple(
        Point(run, place, math.nan, None, None, None, run.commit in shared)
        for place, run in enumerate(runs)
        if place not in measured and _part(stem) in run.questions and points and place > points[0].place
    )
    series = Series(_item(stem, question), question, points, moves, None, without)
    last = series.stretches[-1] if points else []
    last = last[max((at for at, point in enumerate(last) if point.regrouped), default=0) :]  # one group's numbers
    if len(last) > 2 and not any(move.after in last for move in moves):
        return replace(series, drift=_move(last[0], last[-1], by_commit))
    return series


def _points(stem: str, runs: Sequence[PastRun], shared: set[str | None], anchor: str | None) -> Iterable[Point]:
    before: Point | None = None
    for place, run in enumerate(runs):
        if (value := run.metrics.get(stem)) is None:
            continue
        lo, hi, bound = (run.metrics.get(f"{stem}/{suffix}") for suffix in ("lo", "hi", "bound"))
        now, delta = (run.metrics.get(f"{anchor}{suffix}") for suffix in ("", "/delta"))
        start = None if now is None or delta is None else now - delta
        cut = None if before is None else _cut(before.run, run, _part(stem))
        compared = _part(stem) in run.questions and run.questions[_part(stem)].rule == "no_worse_than"
        group = group_of(run.metrics, stem) if compared else None
        point = Point(run, place, value, lo, hi, bound, run.commit in shared, cut, start, group)
        before = point if before is None or cut is not None else _of_its_group(before, point, stem)
        yield before


def _of_its_group(before: Point, now: Point, stem: str) -> Point:
    """`now`, which says so if the number before is another group's, with both groups' numbers at both runs."""
    if before.group is None or now.group is None or before.group == now.group:
        return now
    start = f"{stem}/group/{safe_part(now.group)}"
    was, lo, hi = (before.run.metrics.get(f"{start}{suffix}") for suffix in ("", "/lo", "/hi"))
    left = now.run.metrics.get(f"{stem}/group/{safe_part(before.group)}")
    regrouped = (
        f"now of {now.group} ({number(was)} → {number(now.value)}), "
        f"before of {before.group} ({number(before.value)} → {number(left)})"
    )
    earlier = None if was is None else replace(before, value=was, lo=lo, hi=hi, group=now.group)
    return replace(now, regrouped=regrouped, earlier=earlier)


def _shared_commits(runs: Sequence[PastRun]) -> set[str | None]:
    """Commits at which several checkpoints ran, so that they are in no tracked file."""
    models: dict[str | None, set[str]] = {}
    for run in runs:
        if run.model is not None:
            models.setdefault(run.commit, set()).add(run.model)
    return {commit for commit, fingerprints in models.items() if len(fingerprints) > 1}


def _cut(before: PastRun, run: PastRun, part: str) -> str | None:
    if before.fingerprint != run.fingerprint:
        if before.dataset == run.dataset:
            return f"the content of dataset {run.dataset} changed"
        return f"dataset {before.dataset} became {run.dataset}"
    was, now = before.questions.get(part), run.questions.get(part)
    if was is None or now is None:
        return "the earlier question is not known"
    if was.digest != now.digest:
        return "the question changed: prompts, labels, groups or the metric's version"
    return None


def group_of(metrics: Mapping[str, float], stem: str) -> str | None:
    """The group whose number is an item's; None if it has no groups, or several have this number.

    The number of a comparison in groups is that of the group which settled it: of two runs, perhaps of two groups.
    MLflow's names have no cross: if all groups are called as `female - dark` there, they are crossed.
    """
    start, value = f"{stem}/group/", metrics.get(stem)
    groups = {name.removeprefix(start): number for name, number in metrics.items() if name.startswith(start)}
    names = [name for name in groups if "/" not in name]
    own = [name for name in names if groups[name] == value]
    if len(own) != 1:
        return None
    return own[0].replace(" - ", CROSS) if all(" - " in name for name in names) else own[0]


_LEAST = 5e-5
"""A change that every table writes as next to nothing is none, however narrow the intervals."""


def _move(before: Point, after: Point, by_commit: bool) -> Move | None:
    """None where the numbers agree within both intervals, or where one has no interval.

    The intervals are joined as in Zou & Donner 2008 (MOVER), which takes them for independent. Runs on the same images
    have correlated errors, so that this is stricter than a paired test.
    """
    delta = after.value - before.value
    rising = delta > 0
    ends = (before.hi, after.lo) if rising else (before.lo, after.hi)
    if ends[0] is None or ends[1] is None or not delta:
        return None
    halves = (abs(ends[0] - before.value), abs(after.value - ends[1]))
    allowed = math.hypot(*halves)
    if abs(delta) <= allowed + _LEAST:
        return None
    heights = before.run.height, after.run.height
    move = Move(before, after, delta, allowed, None)
    if by_commit and move.by_commit and heights[0] is not None and heights[1] is not None:
        return replace(move, unseen=max(0, heights[1] - heights[0] - 1))
    return move


def _part(stem: str) -> str:
    return stem.partition("/")[0]


def _about(stem: str) -> str:
    return stem.partition("/")[2]


def _item(stem: str, question: Question | None = None) -> str:
    """The item of a stem; of a question about the anchor, as it is named there."""
    about = None if _about(stem) == WHOLE else _about(stem)
    if question is not None and question.against == "anchor":
        return item_name(_part(stem).removesuffix("-anchor"), about, "anchor")
    return item_name(_part(stem), about)


def _order(stem: str) -> tuple[str, bool, str]:
    return _part(stem), _about(stem) != WHOLE, _about(stem)
