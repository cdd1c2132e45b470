"""What a suite's checks cannot see, on its dataset and in a model's answers: warnings, which decide nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeGuard
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from fairgate import probes
from fairgate.data import Manifest
from fairgate.ground.errors import FairgateError, SuiteError, listed
from fairgate.ground.number_format import three_decimals
from fairgate.metrics import METRICS, Cells, GroupedRows, cells_of, measure
from fairgate.probes import ABSENT, REFUSAL, Entropies, Probe, ProbeScores
from fairgate.records import Against, CheckResult, GroupResult
from fairgate.suites.load import LoadedSuite
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.schema import Check

if TYPE_CHECKING:
    from fairgate.probes import GenerationProbe


FEW_SEEDS: Final = 100
"""Fewer pictures leave a share of one half uncertain by 0.1 or more."""
RARE: Final = 0.05
"""A chance that is small enough to rely on."""
SHARE: Final = "perceived_share"
_NAMED: Final = 3
_EVERYBODY: Final = "everybody"


def blind_spots(loaded: LoadedSuite, dataset: Manifest, index: GroupedRows) -> list[SuiteError]:
    """What is known before a model answers: labels without an image, few seeds, groups without a check."""
    warnings, pictures = list[SuiteError](), Counter(index.subject.tolist())
    for name, probe in loaded.suite.probes.items():
        places = [place for place, check in enumerate(loaded.suite.checks) if check.probe == name]
        if not places:
            continue
        warnings += _labels_without_images(loaded, name, probe, dataset, index)
        if _is_generation(probe):
            warnings += _of_generator(loaded, name, probe, places, pictures)
    return warnings


def _is_generation(probe: Probe) -> TypeGuard[GenerationProbe]:
    """Other suites import nothing of generators."""
    return probe.kind == "generation" and isinstance(probe, probes.GenerationProbe)


def _labels_without_images(
    loaded: LoadedSuite, name: str, probe: Probe, dataset: Manifest, index: GroupedRows
) -> list[SuiteError]:
    labels, truths = probe.classes(dataset), probe.truths(index)
    shown = set() if truths is None else set(truths.tolist())
    if not (lost := [f"'{label}'" for label in labels if label not in shown]):
        return []
    return [
        SuiteError(
            f"no image of {dataset.name}/{dataset.version} has the label {listed(lost, _NAMED)} of probe '{name}'.",
            where=loaded.where("probes", name),
            remedy="add images of it to the dataset, or leave it out: it can only be a wrong answer",
        )
    ]


def _of_generator(
    loaded: LoadedSuite, name: str, probe: GenerationProbe, places: list[int], seeds: Counter[Any]
) -> list[SuiteError]:
    checks, where, warnings = loaded.suite.checks, loaded.where("checks", places[0]), list[SuiteError]()
    word, fewest = min(seeds.items(), key=lambda item: item[1])
    by_subject = any(checks[place].by == "subject" for place in places)
    pictures = fewest if by_subject else seeds.total()
    if pictures < FEW_SEEDS:
        of = f" of '{word}'" if by_subject else ""
        problem = f"probe '{name}' has {pictures} pictures{of}: shares of so few settle only large changes."
        remedy = f"`fairgate dataset prompts` with at least {FEW_SEEDS} seeds"
        warnings.append(SuiteError(problem, where=where, remedy=remedy))
    shares = [checks[place].settings.counted for place in places if checks[place].metric == SHARE]
    others = {"readable", "subject_shown", "refusal_rate", SHARE}
    everything = any(checks[place].metric not in others for place in places)
    if len(set(shares)) == 1 and len(probe.groups) > 2 and not everything:
        problem = f"of {len(probe.groups)} groups of probe '{name}', checks are about {shares[0]} alone."
        remedy = "give every group that may lose a check of its own"
        warnings.append(SuiteError(problem, where=where, remedy=remedy))
    return warnings


def unseen_in_answers(
    loaded: LoadedSuite, dataset: Manifest, index: GroupedRows, scores: dict[str, ProbeScores]
) -> list[SuiteError]:
    """What is known before, and what answers leave unmeasured: options that none names, groups that always abstain.

    Both in at least `min_sets` sets: fewer answers may be so by chance. To abstain if that is right is no such answer.
    """
    warnings = blind_spots(loaded, dataset, index)
    for name, probe in loaded.suite.probes.items():
        for key in (key for key in probe.names(name) if key in scores):
            answers, where = scores[key], loaded.where("probes", name)
            if silent := _always_abstaining(loaded, index, answers):
                problem = f"every answer to '{key}' about {listed(silent, _NAMED)} is an abstention."
                remedy = "read the answers, and put the question, or the phrases of `abstain`, in other words"
                warnings.append(SuiteError(problem, where=where, remedy=remedy))
            warnings += _refused(loaded, name, probe, answers)
            if ABSENT in answers.more:
                absent, rows = int(answers.more[ABSENT].sum()), len(answers.value)
                problem = (
                    f"the sample of '{name}' lacks {absent:,} of {rows:,} rows. No share of groups counts them; they "
                    "count as refused unless the baseline lacks them too."
                )
                remedy = "compare samples of one size, as far as the generators have them"
                warnings.append(SuiteError(problem, where=where, remedy=remedy))
            unnamed = [
                f"'{option}'"
                for option, given in probe.given(index, answers).items()
                if not np.nansum(given) and _enough(loaded, index, ~np.isnan(given))
            ]
            if unnamed and silent != [_EVERYBODY]:
                problem = f"no answer to '{key}' is {listed(unnamed, _NAMED)}."
                remedy = "read the answers: write each option as the model does, or leave it out"
                warnings.append(SuiteError(problem, where=where, remedy=remedy))
    return warnings


def _refused(loaded: LoadedSuite, name: str, probe: Probe, answers: ProbeScores) -> list[SuiteError]:
    """Prompts of which a generator made no picture, unless a check bounds them."""
    bounded = any((check.probe, check.metric) == (name, "refusal_rate") for check in loaded.suite.checks)
    if bounded or not _is_generation(probe) or REFUSAL not in answers.more:
        return []
    refused = answers.more[REFUSAL]
    return [
        SuiteError(
            f"{int(refused.sum()):,} of {len(refused):,} pictures of '{name}' were refused, and no share counts them.",
            where=loaded.where("probes", name),
            remedy=f"bound them: `- {{id: refusals, probe: {name}, metric: refusal_rate, at_most: 0.05}}`",
        )
    ]


def _always_abstaining(loaded: LoadedSuite, index: GroupedRows, answers: ProbeScores) -> list[str]:
    """Groups, or everybody, about whom no answer names an option, though abstaining is not always right."""
    if "abstained" not in answers.more:
        return []
    abstained = answers.more["abstained"]
    rightly = (abstained == 1) & (answers.more.get("right", np.full(len(abstained), np.nan)) == 1)
    named, silence = abstained < 1, (abstained == 1) & ~rightly
    if not named.any():
        return [_EVERYBODY] if _enough(loaded, index, silence) else []
    chosen = loaded.suite.groups.attributes
    silent = []
    for attribute, values in index.attributes.items():
        for group in dict.fromkeys(values.tolist()) if chosen == "each" or attribute in chosen else ():
            own = values == group
            if not named[own].any() and _enough(loaded, index, silence & own):
                silent.append(f"{attribute} '{group}'")
    return silent


def _enough(loaded: LoadedSuite, index: GroupedRows, images: NDArray[np.bool_]) -> bool:
    return len(set(index.set_id[images].tolist())) >= loaded.suite.groups.min_sets


def silent_checks(checks: Sequence[CheckResult], same: Collection[str], dataset: Manifest) -> list[str]:
    """Comparisons that pass because nothing changed, on so few images that a loss of the margin would often change
    nothing: it misses all of n with a chance of (1 - margin)^n, if images lose all or nothing. Checks against what is
    the `same` checkpoint are left out."""
    warnings, unit = [], "image" if dataset.n_sets == dataset.n_rows else "set"
    for check in checks:
        groups, margin = [group for group in check.groups if group.delta is not None], check.bound or 0.0
        parts: list[CheckResult | GroupResult] = [*groups] or [check]
        still = all((part.delta, part.delta_lo, part.delta_hi) == (0, 0, 0) for part in parts)
        units = min(part.n_sets for part in parts)
        if check.against in {None, *same} or check.verdict != "pass" or not still or not 0 < margin < 1:
            continue
        if (chance := (1 - margin) ** units) > RARE:
            enough = math.ceil(math.log(RARE) / math.log1p(-margin))
            warnings.append(
                f"{check.item} passes since nothing changed: on {units:,} {unit}s a loss of {margin:g} can change "
                f"nothing {chance:.0%} of the time; on {enough:,}{' of each group' if groups else ''}, {RARE:.0%}."
            )
    return warnings


_SHOWN = 3


@dataclass(frozen=True, slots=True)
class LabelTemperature:
    """A run's label temperature: its mean answer entropies by probe and subject, and its logit scale."""

    entropies: Mapping[str, Entropies]
    logit_scale: float | None = None


