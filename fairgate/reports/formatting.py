"""Numbers and verdicts in words: one phrasing for the page, the comment and the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from fairgate.ground.errors import clean, harmless
from fairgate.ground.number_format import ABSENT, number, share_words
from fairgate.records import (
    SHUT,
    Against,
    BaselineInfo,
    CheckResult,
    MetricSpec,
    RunRecord,
    Verdict,
    item_name,
    over_views,
    own_metrics,
    own_values,
    with_k,
)

if TYPE_CHECKING:
    from fairgate.records import MetricRow, Question

ANSWERED: Final = "answered"
"""What the number of an image is called of a question, whose answer says more than that."""
WHY: Final = 200  # characters of a reason in a headline
COMMIT: Final = 10
"""Characters of a commit that are shown."""
_T = TypeVar("_T")
_K = TypeVar("_K")
SYMBOL: Final[dict[Verdict, str]] = {"pass": "✓", "fail": "✗", "inconclusive": "?", "error": "!"}
ShownVerdict = Literal["fail", "error", "inconclusive", "waived", "watched", "pass"]
READING_ORDER: Final[tuple[ShownVerdict, ...]] = ("fail", "error", "inconclusive", "waived", "watched", "pass")
COUNTED: Final[dict[ShownVerdict, str]] = {
    "fail": "failed",
    "error": "could not be computed",
    "inconclusive": "inconclusive",
    "waived": "waived",
    "watched": "watched",
    "pass": "passed",
}

OF_WORST: Final = "limits of the worst group"
"""How an interval was found that is of whichever group is the worst, and not of the one that seems to be."""


@dataclass(slots=True)
class Installed:
    """How to find what other packages add: `metric` finds the description of a metric by its name, `value` names the
    number of an image by probe kind. The interfaces pass it in: reports import neither metrics nor probes."""

    metric: Callable[[str], MetricSpec | None] = lambda _: None
    value: Callable[[str], str] = lambda _: "value"


INSTALLED: Final = Installed()


def metric_words(part: CheckResult | MetricRow | Question) -> str:
    """What the metric of a part of a record is called in prose, a ranking one with its k: `MaxSkew@100`."""
    spec = spec_of(part)
    return clean(with_k(part.metric, part.k), 60).replace("_", " ") if spec is None else spec.shown_as(part.k)


def measured_words(check: CheckResult) -> str:
    """A check's metric in prose, with what it counts: `perceived share of female`, `answer share of 'nurse'`."""
    of = "" if check.counted is None else f" of {clean(check.counted, 80)}"
    return f"{metric_words(check)}{of}{over_views(check.views)}"


def spec_of(part: CheckResult | MetricRow | Question) -> MetricSpec | None:
    """What is known of a metric; None for one that neither fairgate nor an installed package has."""
    return own_metrics().get(part.metric) or INSTALLED.metric(part.metric)


def reference(check: CheckResult) -> Against:
    """What the check was compared with, in a word: the baseline, or the anchor."""
    return check.against or "baseline"


def worse_is_higher(check: CheckResult) -> bool:
    """Whether a larger number is the worse one."""
    return check.better == "lower" or check.rule == "at_most"


def check_name(check: CheckResult) -> str:
    """The check's id, with `@anchor` where it was compared with that: its item without what it is about."""
    return item_name(check.id, None, check.against)


def shown_group(check: CheckResult) -> str:
    """The group whose number the check's value is, to say so next to it; nothing for a number of all groups.

    A row is about one group: the one that settled a comparison, or the worst of a bound. Of the extreme of all groups,
    another one may have been the worst in the baseline: `dark, before: light`.
    """
    worst = check.worst
    if worst is None or worst.value != check.value:
        return ""
    if worst.baseline is None or worst.baseline == check.baseline:
        return clean(worst.group, 80)
    before = next((group for group in check.groups if group.baseline == check.baseline), None)
    return "" if before is None else f"{clean(worst.group, 80)}, before: {clean(before.group, 80)}"


def bound_words(check: CheckResult) -> str:
    """The check's bound: `≥ 0.850`, `≤ 0.900`, or `margin 0.040` against the baseline or the anchor."""
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


def interval_words(check: CheckResult) -> str:
    """How the interval was found, and why it is wider than that of the worst group's row, where it is."""
    words = clean(check.interval or "", 120)
    row = check.worst
    if OF_WORST not in words or row is None or None in (row.lo, row.hi) or row.value != check.value:
        return words
    same = (row.lo, row.hi) == (check.lo, check.hi)
    return words if same else f"{words}; wider than the row's: it allows for the choice of the worst group"


