"""results.json: written whole or not at all, read strictly, because the next run is held against it."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

from pydantic import ValidationError

from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import BaselineError, clean, disk_errors
from fairgate.ground.hashing import read_bounded, require_regular
from fairgate.ground.text import unique_keys
from fairgate.ground.validation_words import fault_words
from fairgate.records import SCHEMA_VERSION, SCORES, STRICTNESS, CheckResult, Coverage, GroupResult, RunRecord, Verdict
from fairgate.reports.formatting import compared_with, reference, spec_of, tally
from fairgate.reports.outputs import Output, register

FILE_NAME: Final = "results.json"
MAX_BYTES: Final = 50 * 1024 * 1024
_FAULTS: Final = 3
_NOT_BELIEVED: Final = "do not trust it: it was edited, forged or damaged; run the suite again, or fetch an honest copy"
_RECORD_AGAIN: Final = "record it again with this version of fairgate, or fetch an undamaged copy"


def write_results(record: RunRecord, folder: Path) -> Path:
    """Write `folder/results.json` and return its path. A reader sees the old file or the new one, never half of one.

    Non-finite numbers become null; their `status` says why. OSError where the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / FILE_NAME, render_results(record))
    return folder / FILE_NAME


def render_results(record: RunRecord) -> str:
    """The content of results.json."""
    return record.model_dump_json(indent=2) + "\n"


def read_results(path: Path) -> RunRecord:
    """The record that a results.json holds.

    BaselineError where it is missing, broken, too new, not one, or where it contradicts itself, as a forged one does.
    """
    where = str(path)
    data = _parse(_read(path), where)
    if not isinstance(data, dict):
        raise BaselineError("a results file must hold a JSON object.", where=where, remedy=_RECORD_AGAIN)
    version = data.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise BaselineError(
            f"the results file has schema version {version!r:.40}; this fairgate reads version {SCHEMA_VERSION}.",
            where=where,
            remedy="use the fairgate that wrote it, or record it again with this one",
        )
    try:
        record = RunRecord.model_validate(data, strict=True)
    except ValidationError as error:
        raise BaselineError(_first_faults(error), where=where, remedy=_RECORD_AGAIN) from None
    faults = list(itertools.islice(contradictions(record), _FAULTS))
    if faults:
        problem = f"the results file contradicts itself: {'; '.join(faults)}."
        raise BaselineError(problem, where=where, remedy=_NOT_BELIEVED)
    return record


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise BaselineError(
            "a results file was expected.", where=str(path), remedy=f"name the file: {path / FILE_NAME}"
        )
    require_regular(path, BaselineError)
    remedy = "check the path; `fairgate check SUITE` writes one"
    with disk_errors(BaselineError, "the results file cannot be read", path, remedy):
        return read_bounded(path, MAX_BYTES)


def _parse(content: bytes, where: str) -> Any:
    try:
        return json.loads(
            content.decode("utf-8"),
            parse_constant=_not_finite,
            parse_float=_finite_float,
            object_pairs_hook=unique_keys,
        )
    except (ValueError, RecursionError) as error:  # not UTF-8, no JSON, or JSON that no run writes
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BaselineError(
            f"the results file is not valid JSON: {reason}.", where=where, remedy=_RECORD_AGAIN
        ) from error


def _not_finite(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number; a number that is not finite is null, with a status")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _not_finite(text)
    return value


def _first_faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False)
    lines = []
    for fault in faults[:_FAULTS]:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
        lines.append(f"{path.lstrip('.')[:120]}: {fault_words(fault)}")
    more = f" (and {len(faults) - _FAULTS} more)" if len(faults) > _FAULTS else ""
    return f"the results file is not a run record: {'; '.join(lines)}{more}."


def flat_metrics(record: RunRecord) -> dict[str, float]:
    """Each check's value by its item, in the unit of its metric, and `gate.pass`, `gate.fail` ... as counts of checks.

    A waived check counts in `gate.waived` alone, a watched one in `gate.watched`. What was not measured, or is
    infinite, has no entry: never 0.
    """
    metrics: dict[str, float] = {f"gate.{place}": count for place, count in tally(record).items()}
    for check in record.checks:
        if check.value is not None and math.isfinite(check.value):
            metrics[check.item] = check.value
    return metrics


def render_metrics(record: RunRecord) -> str:
    """`flat_metrics` as JSON, which `dvc metrics` reads."""
    return json.dumps(flat_metrics(record), indent=2, ensure_ascii=False) + "\n"


_ROUND_OFF = 1e-9


def contradictions(record: RunRecord) -> Iterator[str]:
    """Everything in which a record contradicts itself, a sentence each, with its place; nothing for an honest one."""
    errors = any(check.verdict == "error" and not check.excused for check in record.checks)
    before = record.verdict == "error" and record.decided == "fail" and errors  # older versions put errors first
    if record.verdict != record.decided and not before:
        yield f"verdict: it says '{record.verdict}', and its checks add up to '{record.decided}'"
    made = _day(record.created_at)
    if made is None:
        yield f"created_at: '{clean(record.created_at, 40)}' is not a time"
    yield from _coverage(record.coverage, record.verdict)
    yield from _doubled("checks", (check.item for check in record.checks))
    for at, check in enumerate(record.checks):
        place = f"checks[{at}] ({clean(check.item, 80)})"
        for fault in (*_numbers(check), *_groups(check), *_pass(check, record), *_asides(check, made)):
            yield f"{place}: {fault}"


