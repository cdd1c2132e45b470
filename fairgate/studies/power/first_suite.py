"""A first suite whose margins and tiers are measured: what its images can decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from fairgate import gate
from fairgate.data import Dataset
from fairgate.ground.errors import SuiteError
from fairgate.metrics import METRICS
from fairgate.studies.power.decidable import CheckOutlook, Outlook, Simulation, outlook, with_losses
from fairgate.studies.power.harmless import Change, base_scores, harmless_changes, has_weights, turned
from fairgate.suites import FOLDER, TOLERATES, Settings, Suite, annotated, load_text, resolve

_USE = "is the model still of use"

MEASURED = 1000
"""A suite for no more images is measured if nobody says otherwise: more can decide nearly all checks."""
Write = Callable[[float], str]
"""From a margin to the text of a suite with it."""


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
        here = gate.planned_on(loaded, data)
        return gate.Prepared(loaded, here.planned, here.null, dataset=data, root=root)

    margins = TOLERATES if tolerates is None else (tolerates,)
    first = prepared(write(margins[0]))
    settings = resolve(first.loaded.suite, {"mlflow": "off", "baseline": "none"})
    changes, left_out = harmless_changes(first, settings, base_scores(first, settings, progress), like, progress)
    here, measured, tried = first, None, margins[0]
    for margin in margins:
        if measured is not None and _hopeless(measured, here.loaded.suite, tried / margin):
            continue
        text, tried = write(margin), margin
        here = prepared(text)
        simulation = Simulation(here, changes, progress)
        measured = outlook(simulation, here.loaded.suite)
        decides = {check.id: ("", check.decides) for check in measured.checks}
        if not _missing(here.loaded.suite, measured) and _is_complete(prepared, annotated(text, decides)):
            measured = with_losses(measured, simulation, here.loaded.suite)
            views = _proposal(here, settings)
            alike = {check.id for check in here.loaded.suite.checks if METRICS[check.metric].spec.tempered}
            notes = {
                check.id: (_note(check, measured.unit, views, alike=check.id in alike), check.decides)
                for check in measured.checks
            }
            of = f"{len(data.index):,} images and {len(changes)} harmless changes"
            together = f"all checks that decide pass a harmless change {measured.together:.0%} of the time"
            lines = [f"margin {margin:g}; {together}", *left_out]
            if margin > margins[0]:
                lines.append(f"margin {margins[0]:g} cannot be decided on these images")
            head = "".join(f"# {line}\n" for line in (f"Measured on {of}", *_described(changes), *lines))
            told = [f"{id_}: {note}" for id_, (note, _) in notes.items()]
            return FirstSuite(head + annotated(text, notes), (*lines, *told))
    assert measured is not None
    raise _undecidable(name, here.loaded.suite, measured, tried, _proposal(here, settings))


def _is_complete(prepared: Callable[[str], gate.Prepared], text: str) -> bool:
    """Whether what is left of a suite still tells if a model is of use, once undecidable checks are watched."""
    try:
        prepared(text)
    except SuiteError:
        return False
    return True


def _described(changes: Sequence[Change]) -> list[str]:
    """What the changes are, and how many answers differ between two: none, perhaps, of a model that is always right."""
    shares = [turned(old.scores, new.scores) for old, new in pairwise(changes)]
    known = [share for share in shares if share is not None]
    differ = f"; {np.mean(known):.1%} of answers differ between two" if known else ""
    times = Counter(change.name for change in changes)
    names = ", ".join(f"{name} ({count} times)" if count > 1 else name for name, count in times.items())
    return [f"({names}{differ}):"]


def _hopeless(measured: Outlook, suite: Suite, narrower: float) -> bool:
    """Whether a margin that is so many times narrower leaves even the nearest check by group twice short of images."""
    needed = [check.needed for check in _by_group(measured, suite) if check.needed is not None]
    return bool(needed) and min(needed) * narrower**2 > 2 * measured.units


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
    return [*["does a group lose"] * (not by_group), *[_USE] * (not useful)]


def _proposal(prepared: gate.Prepared, settings: Settings) -> str:
    """What more views of the same images may do: of single images, few enough, that a checkpoint at hand scores."""
    few = not prepared.dataset.manifest.counterfactual and len(prepared.dataset.index) <= MEASURED
    without = all(probe.views == 1 for probe in prepared.loaded.suite.probes.values())
    return ", or `--views 16`" if few and without and has_weights(settings.model, prepared.root) else ""


def _note(check: CheckOutlook, unit: str, views: str, *, alike: bool) -> str:
    """What a check can decide; a loss of P(true) is simulated `alike` in all images of a group."""
    if not check.decides:
        enough = f"; about {check.needed or 0:,} {unit}s of each group{views} would decide it"
        return f"watched: a harmless change passes {check.passes:.0%} of the time{enough if check.needed else ''}"
    if check.loss is not None:
        spread = ", alike in all its images" if alike else ""
        return f"fails a group's loss of {check.loss:.2f} or more{spread} (9 of 10 times)"
    return f"passes a harmless change {check.passes:.0%} of the time"


def _undecidable(name: str, suite: Suite, measured: Outlook, margin: float, views: str) -> SuiteError:
    nearest = max(_by_group(measured, suite), key=lambda check: check.passes, default=None)
    what = " and ".join(f'"{question}?"' for question in _missing(suite, measured) or [_USE])
    needs = ""
    if nearest is not None:
        needs = f": '{nearest.id}' passes one {nearest.passes:.0%} of the time"
        if nearest.needed is not None:
            needs += f", and needs about {nearest.needed:,} {measured.unit}s of each group"
    return SuiteError(
        f"these images cannot decide {what} A harmless change would not pass at a margin of {margin:g}{needs}.",
        where=f"{FOLDER}/{name}.yaml",
        remedy=f"bring more images{views}; or name harmless checkpoints with --like, or a larger loss that you "
        "tolerate with --tolerates",
    )