def temperature_notices(
    planned: Sequence[PlannedCheck],
    index: GroupedRows,
    candidate: Mapping[str, ProbeScores],
    tempered: Mapping[str, ProbeScores],
    runs: tuple[LabelTemperature, LabelTemperature],
    against: Against = "baseline",
) -> list[str]:
    """A notice for each probe of which the temperature alone moves a number by more than its check's margin, or over
    its bound.

    `tempered` holds the candidate's scores at the temperature of what it is compared with, by probe; `runs` are what it
    is compared with and the candidate.
    """
    cells = cells_of(index)
    notices = []
    for probe, at_theirs in tempered.items():
        ours = [check for check in planned if (check.against or "baseline") == against and check.metric.spec.tempered]
        concerned = [check for check in ours if check.check.probe == probe]
        moved = [text for check in concerned if (text := _moved(check, cells, candidate[probe], at_theirs))]
        if moved:
            subjects = index.subject.tolist()
            before, now = (float(np.mean([run.entropies[probe][subject] for subject in subjects])) for run in runs)
            scales = [run.logit_scale for run in runs]
            scale = ""
            if scales[0] is not None and scales[1] is not None and scales[0] != scales[1]:
                scale = f"; logit scale {scales[0]:.4g} to {scales[1]:.4g}"
            notices.append(
                f"label temperature: the mean entropy of the answers to '{probe}' changed from "
                f"{three_decimals(before)} ({against}) to {three_decimals(now)} nats{scale}. That alone moves "
                f"{listed(moved, _SHOWN)}. P(true) is compared at both temperatures. If it is meant, first merge a "
                "waiver for the checks that it moves, then this checkpoint"
            )
    return notices


