"""A first suite whose margins and tiers are measured: what its images can decide."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from fairgate import gate, reports
from fairgate.data import Dataset
from fairgate.ground.errors import FairgateError, SuiteError
from fairgate.metrics import METRICS
from fairgate.studies.power.decidable import LOSSES, CheckOutlook, Outlook, Simulation, outlook, with_losses
from fairgate.studies.power.harmless import (
    Change,
    Scores,
    base_scores,
    harmless_changes,
    has_weights,
    regressions,
    turned,
)
from fairgate.suites import FOLDER, TOLERATES, Settings, Suite, annotated, load_text, resolve

_USE = "is the model still of use"

MEASURED = 1000
"""A suite for no more images is measured if nobody says otherwise: more can decide nearly all checks."""
Write = Callable[..., str]
"""From `margin`, and perhaps `min_sets`, to the text of a suite with them."""
WIDEST = 0.5
"""A margin beyond which none is proposed."""
_SEARCHED = 4
"""Margins that are tried to find about the smallest that these images decide."""


@dataclass(frozen=True, slots=True)
class FirstSuite:
    """The text of a suite, and what it can decide, a line each."""

    text: str
    lines: tuple[str, ...]


def measured_suite(
    name: str,
    root: Path,
    data: Dataset,
    write: Write,
    *,
    tolerates: float | None = None,
    like: Sequence[str] = (),
    progress: gate.Progress | None = None,
) -> FirstSuite:
    """A suite with the margin that the team tolerates (None: the smallest of 0.03 to 0.05 that the images can decide).

    A check that a harmless change would not pass is watched. `like` are checkpoints that the team calls harmless.
    Raises SuiteError, with what is missing, if no check by group or none of usefulness can be decided.
    """
    path = root / FOLDER / f"{name}.yaml"

    def prepared(text: str) -> gate.Prepared:
        loaded = load_text(text.encode(), path, shown=f"{FOLDER}/{name}.yaml")
        return gate.prepared_on(loaded, data, root)

    margins = TOLERATES if tolerates is None else (tolerates,)
    first = prepared(write(margin=margins[0]))
    settings = resolve(first.loaded.suite, {"mlflow": "off", "baseline": "none"})
    try:
        base = base_scores(first, settings, progress)
    except FairgateError as error:  # such as labels that the probe's `words` have to name
        remedy = f"{error.remedy or 'see above'}; or write the suite with --no-measured, and edit it"
        raise type(error)(error.problem, where=error.where, remedy=remedy) from error
    changes, left_out = harmless_changes(first, settings, base, like, progress)

    drafts: dict[str, _Draft] = {}

    def tried(margin: float, **options: int) -> _Draft:
        text = write(margin=margin, **options)
        if text in drafts:  # numbers have margins in their own units
            return drafts[text]
        here = prepared(text)
        simulation = Simulation(here, changes, progress, approximate=len(data.index) > MEASURED)
        measured = outlook(simulation, here.loaded.suite)
        decides = annotated(text, {check.id: ("", check.decides) for check in measured.checks})
        complete = not _missing(here.loaded.suite, measured) and _is_complete(prepared, decides)
        drafts[text] = _Draft(margin, text, here, simulation, measured, complete)
        return drafts[text]

    draft = _narrowest(tried, margins)
    views = _proposal(first, settings)
    if not draft.complete:
        raise _undecidable(name, draft, [*_remedies(draft, tried, margins), *views])
    lines = [*left_out, *_saturated(draft, base)]
    if draft.margin > margins[0]:
        lines.insert(len(left_out), f"margin {margins[0]:g} cannot be decided on these images")
    return _noted(draft, changes, lines, views)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A suite with a margin, what its checks decide, and whether those that decide are enough of a suite."""

    margin: float
    text: str
    prepared: gate.Prepared
    simulation: Simulation
    measured: Outlook
    complete: bool

    @property
    def suite(self) -> Suite:
        """As it was read."""
        return self.prepared.loaded.suite


def _narrowest(tried: Callable[..., _Draft], margins: Sequence[float]) -> _Draft:
    """The suite with the first margin that decides; if none does, the last that is not hopeless."""
    draft = tried(margins[0])
    for margin in margins[1:]:
        if not draft.complete and not _hopeless(draft, margin):
            draft = tried(margin)
    return draft


