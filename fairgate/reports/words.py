"""Numbers and verdicts in words: one phrasing for the page, the comment and the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

from fairgate.records import (
    Against,
    BaselineInfo,
    CheckResult,
    GroupResult,
    RunRecord,
    Status,
    Verdict,
    WorstSet,
    item_name,
)

ABSENT: Final = "–"
SYMBOL: Final[dict[Verdict, str]] = {"pass": "✓", "fail": "✗", "inconclusive": "?", "error": "!"}
Standing = Literal["fail", "error", "inconclusive", "waived", "pass"]
READING_ORDER: Final[tuple[Standing, ...]] = ("fail", "error", "inconclusive", "waived", "pass")
_COUNTED: Final[dict[Standing, str]] = {
    "fail": "failed",
    "error": "could not be computed",
    "inconclusive": "inconclusive",
    "waived": "waived",
    "pass": "passed",
}
_METRICS: Final = {
    "max_skew_at_k": "MaxSkew",
    "min_skew_at_k": "MinSkew",
    "skew_at_k": "Skew",
    "ndkl_at_k": "NDKL",
    "bias_at_k": "Bias",
    "normalized_entropy_at_k": "normalised entropy",
    "recall_at_k": "Recall",
    "c_asc": "C-ASC",
    "p_true": "mean P(true)",
    "group_gap": "standing among groups",
    "set_std": "spread inside a set",
}
_UNSEEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, characters that change the direction of writing, and halves of characters."""


def clean(text: str, limit: int | None = None) -> str:
    """Foreign text on one line: white space joined, control and direction-changing characters made visible as �.

    With `limit`, at most so many characters, the last one an ellipsis where something was cut.
    """
    joined = " ".join(text.split()).replace("##[", "# #[")  # a workflow command of GitHub, wherever it stands
    cut = limit is not None and len(joined) > limit
    safe = _UNSEEN.sub("�", joined[: limit - 1] if limit is not None and cut else joined)
    return f"{safe}…" if cut else safe


def number(value: float | None, status: Status = "ok") -> str:
    """Three decimals, a fourth only where a small number would read as zero; `–` where nothing was measured.

    >>> number(-0.31), number(0.0002), number(0.00001), number(None), number(None, "infinite")
    ('−0.310', '0.0002', '≈0', '–', 'infinite')
    """
    if value is None or math.isnan(value):
        return "infinite" if status == "infinite" else ABSENT
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and abs(value) < 0.0005:
        text = f"{value:.4f}" if abs(value) >= 0.00005 else "≈0"
    else:
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"
    return text.replace("-", "−")


def signed(value: float | None) -> str:
    """A change, with its sign: `+0.012`, `−0.310`; `≈0` for next to none, and `0.000` for none."""
    text = number(value)
    return f"+{text}" if value is not None and value > 0 and text != "≈0" else text


def interval(lo: float | None, hi: float | None) -> str:
    """`[0.790, 0.830]`, or nothing where there is no interval."""
    return "" if lo is None or hi is None else f"[{number(lo)}, {number(hi)}]"


def with_interval(text: str, lo: float | None, hi: float | None) -> str:
    """A number followed by its interval, where it has one."""
    return f"{text} {interval(lo, hi)}".rstrip()


def p_value(value: float | None) -> str:
    """A p-value: three decimals, `<0.001` below them."""
    return "<0.001" if value is not None and value < 0.001 else number(value)


def metric_words(metric: str) -> str:
    """What a metric is called in prose, a ranking one with its k: `MaxSkew@100`."""
    name, at, k = metric.rpartition("_at_")
    if at and k.isdecimal() and f"{name}_at_k" in _METRICS:
        return f"{_METRICS[f'{name}_at_k']}@{clean(k, 12)}"
    return _METRICS.get(metric, clean(metric, 60).replace("_", " "))


def reference(check: CheckResult) -> Against:
    """What the check was compared with, in a word: the baseline, or the anchor."""
    return check.against or "baseline"


def check_name(check: CheckResult) -> str:
    """The check's id, with `@anchor` where it was compared with that: its item without what it is about."""
    return item_name(check.id, None, check.against)


def bound_words(check: CheckResult) -> str:
    """What the check asks: `≥ 0.850`, `≤ 0.900`, or `margin 0.040` against the baseline or the anchor."""
    if check.bound is None:
        return ABSENT
    mark = {"at_least": "≥", "at_most": "≤", "no_worse_than": "margin"}[check.rule]
    return f"{mark} {number(check.bound)}"