def _moved(planned: PlannedCheck, cells: Cells, own: ProbeScores, at_theirs: ProbeScores) -> str | None:
    """The check's number at both temperatures, where that alone decides something."""
    try:
        cell = cells.of(planned.subject, planned.groupings)
        now, then = (measure(planned.request(), cell, [scores]) for scores in (own, at_theirs))
    except FairgateError:
        return None  # the check's own result says so
    if planned.against is None:
        if (now.value >= planned.bound) == (then.value >= planned.bound):
            return None
        moved = f"{planned.item} from {three_decimals(then.value)} to {three_decimals(now.value)}"
        return f"{moved} (wanted at least {three_decimals(planned.bound)})"
    changes = np.abs(now.group_values - then.group_values) if now.groups else np.abs([now.value - then.value])
    if not (changes > planned.bound).any():
        return None
    at = int(np.nanargmax(changes))
    name, before, after = planned.item, then.value, now.value
    if now.groups:
        name, before, after = f"{planned.item} of {now.groups[at]}", then.group_values[at], now.group_values[at]
    return f"{name} from {three_decimals(float(before))} to {three_decimals(float(after))}"


def advice(loaded: LoadedSuite, model: str = "") -> list[SuiteError]:
    """Bounds on P(true) that a change of the label temperature alone can meet, by probe: advice on a valid suite.

    A temperature under which no answer is certain shrinks every spread and every gap of P(true). It shows in P(true)
    itself, and in a regression of such a metric, which is decided at two temperatures. Without a baseline, nothing is
    proposed that needs one. If the judged `model` is a table of frequencies, which has no temperature, nothing is.
    """
    if ("values", "frequency") in parse_qsl(model.partition("?")[2]):
        return []
    suite, hints = loaded.suite, list[SuiteError]()
    for name, probe in suite.probes.items():
        metric, over = probe.sees_temperature
        bounds = [check for check in suite.checks if check.probe == name and _is_open(check)]
        alone = suite.baseline == "none"  # then a bound on P(true) sees it, and nothing where no label is true
        rule = "at_least" if alone else "no_worse_than"
        deciding = [check for check in suite.checks if check.tier == "gate"]
        seen = any((check.probe, check.metric, check.rule) == (name, metric, rule) for check in deciding)
        if not bounds or seen or (alone and metric != "p_true"):
            continue
        words = [metric.replace("_", "-"), *([name] if len(suite.probes) > 1 else []), "floor" if alone else "no-worse"]
        limit = "at_least: 0.50" if alone else "no_worse_than: baseline, margin: 0.05"
        named = ", ".join(f"'{check.id}'" for check in bounds)
        hints.append(
            SuiteError(
                f"a checkpoint can meet {named} by its label temperature alone: when no answer is certain, every "
                "difference of P(true) is small.",
                where=loaded.where("checks", suite.checks.index(bounds[0])),
                remedy=f"add `- {{id: {'-'.join(words)}, probe: {name}, metric: {metric}, {over}{limit}}}`",
            )
        )
    return hints


def _is_open(check: Check) -> bool:
    spec = METRICS[check.metric].spec
    return bool(spec.tempered) and not spec.utility and check.no_worse_than is None