def _saturated(draft: _Draft, base: Scores) -> list[str]:
    """What the checks that decide cannot see, since the model is at an end of their scales."""
    results = regressions(draft.prepared, base, base)
    deciding = [check for check in results if draft.measured.of(check.id).decides]
    return [f"{remark.level}: {remark.text}" for remark in reports.saturated(deciding)]


def _noted(draft: _Draft, changes: Sequence[Change], lines: Sequence[str], views: Sequence[str]) -> FirstSuite:
    """The suite with a comment above each check on what it decides."""
    measured = with_losses(draft.measured, draft.simulation, draft.suite)
    alike = {check.id for check in draft.suite.checks if METRICS[check.metric].spec.tempered}
    whole = {check.id for check in draft.suite.checks if check.over is None}
    notes = {
        check.id: (_note(check, measured.unit, views, alike=check.id in alike, whole=check.id in whole), check.decides)
        for check in measured.checks
    }
    of = f"{len(draft.prepared.dataset.index):,} images and {len(changes)} harmless changes"
    together = f"all checks that decide pass a harmless change {measured.together:.0%} of the time"
    lines = [f"margin {draft.margin:g}; {together}", *lines]
    head = "".join(f"# {line}\n" for line in (f"Measured on {of}", *_described(changes), *lines))
    told = [f"{id_}: {note}" for id_, (note, _) in notes.items()]
    return FirstSuite(head + annotated(draft.text, notes), (*lines, *told))


def _is_complete(prepared: Callable[[str], gate.Prepared], text: str) -> bool:
    """Whether what is left of a suite still tells if a model is of use, once undecidable checks are watched."""
    try:
        prepared(text)
    except SuiteError:
        return False
    return True


def _remedies(draft: _Draft, tried: Callable[..., _Draft], margins: Sequence[float]) -> list[str]:
    """Options with which a suite was found to decide, on these images: each with the smallest margin that was."""
    wider, alone, remedies = _wider(draft, tried), None, []
    if wider is not None:
        remedies.append(f"tolerate a larger loss: --tolerates {wider.margin:g}, {_passes(wider)}")
    if "crossed" in {check.over for check in draft.suite.checks}:
        least = draft.measured.fewest + 1
        alone = _each_alone(partial(tried, min_sets=least), margins)
    if alone is not None and (wider is None or alone.margin < wider.margin):
        margin = "" if alone.margin == margins[0] else f" --tolerates {alone.margin:g}"
        remedies.append(f"compare attributes one by one and not crossed: --min-sets {least}{margin}, {_passes(alone)}")
    return remedies


def _passes(draft: _Draft) -> str:
    return f"at which a harmless change passes {draft.measured.together:.0%} of {draft.measured.runs} simulated runs"


def _each_alone(tried: Callable[..., _Draft], margins: Sequence[float]) -> _Draft | None:
    """A suite without crossings that decides, with about the smallest margin; None if there is none."""
    try:
        draft = _narrowest(tried, margins)
    except SuiteError:  # no attribute has so many of every group
        return None
    return draft if draft.complete else _wider(draft, tried)


def _wider(draft: _Draft, tried: Callable[..., _Draft]) -> _Draft | None:
    """A suite with about the smallest margin that these images decide; None if there is none up to `WIDEST`."""
    low, high, best = draft.margin, _wanted(draft), None
    for _ in range(_SEARCHED):
        margin = high if best is None else _rounded((low + high) / 2)
        if margin > WIDEST or (best is not None and margin >= high):
            break
        wider = tried(margin)
        if wider is draft:
            break
        if wider.complete:
            best, high = wider, margin
        else:
            low, high = margin, high if best else _rounded(1.5 * high)
    return best


def _wanted(draft: _Draft) -> float:
    """The margin at which the nearest check by group, and of usefulness, pass a harmless change by their limits."""
    useful = [check for check in draft.suite.checks if check.no_worse_than and METRICS[check.metric].spec.utility]
    margins = []
    for checks in (_by_group(draft.measured, draft.suite), [draft.measured.of(check.id) for check in useful]):
        known = [check.margin for check in checks if check.margin is not None]
        margins += [min(known)] if known else []
    return _rounded(max([*margins, draft.margin + 0.01]))


def _rounded(margin: float) -> float:
    """Upwards, to two digits behind the point."""
    return math.ceil(100 * margin - 1e-9) / 100