def null_words(check: CheckResult) -> str:
    """What chance alone gives a rank metric: `a fair ranker has 0.093, 95% under 0.234`; nothing for other metrics."""
    if check.null_median is None or check.null_p95 is None:
        return ""
    side = "over" if check.better == "higher" else "under"
    return f"a fair ranker has {number(check.null_median)}, 95% {side} {number(check.null_p95)}"


def tie_words(check: CheckResult) -> str:
    """How far the order of equal scores decided: `equal scores at the cut: 0.100 to 0.400 by their order`."""
    if not check.tie_at_k:
        return ""
    if check.tie_lo is None or check.tie_hi is None:
        return "equal scores at the cut: the order of files decides"
    return f"equal scores at the cut: {number(check.tie_lo)} to {number(check.tie_hi)} by the order of files"


def no_interval_words(check: CheckResult) -> str:
    """Why a number that was measured has no interval; nothing where it has one."""
    bare = check.value is not None and (check.lo is None or check.hi is None)
    return clean(check.interval or "", 300) if bare else ""


def unit_of(record: RunRecord) -> Literal["image", "set"]:
    """What is resampled and compared: an image, where each is a set of its own, or a set."""
    single = record.coverage.expected_sets == record.coverage.expected_images
    return "image" if single and not record.dataset.counterfactual else "set"


def measured_as(record: RunRecord, check: CheckResult) -> str:
    """What the number of an image is: `P(true)` of a classification, `P(positive)` of an implicit association, `cosine`
    of a ranking, a plain `value` elsewhere."""
    kind = record.probes.get(check.probe, "").partition(":")[0]
    said = {"implicit_association": "P(positive)", "retrieval": "cosine", "association": "cosine"}
    return "P(true)" if "classification" in kind else said.get(kind, "value")


def set_words(check: CheckResult, worst: WorstSet) -> str:
    """How loudly a set speaks against a check, in the terms of its metric; nothing for a single image."""
    if worst.spread is None:
        return ""
    if check.metric == "accuracy":
        return f"{worst.spread:g} wrong"
    if check.metric == "group_gap":
        return f"one member {number(worst.spread)} behind its set-mates"
    return f"spread {number(worst.spread)}"


def subjects_of(record: RunRecord) -> set[str]:
    """Every subject that the record names."""
    named = {check.subject for check in record.checks if check.subject is not None}
    named |= {worst.subject for check in record.checks for worst in check.worst_sets}
    return named | {one.subject for one in record.confusions}