def unit_of(record: RunRecord) -> Literal["image", "set"]:
    """What is resampled and compared: an image, where each is a set of its own, or a set."""
    single = record.coverage.expected_sets == record.coverage.expected_images
    return "image" if single and not record.dataset.counterfactual else "set"


def measured_as(record: RunRecord, check: CheckResult) -> str:
    """What the number of an image is: `P(true)` of a classification, `P(positive)` of an implicit association, `cosine`
    of a ranking, a plain `value` elsewhere."""
    kind = record.probes.get(check.probe, "").partition(":")[0]
    return own_values().get(kind) or INSTALLED.value(kind)


def subjects_of(record: RunRecord) -> set[str]:
    """Every subject that the record names."""
    named = {check.subject for check in record.checks if check.subject is not None}
    named |= {worst.subject for check in record.checks for worst in check.worst_sets}
    return named | {confusion.subject for confusion in record.confusions}


def grouped(items: Iterable[_T], key: Callable[[_T], _K]) -> dict[_K, list[_T]]:
    """Items by key, both in the order in which they occur."""
    groups: dict[_K, list[_T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def at_most(lines: Sequence[str], most: int, more: str) -> list[str]:
    """The first lines and, where there are others, `more` with their number in the place of `{}`."""
    left = len(lines) - most
    return [*lines[:most], more.format(f"{left:,}")] if left > 0 else [*lines]


def compared_with(check: CheckResult, record: RunRecord) -> BaselineInfo | None:
    """The baseline, or the anchor, that the check was compared with; None where the run has none."""
    return record.anchor if reference(check) == "anchor" else record.baseline


def why_absent(record: RunRecord, check: CheckResult, field: str) -> str:
    """Why a number of a check is not there, in a few words."""
    if check.verdict == "error":
        return "could not be computed"
    if field in ("baseline", "delta", "p_adjusted"):
        other = reference(check)
        if compared_with(check, record) is None:
            return f"no {other}"
        if field == "p_adjusted":
            return f"not tested against the {other}"
        infinite = check.status == "infinite" or check.baseline is not None
        return "infinite" if field == "delta" and infinite else f"the {other} has no number"
    return "not measured"


def common_cause(record: RunRecord) -> str | None:
    """The one error because of which no check could be computed (problem, where, remedy, a line each), or None."""
    reasons = {check.reason if check.verdict == "error" else None for check in record.checks}
    return reasons.pop() if len(reasons) == 1 else None


def shown_verdict(check: CheckResult) -> ShownVerdict:
    """The check's verdict as reports show it, or why it does not count."""
    return check.excuse or check.verdict


def reading_order(checks: Iterable[CheckResult]) -> list[CheckResult]:
    """What failed first, then what could not be computed or settled, what is excused, and the rest."""
    return sorted(checks, key=lambda check: READING_ORDER.index(shown_verdict(check)))


def by_outcome(checks: Sequence[CheckResult]) -> tuple[list[CheckResult], list[CheckResult], list[CheckResult]]:
    """Checks that did not pass, those that are waived or watched, and those that passed."""
    excused = [check for check in checks if check.excused]
    rest = [check for check in checks if not check.excused]
    passing = [check for check in rest if check.verdict == "pass"]
    return [check for check in rest if check.verdict != "pass"], excused, passing


def tally(record: RunRecord) -> dict[ShownVerdict, int]:
    """Number of checks by shown verdict, in reading order: a waived or watched check counts as that only."""
    counts = Counter(map(shown_verdict, record.checks))
    return {verdict: counts[verdict] for verdict in READING_ORDER}


def totals(record: RunRecord, **counted: str) -> str:
    """`2 failed, 1 inconclusive, 1 waived, 14 passed`: every verdict that occurs, some `counted` under other names."""
    counts = [f"{count} {counted.get(place, COUNTED[place])}" for place, count in tally(record).items() if count]
    return ", ".join(counts) or "no check was run"


def verdict_words(record: RunRecord) -> str:
    """The verdict of the run as a reader says it; one that rests on waivers, or has notices, says so.

    `no verdict: the file is empty; nothing could be computed` if something could not be and nothing failed.
    """
    waived = tally(record)["waived"]
    parts = [f"{share_words(waived, 'check')} waived"] if waived and record.passes else []
    parts += [f"{share_words(len(record.notices), 'change')} to review"] if record.notices else []
    suffix = f", with {' and '.join(parts)}" if parts else ""
    if record.needs_approval and record.passes:
        count = len(record.needs_approval)
        suffix += f"; {share_words(count, 'change')} {'needs' if count == 1 else 'need'} an approval"
    if record.verdict == "inconclusive":
        allowed = "inconclusive (allowed here)" if record.allow_inconclusive else "inconclusive (counts as a failure)"
        return allowed + suffix
    incomplete = record.verdict == "error" or (record.verdict == "fail" and tally(record)["error"])
    return (_incomplete(record) if incomplete else record.verdict) + suffix


def findings_headline(record: RunRecord) -> str:
    """`7 of 24 checks failed`; where none did, how many did not pass."""
    counted = tally(record)
    of = f"of {share_words(len(record.checks), 'check')}"
    if counted["fail"]:
        return f"{counted['fail']:,} {of} failed"
    return f"{counted['error'] + counted['inconclusive']:,} {of} did not pass"


def headline_verdict(record: RunRecord) -> Verdict:
    """The verdict whose symbol and colour a headline has: `fail` if something failed, whatever else is missing, and
    `inconclusive` for a pass that still needs an approval."""
    if record.verdict == "pass" and record.needs_approval:
        return "inconclusive"
    return "fail" if record.verdict == "error" and record.exit_code == SHUT else record.verdict


def _incomplete(record: RunRecord) -> str:
    """What a run that could not be computed, or not wholly, says of itself: why, and then how much of it."""
    if record.exit_code == SHUT:
        return f"fail, and {share_words(tally(record)['error'], 'check')} could not be computed"
    reasons = (check.reason.partition("\n")[0] for check in record.checks if check.verdict == "error")
    why = harmless(next(reasons, ""), WHY).rstrip(". ")
    return f"no verdict: {why}; {uncomputed_words(record)}" if why else f"no verdict: {uncomputed_words(record)}"


def uncomputed_words(record: RunRecord) -> str:
    """How much of a run could not be computed: `1 of 3 checks could not be computed`."""
    errors = tally(record)["error"]
    if errors == len(record.checks) > 0:
        return "nothing could be computed"
    if not errors:
        return "no check was held to its bound"
    return f"{errors:,} of {share_words(len(record.checks), 'check')} could not be computed"


def coverage_words(record: RunRecord) -> str:
    """Expected against scored, in one line."""
    got, single = record.coverage, unit_of(record) == "image"
    prompts = share_words(got.prompts, "prompt") if got.prompts else ""
    everything = share_words(got.expected_images, "image")
    images = share_words(got.scored_images - max(got.lacking.values(), default=0), "image")
    unasked = [f"; {name} asks {got.expected_images - out:,} of {everything}" for name, out in got.unasked.items()]
    unasked += [f"; the sample of {name} lacks {out:,} of {everything}" for name, out in got.lacking.items()]
    more = "".join(unasked)
    if got.complete and single:
        return f"{'' if got.lacking else 'all '}{images} scored{f' ({prompts})' if prompts else ''}{more}"
    if got.complete:
        scored = ", ".join(filter(None, (images, prompts)))
        return f"all {share_words(got.scored_sets, 'set')} scored ({scored}){more}"
    sets = "" if single else f"{got.scored_sets:,} of {share_words(got.expected_sets, 'set')}, "
    return f"incomplete: {sets}{got.scored_images:,} of {everything} scored{more}"


def moment(created_at: str) -> str:
    """An ISO timestamp as `2026-03-01 12:00 UTC`; any other text unchanged."""
    try:
        when = datetime.fromisoformat(created_at)
    except ValueError:
        return clean(created_at, 60)
    zone = "" if when.tzinfo is None else f" {when.tzname()}"
    return f"{when:%Y-%m-%d %H:%M}{zone}"


def provenance(info: BaselineInfo) -> str:
    """Where a baseline or an anchor came from: `git:main, merge base 0123456789, recorded 2026-03-01 12:00 UTC`."""
    parts = [clean(info.source, 120)] if info.source and not info.source.endswith(info.uri) else []
    if info.commit is not None and not info.source.endswith(f"@{info.commit}"):  # else the source names the commit
        parts.append(f"merge base {clean(info.commit[:COMMIT])}")
    if info.created_at is not None:
        parts.append(f"recorded {moment(info.created_at)}")
    if info.rescored:
        parts.append("scored again in this run")
    if info.unchanged:
        parts.append("the candidate's own checkpoint")
    return ", ".join(parts)


def named_reference(info: BaselineInfo) -> str:
    """A baseline or an anchor by its address, with where it came from."""
    return f"{info.uri} ({whence})" if (whence := provenance(info)) else info.uri