def _described(changes: Sequence[Change]) -> list[str]:
    """What the changes are, and how many answers differ between two: none, perhaps, of a model that is always right."""
    shares = [turned(old.scores, new.scores) for old, new in pairwise(changes)]
    known = [share for share in shares if share is not None]
    differ = f"; {np.mean(known):.1%} of answers differ between two" if known else ""
    times = Counter(change.name for change in changes)
    names = ", ".join(f"{name} ({count} times)" if count > 1 else name for name, count in times.items())
    return [f"({names}{differ}):"]


def _hopeless(draft: _Draft, margin: float) -> bool:
    """Whether a wider margin, too, leaves even the nearest check by group twice short of images."""
    needed = [check.needed for check in _by_group(draft.measured, draft.suite) if check.needed is not None]
    return bool(needed) and min(needed) * (draft.margin / margin) ** 2 > 2 * draft.measured.units


def _by_group(measured: Outlook, suite: Suite) -> list[CheckOutlook]:
    """Checks that compare each group with itself; those of gaps if there are no such."""
    by_group = [check for check in suite.checks if check.no_worse_than and check.over]
    own = [check for check in by_group if METRICS[check.metric].spec.utility] or by_group
    return [measured.of(check.id) for check in own]


def _missing(suite: Suite, measured: Outlook) -> list[str]:
    """The questions of which no check decides: what happens to groups, and usefulness."""
    deciding = [check for check in suite.checks if measured.of(check.id).decides]
    by_group = [check for check in deciding if check.no_worse_than and check.over]
    useful = [check for check in deciding if METRICS[check.metric].spec.utility]
    grouped = any(check.over for check in suite.checks)  # a dataset without groups has none that lose
    return [*["does a group lose"] * (grouped and not by_group), *[_USE] * (not useful)]


def _proposal(prepared: gate.Prepared, settings: Settings) -> list[str]:
    """That more views of the same images may do: of single images, few enough, that a checkpoint at hand scores."""
    few = not prepared.dataset.manifest.counterfactual and len(prepared.dataset.index) <= MEASURED
    without = all(probe.views == 1 for probe in prepared.loaded.suite.probes.values())
    possible = few and without and has_weights(settings.model, prepared.root)
    return ["score views of each image: --views 16 (16 times the time, and not tried)"] if possible else []


def _note(check: CheckOutlook, unit: str, views: Sequence[str], *, alike: bool, whole: bool) -> str:
    """What a check can decide; a loss of P(true) is simulated `alike` in all images of a group. A check of the `whole`,
    without groups, sees a group's loss among all images."""
    if not check.decides:
        either = ", or `--views 16`," if views else ""
        enough = (
            f"; about {check.needed or 0:,} {unit}s{' in all' if whole else ' of each group'}{either} would decide it"
        )
        return f"watched: a harmless change passes {check.passes:.0%} of the time{enough if check.needed else ''}"
    if check.loss is not None:
        if check.loss == math.inf:
            return f"may pass a loss of {LOSSES[-1]:.2f} of one group alone, the largest that was tried"
        spread = ", alike in all its images" if alike else ""
        fails = "compares all images as one: fails if a single group loses" if whole else "fails if a group loses"
        return f"{fails} {check.loss:.2f} or more{spread} (9 of 10 times); a smaller loss may pass"
    return f"passes a harmless change {check.passes:.0%} of the time"


def _undecidable(name: str, draft: _Draft, remedies: Sequence[str]) -> SuiteError:
    measured, suite = draft.measured, draft.suite
    questions = _missing(suite, measured) or [_USE]
    regressions = [check for check in suite.checks if check.no_worse_than]
    useful = [measured.of(check.id) for check in regressions if METRICS[check.metric].spec.utility]
    asking = useful if questions == [_USE] else _by_group(measured, suite)
    nearest = max((check for check in asking if not check.decides), key=lambda check: check.passes, default=None)
    needs, margin = "", draft.margin
    if nearest is not None:
        check = next(check for check in suite.checks if check.id == nearest.id)
        margin, each = check.bound, " of each group" if check.over else ""
        needs = f": '{nearest.id}' passes one {nearest.passes:.0%} of the time"
        if nearest.needed is not None:
            needs += f", and needs about {nearest.needed:,} {measured.unit}s{each}"
    what = " and ".join(f'"{question}?"' for question in questions)
    return SuiteError(
        f"these images cannot decide {what} A harmless change would not pass at a margin of {margin:g}{needs}.",
        where=f"{FOLDER}/{name}.yaml",
        remedy="; or ".join([*remedies, "bring more images", "name harmless checkpoints with --like"]),
    )