def _coverage(coverage: Coverage, verdict: Verdict) -> Iterator[str]:
    for name in ("sets", "images"):
        scored, expected = (getattr(coverage, f"{did}_{name}") for did in ("scored", "expected"))
        if not 0 <= scored <= expected:
            yield f"coverage: {scored} of {expected} {name} cannot have been scored"
    for probe, count in (*coverage.unasked.items(), *coverage.lacking.items()):
        if count > coverage.expected_images:
            yield f"coverage: '{probe}' left out {count} of {coverage.expected_images} images"
    if not coverage.complete and verdict != "error":
        yield f"coverage: not everything was scored, and the verdict is '{verdict}'; it must be 'error'"


def _doubled(place: str, names: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield f"{place}: '{clean(name, 80)}' is listed twice"
        seen.add(name)


def _numbers(check: CheckResult) -> Iterator[str]:
    """Numbers that cannot be: of a check and of its groups."""
    numbered: list[CheckResult | GroupResult] = [check, *check.groups]
    for numbers in numbered:
        whose = "" if numbers is check else " of a group"
        for name in ("", "delta_"):
            lo, hi = getattr(numbers, f"{name}lo"), getattr(numbers, f"{name}hi")
            if lo is not None and hi is not None and lo > hi:
                yield f"{name}lo{whose} is above {name}hi"
        if numbers.p_adjusted is not None and not 0 <= numbers.p_adjusted <= 1:
            yield f"p_adjusted{whose} is no probability"
        if numbers.n_sets < 0:
            yield f"n_sets{whose} is negative"


def _groups(check: CheckResult) -> Iterator[str]:
    """Verdicts of groups that do not add up to the check's."""
    yield from _doubled("groups", ("/".join(filter(None, (result.attribute, result.group))) for result in check.groups))
    # of comparisons, records from before groups were corrected over the whole suite may be inconclusive, and are honest
    claim = {"pass": "it passes", "inconclusive": "it is inconclusive"}.get(check.verdict)
    if check.failing_groups and claim and (check.verdict == "pass" or check.rule != "no_worse_than"):
        yield f"{claim}, and its group '{clean(check.failing_groups[0].group, 80)}' fails"
    for group in check.groups if check.verdict == "pass" else ():
        name = clean(group.group, 80)
        if group.verdict == "inconclusive":
            yield f"it passes, and its group '{name}' is inconclusive"
        elif check.min_sets is not None and group.n_sets < check.min_sets:
            yield f"it passes, and its group '{name}' is in {group.n_sets} of the {check.min_sets} sets it takes"
        elif _beyond(check, group):
            yield f"it passes, and its group '{name}' has {group.value:g}, which is beyond {check.bound:g}"


def _beyond(check: CheckResult, group: GroupResult) -> bool:
    """Whether a group's own number is beyond an absolute bound, where the check's value is the worst group's."""
    metric = spec_of(check)
    kind = "value" if metric is None else metric.group_bound
    if group.value is None or check.bound is None or kind == "none":
        return False
    value = abs(group.value) if kind == "size" else group.value
    if check.rule == "at_least":
        return value < check.bound - _ROUND_OFF
    return check.rule == "at_most" and value > check.bound + _ROUND_OFF


def _pass(check: CheckResult, record: RunRecord) -> Iterator[str]:
    """What a pass must rest on: a number on the good side of the bound, or a comparison within the margin."""
    if check.verdict != "pass":
        return
    if check.value is None and check.status != "infinite":
        yield "it passes without a value"
    if check.bound is None:
        yield "it passes without a bound"
    elif check.rule != "no_worse_than":
        low, high = (check.value, check.bound) if check.rule == "at_least" else (check.bound, check.value)
        if low is not None and high is not None and low < high:
            yield f"it passes with {check.value:g}, which is beyond its bound of {check.bound:g}"
    elif compared_with(check, record) is None:
        yield f"it passes a comparison, and the record names no {reference(check)}"
    elif check.delta is None and check.p_adjusted is None:
        yield "it passes a comparison without a difference"
    elif check.delta is not None and check.better is not None:
        worse_by = -check.delta if check.better == "higher" else check.delta
        if worse_by > check.bound:
            yield f"it passes, worse by {worse_by:g} than the {reference(check)}: its margin is {check.bound:g}"


def _asides(check: CheckResult, made: date | None) -> Iterator[str]:
    """Waivers that their own date contradicts, deciders that were not the stricter, anchors of what is not compared."""
    if check.waiver is not None:
        until = _day(check.waiver.until)
        if until is None:
            yield f"its waiver's date '{clean(check.waiver.until, 24)}' is not a day"
        elif made is not None and check.waiver.expired != (made > until):
            yield f"its waiver until {until} is said to {'have expired' if check.waiver.expired else 'hold'} on {made}"
    weight = 0 if check.excused else _weight(check.verdict)
    if check.other_verdict is not None and _weight(check.other_verdict) > weight:
        yield f"the other definition says '{check.other_verdict}', which is stricter than what was decided"
    if check.against is not None and check.rule != "no_worse_than":
        yield f"it is compared with the {check.against}, and its rule is '{check.rule}'"


def _weight(verdict: Verdict) -> int:
    """Whether a failure or an error is the stricter one changed with versions of fairgate: here they are alike."""
    return min(STRICTNESS[verdict], STRICTNESS["error"])


def _day(text: str) -> date | None:
    try:
        return datetime.fromisoformat(text).date()
    except ValueError:
        return None


register(Output("results", FILE_NAME, ("gate", "render", "push"), lambda record, _: render_results(record).encode()))
register(Output("scores", SCORES, ("gate", "render"), lambda _, context: context.scores and context.scores()))
register(Output("metrics", "metrics.json", ("gate", "render"), lambda record, _: render_metrics(record).encode()))
