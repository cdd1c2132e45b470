"""Does a suite load, on which data, with which waivers and leniencies? What would a gate run make of it?"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Final

from fairgate import gate
from fairgate.doctor.finding import Finding, ok, trouble, warning
from fairgate.suites import LoadedSuite, Settings
from fairgate.suites.advice import advice

SOON: Final = timedelta(days=14)
"""A waiver that ends within these is worth a word."""


def look_at_suite(prepared: gate.Prepared, settings: Settings, today: date) -> list[Finding]:
    """What a loaded and planned suite holds, and where it is lenient."""
    loaded, area = prepared.loaded, f"suite {prepared.loaded.name}"
    items, manifest = len(prepared.planned), prepared.dataset.manifest
    what = f"{len(loaded.suite.checks)} checks make {items} items on {manifest.ref} ({manifest.n_sets:,} sets)"
    found = [ok(area, what, where=shown(loaded.path, prepared.root))]
    found += [warning(area, one.problem, one.where, one.remedy) for one in advice(loaded)]
    found += [_waiver(area, loaded, place, today) for place in range(len(loaded.suite.waivers))]
    if settings.on_inconclusive == "warn":
        what = "thin evidence opens the gate: on_inconclusive is `warn`."
        own = loaded.suite.on_inconclusive == "warn"
        where = loaded.where("on_inconclusive") if own else "FAIRGATE_ON_INCONCLUSIVE, or the ini file"
        remedy = "use `fail` once there is a baseline with enough sets; `fairgate power` tells how many"
        found.append(warning(area, what, where, remedy))
    return found


def shown(path: Path, root: Path) -> str:
    """A path as seen from the repository."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _waiver(area: str, loaded: LoadedSuite, place: int, today: date) -> Finding:
    waiver = loaded.suite.waivers[place]
    item = waiver.check if waiver.subject is None else f"{waiver.check}[{waiver.subject}]"
    where = loaded.where("waivers", place)
    if waiver.until < today:
        what = f"the waiver of {item} expired on {waiver.until}: it waives nothing any more."
        return trouble(area, what, where, "mend what it waived and remove it, or agree on another date, with a reason")
    what = f"{item} is waived until {waiver.until} ({waiver.reason})"
    if waiver.until - today <= SOON:
        left = f"{(waiver.until - today).days} day(s) are left"
        return warning(area, f"{what}: {left}.", where, "mend what it waives before the gate shuts")
    return ok(area, what, where)
