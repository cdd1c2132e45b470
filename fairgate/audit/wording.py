"""What an audit found, in sentences: one phrasing for terminal, page and tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scipy.special import bdtrc

from fairgate.audit.record import (
    Agreement,
    AuditRecord,
    ClassificationAudit,
    EffectRow,
    ImplicitAudit,
    PairRow,
    Refusal,
    RetrievalAudit,
    TakenFor,
)
from fairgate.reports.words import clean, interval, number, share_words, signed

_WHY: Final[dict[Agreement, str]] = {
    "agree": "",
    "pairing": "Mood’s test takes the sets of the two models as different ones, so that what scenes have in common "
    "drowned the change; set by set it shows",
    "few_sets": "Mood’s test compares medians, and the change sits in too few sets to move a median",
    "cancels": "the medians differ, but over all sets changes up and down cancel out",
    "independence": "Mood’s test takes the sets as independent samples; set by set there is no such change",
    "opposite": "the medians and the means moved against each other: a median does not see what happens in fewer than "
    "half of the sets",
}


NOTABLE: Final = 0.02
"""A shift of a probability that is smaller is no finding, however clear."""


def why_of(pair: PairRow) -> str:
    """Why Mood's test and the paired test disagree on a pair; empty where they agree."""
    return _WHY[pair.agreement] if pair.agreement is not None else ""


def conclusion_of(pair: PairRow, margin: float) -> str:
    """What the paired limits say about a pair: `base treats set-mates more alike`."""
    if pair.conclusion is None:
        return "not compared: no counterfactual sets"
    if pair.conclusion == "alike":
        return f"alike within {number(margin)}"
    if pair.conclusion == "unsettled":
        return f"unsettled at {number(margin)}"
    return f"{clean(pair.first if pair.conclusion == 'first_fairer' else pair.second, 60)} is fairer"


def subject_words(subject: str | None) -> str:
    """A subject as a heading: `all subjects` for None."""
    return "all subjects" if subject is None else clean(subject, 80)


def findings(record: AuditRecord) -> list[str]:
    """What a reader should see first: harmed groups, pairs of models, associations, searches beyond chance."""
    alpha, found = record.decision.alpha, []
    for of_kind in (ClassificationAudit, ImplicitAudit, RetrievalAudit):
        probes = [probe for probe in record.probes if isinstance(probe, of_kind)]
        for probe in probes:
            told = _findings(probe, alpha)
            found += [f"{clean(probe.name, 60)}: {text}" for text in told] if len(probes) > 1 else told
    return found or ["No group effect, pair of models or search stands out."]


def _findings(probe: ClassificationAudit | ImplicitAudit | RetrievalAudit, alpha: float) -> list[str]:
    if isinstance(probe, RetrievalAudit):
        return _beyond_chance(probe, alpha)
    if isinstance(probe, ImplicitAudit):
        what = f"P(“{clean(probe.positive, 60)}”)"
        return [_shift(row, what) for row in _notable(probe.effects, alpha) if row.over == probe.groups[-1].over]
    wrong = harmed(probe, alpha)
    told = {(row.model, row.group) for row in wrong}
    unsure = [
        row
        for row in _notable(probe.effects, alpha)
        if (row.outcome, row.over) == ("p_true", probe.taken_over)
        and (row.model, row.group) not in told
        and (row.effect or 0.0) < 0
    ]
    return [_harm(row, probe) for row in wrong] + [_shift(row, "P(true label)") for row in unsure] + _pairs(probe)


def _notable(effects: Iterable[EffectRow], alpha: float) -> list[EffectRow]:
    """Effects over all subjects that are clear after correction and whose whole interval lies beyond NOTABLE."""
    rows = [
        row
        for row in effects
        if row.subject is None
        and row.p_adjusted is not None
        and row.p_adjusted <= alpha
        and row.lo is not None
        and row.hi is not None
        and (row.hi < -NOTABLE or row.lo > NOTABLE)
    ]
    return sorted(rows, key=lambda row: -abs(row.effect or 0.0))


def _shift(row: EffectRow, what: str) -> str:
    effect = row.effect or 0.0
    return (
        f"{clean(row.model, 60)}: {what} of {clean(row.group, 80)} images is {number(abs(effect))} "
        f"{'lower' if effect < 0 else 'higher'} than of {clean(row.reference, 80)} ones {interval(row.lo, row.hi)}"
    )


def harmed(probe: ClassificationAudit, alpha: float) -> list[EffectRow]:
    """Groups, attributes crossed and by subject where there are several, that are right less often; worst first."""
    by_subject = any(row.subject is not None for row in probe.effects)
    rows = [
        row
        for row in probe.effects
        if row.outcome == "correct"
        and row.over == probe.taken_over
        and (row.subject is not None) == by_subject
        and row.effect is not None
        and row.effect < 0
        and row.p_adjusted is not None
        and row.p_adjusted <= alpha
    ]
    return sorted(rows, key=lambda row: row.effect or 0.0)


