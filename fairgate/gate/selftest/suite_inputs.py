"""A suite's settings and waivers, its checkpoint, and whether its baseline and anchor can be found and compared."""

from __future__ import annotations

import math
import tempfile
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from fairgate import gate, reports
from fairgate.gate.baselines import BaselineSpec, RecordFiles, mismatch, parse_baseline, require_own_scores
from fairgate.gate.selftest.finding import Finding, of_error, ok, trouble, warning
from fairgate.ground.errors import BaselineError, FairgateError
from fairgate.probes import read_scores, scores_digest
from fairgate.records import Against, CheckResult, GroupResult, RunRecord, item_name
from fairgate.suites import LoadedSuite, Settings, advice, blind_spots

SOON: Final = timedelta(days=14)
"""A waiver that ends within these is worth a word."""


def look_at_suite(prepared: gate.Prepared, settings: Settings, today: date) -> list[Finding]:
    """What a planned suite contains, and where it is lenient."""
    loaded, area = prepared.loaded, f"suite {prepared.loaded.name}"
    items, manifest = len(prepared.planned), prepared.dataset.manifest
    what = f"{len(loaded.suite.checks)} checks make {items} items on {manifest.ref} ({manifest.n_sets:,} sets)"
    shown = loaded.path.relative_to(prepared.root) if loaded.path.is_relative_to(prepared.root) else loaded.path
    findings = [ok(area, what, where=str(shown))]
    hints = [*advice(loaded, settings.model), *blind_spots(loaded, manifest, prepared.dataset.index)]
    findings += [warning(area, hint.problem, hint.where, hint.remedy) for hint in hints]
    findings += [_waiver(area, loaded, place, today) for place in range(len(loaded.suite.waivers))]
    if settings.on_inconclusive == "warn":
        what = "thin evidence opens the gate: on_inconclusive is `warn`."
        own = loaded.suite.on_inconclusive == "warn"
        where = loaded.where("on_inconclusive") if own else "FAIRGATE_ON_INCONCLUSIVE, or the ini file"
        remedy = "use `fail` once there is a baseline with enough sets; `fairgate power` tells how many"
        findings.append(warning(area, what, where, remedy))
    return findings


def look_at_drift(prepared: gate.Prepared) -> list[Finding]:
    """Losses below the margin, each of which becomes the baseline of the next change, add up without an anchor."""
    suite = prepared.loaded.suite
    if suite.anchor is not None or not any(planned.check.no_worse_than for planned in prepared.planned):
        return []
    what = "no anchor: losses below the margin add up, since each of them becomes the baseline of the next change."
    remedy = f"`fairgate baseline anchor {suite.suite}` writes the line, once a baseline is merged"
    return [warning(f"suite {suite.suite}", what, prepared.loaded.path.name, remedy)]


def _waiver(area: str, loaded: LoadedSuite, place: int, today: date) -> Finding:
    waiver = loaded.suite.waivers[place]
    item = item_name(waiver.check, waiver.subject)
    where = loaded.where("waivers", place)
    if waiver.until < today:
        what = f"the waiver of {item} expired on {waiver.until}: it waives nothing any more."
        return trouble(area, what, where, "fix what it waived and remove it, or agree on another date, with a reason")
    what = f"{item} is waived until {waiver.until} ({waiver.reason})"
    if waiver.until - today <= SOON:
        left = f"{(waiver.until - today).days} day(s) are left"
        return warning(area, f"{what}: {left}.", where, "fix what it waives before the gate closes")
    return ok(area, what, where)


_MAKE = "make one and commit it: `fairgate baseline update SUITE --reason TEXT`"


def look_at_models(prepared: gate.Prepared, settings: Settings) -> list[Finding]:
    """The suite's own checkpoint, its baseline and its anchor: found, hashed, and comparable. Nothing is scored."""
    area = f"suite {prepared.loaded.name}"
    try:
        scorer = gate.open_model(settings.model, prepared, settings)
        identity = getattr(scorer, "served", None) or scorer.fingerprint[:12]
        checkpoint = ok(area, f"the checkpoint is there ({identity})", where=settings.model)
    except FairgateError as error:
        remedy = f"{error.remedy or ''}; CI may name another with --fairness-model".lstrip("; ")
        what = f"the checkpoint cannot be opened: {error.problem}"
        checkpoint = warning(area, what, error.where, remedy)
    baseline = _compared(area, settings.baseline, prepared, settings, "baseline")
    return [
        checkpoint,
        *baseline,
        *_compared(area, prepared.loaded.suite.anchor or "none", prepared, settings, "anchor"),
    ]