def share_words(count: int, noun: str) -> str:
    """`1 set`, `1,200 sets`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def why_absent(record: RunRecord, check: CheckResult, field: str) -> str:
    """Why a number of a check is not there, in a few words."""
    if check.verdict == "error":
        return "could not be computed"
    if field in ("baseline", "delta", "p_adjusted"):
        other = reference(check)
        if _compared_with(check, record) is None:
            return f"no {other}"
        if field == "p_adjusted":
            return f"not tested against the {other}"
        infinite = check.status == "infinite" or check.baseline is not None
        return "infinite" if field == "delta" and infinite else f"nothing finite in the {other}"
    return "not measured"


def common_cause(record: RunRecord) -> str | None:
    """The one error that kept every check from being computed (problem, where, remedy, a line each), or None."""
    reasons = {check.reason if check.verdict == "error" else None for check in record.checks}
    return reasons.pop() if len(reasons) == 1 else None


def standing(check: CheckResult) -> Standing:
    """Where a report puts a check: its verdict, or `waived`, which is neither passed nor in the way."""
    return "waived" if check.waived else check.verdict


def reading_order(checks: Iterable[CheckResult]) -> list[CheckResult]:
    """What failed first, then what could not be computed or settled, what is waived, and the rest; the suite's order
    inside."""
    return sorted(checks, key=lambda check: READING_ORDER.index(standing(check)))


def tally(record: RunRecord) -> dict[Standing, int]:
    """Number of checks by where they stand, in reading order: a waived one counts as waived and as nothing else."""
    stood = [standing(check) for check in record.checks]
    return {place: stood.count(place) for place in READING_ORDER}


def totals(record: RunRecord) -> str:
    """`2 failed, 1 inconclusive, 1 waived, 14 passed`: every verdict that occurs."""
    said = [f"{count} {_COUNTED[place]}" for place, count in tally(record).items() if count]
    return ", ".join(said) or "no check was run"


def verdict_words(record: RunRecord) -> str:
    """The verdict of the run as a reader says it; one that rests on waivers says so."""
    waived = tally(record)["waived"]
    beside = f", with {share_words(waived, 'check')} waived" if waived and record.ok else ""
    if record.verdict == "inconclusive":
        allowed = "inconclusive (allowed here)" if record.allow_inconclusive else "inconclusive (counts as a failure)"
        return allowed + beside
    return record.verdict + beside


def coverage_words(record: RunRecord) -> str:
    """Expected against scored, in one line."""
    got, single = record.coverage, unit_of(record) == "image"
    prompts, images = share_words(got.prompts, "prompt"), share_words(got.scored_images, "image")
    if got.complete:
        return (
            f"all {images} scored ({prompts})"
            if single
            else f"all {share_words(got.scored_sets, 'set')} scored ({images}, {prompts})"
        )
    sets = "" if single else f"{got.scored_sets:,} of {share_words(got.expected_sets, 'set')}, "
    return f"incomplete: {sets}{got.scored_images:,} of {share_words(got.expected_images, 'image')} scored"


def moment(created_at: str) -> str:
    """An ISO timestamp as a reader writes it; anything else as it stands."""
    try:
        when = datetime.fromisoformat(created_at)
    except ValueError:
        return clean(created_at, 60)
    zone = "" if when.tzinfo is None else f" {when.tzname()}"
    return f"{when:%Y-%m-%d %H:%M}{zone}"


def sentence(check: CheckResult, record: RunRecord) -> str:
    """A check of a run in plain words, foreign text cleaned but not escaped.

    `doctor: dark × female fell 0.310 behind its set-mates; margin 0.040`. A run that asks about no subject by name says
    nothing about "all subjects".
    """
    if check.verdict == "error":
        said = f"{metric_words(check.metric)} could not be computed"
    elif check.rule == "no_worse_than":
        said = _regression(check, record)
    else:
        held = with_interval(number(check.value, check.status), check.lo, check.hi)
        asked = "at least" if check.rule == "at_least" else "at most"
        beside = "".join(f"; {words}" for words in (null_words(check), tie_words(check)) if words)
        said = f"{metric_words(check.metric)}{_over(check)} is {held}; asked {asked} {number(check.bound)}{beside}"
    if check.about is not None:
        return f"{clean(check.about, 80)}: {said}"
    return f"all subjects: {said}" if any(other.subject is not None for other in record.checks) else said


def worst_of(check: CheckResult) -> GroupResult | None:
    """The group that `worst_group` names."""
    return next((group for group in check.groups if group.group == check.worst_group), None)


def _compared_with(check: CheckResult, record: RunRecord) -> BaselineInfo | None:
    return record.anchor if reference(check) == "anchor" else record.baseline


def _over(check: CheckResult) -> str:
    return f" over {clean(check.over, 60)}" if check.over else ""


def _regression(check: CheckResult, record: RunRecord) -> str:
    worst = worst_of(check)
    delta = check.delta if worst is None or worst.delta is None else worst.delta
    name = "" if check.worst_group is None else clean(check.worst_group, 80)
    other = reference(check)
    if delta is None:
        lacks = _compared_with(check, record) is None
        why = f"there is no {other}" if lacks else f"the {other} does not hold it"
        return f"{metric_words(check.metric)}{_over(check)} was not compared: {why}"
    if check.metric == "group_gap":
        moved = f"fell {number(-delta)} behind" if delta < 0 else f"moved {number(delta)} ahead of"
        others = "the mean of all groups" if unit_of(record) == "image" else "its set-mates"
        said = f"{name or 'the worst group'} {moved} {others}{' against the anchor' if other == 'anchor' else ''}"
    else:
        moved = "did not change" if delta == 0 else f"{'fell' if delta < 0 else 'rose'} by {number(abs(delta))}"
        own = worst is not None and worst.delta is not None  # else the baseline's worst group may have been another
        who = f" of {name}" if name and own else f" of the worst group, now {name}," if name else ""
        said = f"{metric_words(check.metric)}{who} {moved} against the {other}"
    return f"{said}; margin {number(check.bound)}{_unsettled(check, record)}"


def _unsettled(check: CheckResult, record: RunRecord) -> str:
    """More evidence settles what has a number of sets that would; `reason` tells of other cases."""
    if check.verdict != "inconclusive":
        return ""
    return f"; too few {unit_of(record)}s to tell" if check.sets_needed else "; not settled"