def _harm(row: EffectRow, probe: ClassificationAudit) -> str:
    mean, effect = row.reference_mean or 0.0, row.effect or 0.0
    subject = "" if row.subject is None else f" {clean(row.subject, 60)}"
    limits = interval(row.lo, row.hi) or "in every set"
    said = (
        f"{clean(row.model, 60)} gets {percent_of(mean + effect)} of {clean(row.group, 80)}{subject} images right, and "
        f"{percent_of(mean)} of {clean(row.reference, 80)} ones ({signed(effect)} {limits})"
    )
    most = most_taken(probe.taken, row.model, row.subject, row.group)
    return (
        said
        if most is None
        else f"{said}; {percent_of(most.count / most.total)} are taken for “{clean(most.predicted, 60)}”"
    )


def percent_of(share: float) -> str:
    """`97.5%`, `100%` where there is nothing behind the point, and `<0.1%` for what is not nothing."""
    return "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}".removesuffix(".0") + "%"


def most_taken(taken: Iterable[TakenFor], model: str, subject: str | None, group: str) -> TakenFor | None:
    """The wrong label that a model gives most often to a group of a subject."""
    found = [one for one in taken if (one.model, one.subject, one.group) == (model, subject, group)]
    return max(found, key=lambda one: one.count, default=None)


def _pairs(probe: ClassificationAudit) -> list[str]:
    """Over all subjects: who treats set-mates more alike than whom, the less fair model told once; largest first."""
    against: dict[tuple[str, bool], list[tuple[str, float]]] = {}
    for pair in probe.pairs:
        if pair.subject is None and pair.conclusion in ("first_fairer", "second_fairer"):
            ends = (pair.first, pair.second)
            fairer, other = ends if pair.conclusion == "first_fairer" else ends[::-1]
            told = against.setdefault((other, pair.agreement == "opposite"), [])
            told.append((fairer, abs(pair.spread_delta or 0.0)))
    said = []
    for (worse, opposite), fairer_ones in sorted(against.items(), key=lambda one: -max(change for _, change in one[1])):
        changes = [change for _, change in fairer_ones]
        least, most = number(min(changes)), number(max(changes))
        by = least if least == most else f"{least} to {most}"
        names = ", ".join(clean(name, 60) for name, _ in fairer_ones)
        text = (
            f"{clean(worse, 60)} treats set-mates less alike than {clean(names, 300)}: the spread of P(true) inside a "
            f"set is larger by {by} on average"
        )
        said.append(f"{text}, although F_M, a median, says the opposite" if opposite else text)
    return said


def _beyond_chance(probe: RetrievalAudit, alpha: float) -> list[str]:
    """Models of which more subjects lie beyond the fair ranker's 95% point than chance would put there (Bonferroni)."""
    level = alpha / max(1, len(probe.summaries))
    noun = "subject" if probe.kind == "retrieval" else "word"
    return [
        f"{clean(row.model, 60)}: MaxSkew@{row.k} over {clean(row.over, 60)} is beyond the fair ranker’s 95% point "
        f"({number(row.null_p95)}) for {row.beyond} of {share_words(row.subjects, noun)}"
        for row in probe.summaries
        if row.beyond and bdtrc(row.beyond - 1, row.subjects, 0.05) <= level
    ]


def refusal_words(refusals: Iterable[Refusal]) -> list[str]:
    """Refusals with one reason told once, with the models, and their subjects where others could be computed."""
    subjects: dict[tuple[str, str], dict[str, list[str]]] = {}
    for one in refusals:
        told = subjects.setdefault((one.what, one.reason), {})
        named = told.setdefault(one.model or "", [])
        if one.subject is None:
            named.insert(0, "")
        elif one.subject not in named:
            named.append(one.subject)
    told_once = []
    for (what, reason), models in subjects.items():
        parts = [name if named[0] == "" else f"{name} ({', '.join(named)})" for name, named in models.items() if name]
        whose = f" of {clean(', '.join(parts), 300)}" if parts else ""
        told_once.append(f"No {clean(what, 100)}{whose}: {clean(reason, 300)}")
    return told_once


def disagreements(pairs: Iterable[PairRow]) -> list[tuple[list[PairRow], str]]:
    """Pairs on which Mood's test and the paired test disagree, by reason."""
    told: dict[str, list[PairRow]] = {}
    for pair in pairs:
        if why := why_of(pair):
            told.setdefault(why, []).append(pair)
    return [(pairs, why) for why, pairs in told.items()]


def family_words(record: AuditRecord) -> str:
    """Over what p-values and limits are corrected."""
    pairs = len(record.models) * (len(record.models) - 1) // 2
    return (
        f"Mood’s p is corrected by Bonferroni over {share_words(pairs, 'pair')} of models, paired limits and p-values "
        "hold for all of these pairs at once (max-T bootstrap of sets); each subject is a family of its own. Group "
        "effects are corrected by Holm over all models and groups of one outcome and grouping."
    )