def _compared(area: str, text: str, prepared: gate.Prepared, settings: Settings, role: Against) -> list[Finding]:
    compares = any(planned.check.no_worse_than for planned in prepared.planned)
    try:
        spec = parse_baseline(text, where=role)
    except BaselineError as error:
        return [of_error(area, error)]
    if spec.kind == "none":
        return [] if role == "anchor" else [_no_baseline(area, prepared, compares)]
    if not compares:
        what = f"no check compares with the {role}, and {spec} is named."
        return [warning(area, what, remedy="add a check with `no_worse_than: baseline` and a margin")]
    try:
        if spec.kind == "model":
            model = gate.open_model(spec.target, prepared, settings)
            what = f"the {role} is a checkpoint ({model.fingerprint[:12]}), scored in every run"
            return [ok(area, what, where=str(spec))]
        with tempfile.TemporaryDirectory(prefix="fairgate-doctor-") as scratch:
            files = gate.saved_record(spec, prepared.loaded.name, prepared.repository, settings.mlflow, Path(scratch))
            return _record(area, spec, files, prepared, settings, role)
    except FairgateError as error:
        return [trouble(area, f"the {role} cannot be used: {error.problem}", error.where or str(spec), error.remedy)]


def _no_baseline(area: str, prepared: gate.Prepared, compares: bool) -> Finding:
    where = prepared.loaded.path.name
    if compares:
        what = "there are regression checks and no baseline: they stay inconclusive."
        remedy = "name one: `baseline: git:origin/main` in the suite, or --fairness-baseline"
        return trouble(area, what, where=where, remedy=remedy)
    what = "no check compares with a baseline: a checkpoint may grow more biased up to the bounds."
    return warning(area, what, where=where, remedy="add a check with `no_worse_than: baseline` and a margin")


def _record(
    area: str, spec: BaselineSpec, files: RecordFiles, prepared: gate.Prepared, settings: Settings, role: Against
) -> list[Finding]:
    """A saved record: its own scores, the same data and probes; else whether its checkpoint can be scored again."""
    record = reports.read_results(files.results)
    where = files.origin or str(spec)
    gate.require_intact(prepared.dataset, settings, prepared.root, None)
    differs = mismatch(record, gate.dataset_info(prepared.dataset), [gate.compared_probes(prepared)])
    if differs is None:
        scores = read_scores(files.scores, prepared.dataset.index)
        require_own_scores(record, scores_digest(scores), where)
        what = f"the {role} of {record.created_at[:10]} is there, of the same data and probes"
        findings = [ok(area, what, where=where)]
        if lacking := sorted(gate.needs_entropy(prepared.planned, role) - record.answer_entropy.keys()):
            what = (
                f"the {role}'s record holds no mean answer entropies of {', '.join(lacking)}: its checkpoint is scored "
                "again for them in every run, and where it is not to be had, no regression of P(true) passes."
            )
            findings.append(warning(area, what, where=where, remedy=_MAKE))
        return findings + _undecidable(area, record, where)
    try:
        again = gate.open_model(record.model.uri, prepared, settings)
    except FairgateError as error:
        what = f"the {role} cannot be compared: {differs}; nor can its checkpoint be scored again: {error.problem}"
        return [trouble(area, what, where=where, remedy=_MAKE)]
    if again.fingerprint != record.model.fingerprint:
        what = f"the {role} cannot be compared: {differs}; and '{record.model.uri}' is another checkpoint by now."
        return [trouble(area, what, where=where, remedy=_MAKE)]
    what = f"the {role}'s checkpoint is scored again in every run: {differs}."
    return [warning(area, what, where=where, remedy=_MAKE)]


def _undecidable(area: str, record: RunRecord, where: str) -> list[Finding]:
    """Checks whose limits reached farther than their margin in the record's own comparison: no change would pass."""
    findings, unit = [], reports.unit_of(record)
    for check in record.checks:
        groups = [group for group in check.groups if group.delta is not None]
        parts: list[CheckResult | GroupResult] = [*groups] or [check]
        reach, units = max((_reach(part, check.better), part.n_sets) for part in parts)
        if check.rule != "no_worse_than" or check.watched or not check.bound or reach <= check.bound:
            continue
        what = (
            f"{check.item} had limits of {reach:.3f} on {units:,} {unit}s in the record's run, and has a margin of "
            f"{check.bound:g}: a change of 0 would be inconclusive."
        )
        more = f"about {math.ceil(units * (reach / check.bound) ** 2):,} {unit}s{' of the group' if groups else ''}"
        remedy = f"{more}, a wider margin, or `tier: watch`; `fairgate power {record.suite}` simulates what passes"
        findings.append(warning(area, what, where=where, remedy=remedy))
    return findings


def _reach(part: CheckResult | GroupResult, better: str | None) -> float:
    """From a change to the limit that has to clear the margin; 0 if there is none."""
    limit = part.delta_hi if better == "lower" else part.delta_lo
    return 0.0 if part.delta is None or limit is None or not math.isfinite(limit) else abs(part.delta - limit)
