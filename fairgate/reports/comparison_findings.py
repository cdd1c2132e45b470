"""What a reader of an audit should see first: harmed groups, pairs of models, associations, searches beyond chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from scipy.special import bdtrc

from fairgate.ground.errors import clean
from fairgate.ground.number_format import interval, number, percent_of, share_words, signed
from fairgate.records import (
    CROSS,
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
from fairgate.reports.formatting import grouped

NOTABLE: Final = 0.02
"""A shift of a probability that is smaller is no finding, however clear."""

Rows = list[EffectRow]


def findings(record: AuditRecord) -> list[str]:
    """Every difference that is clear after correction and large enough to be a finding, the worst of each kind first.

    No attribute, subject or direction is left out; a difference that another finding implies is not repeated.
    """
    sentences: list[str] = []
    for of_kind in (ClassificationAudit, ImplicitAudit, RetrievalAudit):
        probes = [probe for probe in record.probes if isinstance(probe, of_kind)]
        for probe in probes:
            texts = _findings(probe, record.decision.alpha)
            sentences += [f"{clean(probe.name, 60)}: {text}" for text in texts] if len(probes) > 1 else texts
    if sentences:
        return sentences
    further = " Further metrics are in a table of their own, and are not looked at here." if record.metrics else ""
    by_size = " by its size" if small_differences(record) else ""
    return [f"No group effect, pair of models or search stands out{by_size} after correction.{further}"]


def small_differences(record: AuditRecord) -> str | None:
    """How many differences are clear after correction and no finding, for they are small; None where there is none."""
    alpha, small, margins = record.decision.alpha, 0, set[str]()
    for probe in record.probes:
        if isinstance(probe, RetrievalAudit):
            continue
        small += sum(clear(row, alpha) and row.outcome != "correct" and not _notable(row) for row in probe.effects)
        if isinstance(probe, ClassificationAudit):
            tests = [(pair.p_paired, pair.p_mood_adjusted) for pair in probe.pairs if not fairer(pair)]
            differing = sum(any(p is not None and p <= alpha for p in both) for both in tests)
            small += differing
            margins |= {number(probe.margin)} if differing else set()
    if not small:
        return None
    of_spread = f", or than {' or '.join(sorted(margins))} in the spread inside sets" if margins else ""
    return (
        f"{share_words(small, 'difference')} {'is' if small == 1 else 'are'} clear after correction, but not shown to "
        f"be larger than {number(NOTABLE)} in probability{of_spread}: see the tables."
    )


def _findings(probe: ClassificationAudit | ImplicitAudit | RetrievalAudit, alpha: float) -> list[str]:
    if isinstance(probe, RetrievalAudit):
        return _beyond_chance(probe, alpha)
    wrong = harmed(probe, alpha) if isinstance(probe, ClassificationAudit) else []
    unsure = [row for row in probe.effects if clear(row, alpha) and _notable(row)]
    unsure = _first_of(unsure, wrong, overall_first=True)
    if isinstance(probe, ImplicitAudit):
        return [_shift(row, f"P(“{clean(probe.positive, 60)}”)") for row in unsure]
    harms = _harms(wrong, lambda row: _harm(row, probe))
    spread = [
        (pair, pair.conclusion == "first_fairer", abs(pair.spread_delta or 0.0), pair.agreement == "opposite")
        for pair in probe.pairs
        if fairer(pair)
    ]
    right = [
        (pair, pair.accuracy_delta < 0, abs(pair.accuracy_delta), False)
        for pair in probe.pairs
        if pair.accuracy_delta and pair.p_accuracy is not None and pair.p_accuracy <= alpha
    ]
    return [
        *harms,
        *_harms(unsure, lambda row: _shift(_worse_first(row), "P(true label)")),
        *_behind(_SPREAD, spread),
        *_behind(_ACCURACY, right),
    ]


def harmed(probe: ClassificationAudit, alpha: float) -> Rows:
    """Groups that are right less often than their reference group, or more often, largest difference first: attributes
    crossed and by subject as far as that is clear, else as it is clear."""
    right = [row for row in probe.effects if row.outcome == "correct" and clear(row, alpha)]
    return _first_of(right, (), overall_first=False)


def clear(row: EffectRow, alpha: float) -> bool:
    """Whether there is an effect after correction."""
    return bool(row.effect) and row.p_adjusted is not None and row.p_adjusted <= alpha


def _notable(row: EffectRow) -> bool:
    """A probability whose whole interval lies beyond NOTABLE; without a spread there is no interval."""
    if row.outcome == "correct" or row.effect is None:
        return False
    lo, hi = (row.effect, row.effect) if row.lo is None or row.hi is None else (row.lo, row.hi)
    return hi < -NOTABLE or lo > NOTABLE


def _first_of(rows: Rows, already: Sequence[EffectRow], *, overall_first: bool) -> Rows:
    """The rows that none of `already` implies and no earlier row: crossed groups before single ones, and in these all
    subjects before one, or after; largest first."""
    reported, largest_first = list(already), sorted(rows, key=lambda row: -abs(row.effect or 0.0))
    for row in sorted(largest_first, key=lambda row: (-row.group.count(CROSS), (row.subject is None) != overall_first)):
        if not any(_implies(earlier, row) for earlier in reported):
            reported.append(row)
    return sorted(reported[len(already) :], key=lambda row: -abs(row.effect or 0.0))


def _implies(reported: EffectRow, row: EffectRow) -> bool:
    """Whether a row adds nothing to a reported one: same model and direction, a group that contains the reported one's,
    and the same subject, or all subjects in one of the two."""
    return (
        reported.model == row.model
        and ((reported.effect or 0.0) < 0) == ((row.effect or 0.0) < 0)
        and set(row.group.split(CROSS)) <= set(reported.group.split(CROSS))
        and (reported.subject == row.subject or None in (reported.subject, row.subject))
    )


def _shift(row: EffectRow, what: str) -> str:
    effect = row.effect or 0.0
    return (
        f"{clean(row.model, 60)}: {what} of {clean(row.group, 80)}{_of(row)} images is {number(abs(effect))} "
        f"{'lower' if effect < 0 else 'higher'} than of {clean(row.reference, 80)} ones "
        f"{interval(row.lo, row.hi) or 'in every set'}"
    )


def _harms(rows: Rows, words_of: Callable[[EffectRow], str]) -> list[str]:
    """A sentence per group that is behind; where the reference group is behind others, one for all of these."""
    sentences: list[str] = []
    ahead = grouped((row for row in rows if (row.effect or 0.0) > 0), lambda row: (row.model, row.subject, row.over))
    for row in rows:
        if (row.effect or 0.0) < 0:
            sentences.append(words_of(row))
        elif others := ahead.pop((row.model, row.subject, row.over), None):
            sentences.append(words_of(row) + ("; other groups are ahead of them too" if len(others) > 1 else ""))
    return sentences


def _worse_first(row: EffectRow) -> EffectRow:
    """An effect on the worse group against the better one, whichever of the two is the reference."""
    mean, effect = row.reference_mean or 0.0, row.effect or 0.0
    if effect < 0:
        return row
    lo, hi = (None, None) if row.lo is None or row.hi is None else (-row.hi, -row.lo)
    swapped = {"group": row.reference, "reference": row.group, "reference_mean": mean + effect}
    return row.model_copy(update={**swapped, "effect": -effect, "lo": lo, "hi": hi})


def _of(row: EffectRow) -> str:
    return "" if row.subject is None else f" {clean(row.subject, 60)}"


def _harm(row: EffectRow, probe: ClassificationAudit) -> str:
    """`biased gets 30% of dark × female doctor images right, and 100% of light × male ones (−0.700 [...])`."""
    row = _worse_first(row)
    mean, effect, limits = row.reference_mean or 0.0, row.effect or 0.0, interval(row.lo, row.hi) or "in every set"
    sentence = (
        f"{clean(row.model, 60)} gets {percent_of(mean + effect)} of {clean(row.group, 80)}{_of(row)} images right, "
        f"and {percent_of(mean)} of {clean(row.reference, 80)} ones ({signed(effect)} {limits})"
    )
    most = most_taken(probe.taken, row.model, row.subject, row.group, row.over)
    if most is None:
        return sentence
    return f"{sentence}; {percent_of(most.count / most.total)} are taken for “{clean(most.predicted, 60)}”"


def most_taken(taken: Iterable[TakenFor], model: str, subject: str | None, group: str, over: str) -> TakenFor | None:
    """The wrong label that a model gives most often to a group of a subject."""
    wanted = (model, subject, group, over)
    matches = [row for row in taken if (row.model, row.subject, row.group, row.over) == wanted]
    return max(matches, key=lambda row: row.count, default=None)


def fairer(pair: PairRow) -> bool:
    """Whether the paired limits say that one of two models treats set-mates more alike."""
    return pair.conclusion in ("first_fairer", "second_fairer")


_SPREAD: Final = (
    "{model} treats {whose}set-mates less alike than {others}: the spread of P(true) inside a set is larger by {by} on "
    "average"
)
_ACCURACY: Final = "{model} names {whose}images rightly less often than {others}: accuracy is lower by {by}"


def _behind(sentence: str, pairs: Sequence[tuple[PairRow, bool, float, bool]]) -> list[str]:
    """A sentence per model that is behind others on the same images, largest first. `found`: whether the second of a
    pair is the worse one, by how much, and whether medians say the opposite of means. A single subject is listed only
    where the same does not hold over all subjects."""
    ahead: dict[tuple[str, str | None, bool], dict[str, float]] = {}
    overall = {(pair.first, pair.second, second_worse) for pair, second_worse, _, _ in pairs if pair.subject is None}
    for pair, second_worse, by, opposite in pairs:
        worse, better = (pair.second, pair.first) if second_worse else (pair.first, pair.second)
        if pair.subject is None or (pair.first, pair.second, second_worse) not in overall:
            ahead.setdefault((worse, pair.subject, opposite), {})[better] = by
    ordered = sorted(ahead.items(), key=lambda entry: (entry[0][1] is not None, -max(entry[1].values())))
    lines = []
    for (model, subject, opposite), others in ordered:
        sizes = dict.fromkeys((number(min(others.values())), number(max(others.values()))))
        names = ", ".join(clean(name, 60) for name in others)
        whose = "" if subject is None else f"{clean(subject, 60)} "
        line = sentence.format(model=clean(model, 60), whose=whose, others=names, by=" to ".join(sizes))
        lines.append(line + (", although F_M, a median, says the opposite" if opposite else ""))
    return lines


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


def refusal_words(refusals: Iterable[Refusal]) -> list[str]:
    """One line per refused quantity and reason, with its models, and their subjects where not all were refused."""
    lines = []
    for (what, reason), refused in grouped(refusals, lambda refusal: (refusal.what, refusal.reason)).items():
        parts = []
        for model, of_model in grouped(
            (refusal for refusal in refused if refusal.model), lambda refusal: refusal.model
        ).items():
            named = list(dict.fromkeys(refusal.subject for refusal in of_model if refusal.subject is not None))
            whole = any(refusal.subject is None for refusal in of_model)
            parts.append(f"{model}" if whole else f"{model} ({', '.join(named)})")
        whose = f" of {clean(', '.join(parts), 300)}" if parts else ""
        lines.append(f"No {clean(what, 100)}{whose}: {clean(reason, 300)}")
    return lines


def refused_words(record: AuditRecord) -> list[str]:
    """One line per model that could not be measured."""
    return [
        f"Not measured: {clean(refusal.model or '', 200)}: {clean(refusal.reason, 300)}" for refusal in record.refused
    ]


def disagreements(pairs: Iterable[PairRow]) -> dict[str, list[PairRow]]:
    """Pairs of which, on all subjects, Mood's test and the paired test disagree, by reason."""
    return grouped((pair for pair in pairs if pair.subject is None and why_of(pair)), why_of)


def family_words(record: AuditRecord) -> str:
    """Over what p-values and limits are corrected."""
    pairs = len(record.models) * (len(record.models) - 1) // 2
    return (
        f"Mood’s p is corrected by Bonferroni over {share_words(pairs, 'pair')} of models, paired limits and p-values "
        "hold for all of these pairs at once (max-T bootstrap of sets); each subject is a family of its own. Group "
        "effects are corrected by Holm over all models and groups of one outcome and grouping."
    )
