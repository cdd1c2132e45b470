"""What an audit says, in words: one phrasing for terminal, page and tables. Findings have a module of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairgate.audit.record import (
    Agreement,
    AuditRecord,
    PairRow,
    Refusal,
)
from fairgate.reports.words import clean, number, share_words

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


def percent_of(share: float) -> str:
    """`97.5%`, `100%` where there is nothing behind the point, and `<0.1%` for what is not nothing."""
    return "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}".removesuffix(".0") + "%"


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
