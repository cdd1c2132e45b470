"""Open many models on one suite's dataset and probes, and compare what they answer."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

import numpy as np

from fairgate import gate, records
from fairgate.gate.baselines import scores_in_common
from fairgate.ground.errors import CapabilityError, ModelError, ScoresError, SettingsError
from fairgate.metrics import METRICS, Crossing
from fairgate.probes import scores_digest
from fairgate.studies.comparison import classifications
from fairgate.studies.comparison.answers import Answers, AuditData, reference_groups, viable_groupings
from fairgate.studies.comparison.implicit import compare_implicit
from fairgate.studies.comparison.ranking import RankingCut, compare_ranking, recalls, with_limits
from fairgate.suites import Check, PlannedCheck, Settings, decide, probe_digests
from fairgate.tracking import environment

MARGIN = 0.01
"""Mean change of the spread of P(true) that nobody would call a difference, where the suite names no margin."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Options of an audit; None (or none) is the suite's own choice."""

    reference: Sequence[str] = ()
    margin: float | None = None
    k: int | None = None


def command_of(suites: Sequence[str], models: Sequence[str], options: AuditOptions) -> str:
    """The command line of an audit, with all that decides its numbers."""
    words = ["fairgate", "audit", *suites, *(word for uri in models for word in ("--model", uri))]
    words += [word for group in options.reference for word in ("--reference", group)]
    words += [] if options.margin is None else ["--margin", str(options.margin)]
    words += [] if options.k is None else ["--k", str(options.k)]
    return shlex.join(words)


def audit(
    prepared: gate.Prepared,
    models: Sequence[tuple[str, Settings]],
    options: AuditOptions,
    *,
    command: str,
    progress: gate.Progress | None = None,
    ready: Mapping[str, gate.Scored | CapabilityError] | None = None,
) -> records.AuditRecord:
    """Score every model (its address and settings) and compare them all on every probe that an audit knows.

    `ready` are answers that were had elsewhere, by address. A model that lacks what a probe needs is left out, and the
    record says so. Raises SettingsError for an option that the dataset does not allow, ModelError for one checkpoint
    named twice, CapabilityError where no model is left, and whatever scoring raises.
    """
    started, now = time.monotonic(), datetime.now(UTC)
    data, left_out = _audit_data(prepared, options)
    opened, refused = _opened(prepared, models, ready or {}, progress)
    suite, dataset = prepared.loaded.suite, prepared.dataset
    probes, rule = _probes(prepared, data, opened, options), suite.decision
    return records.AuditRecord(
        suite=suite.suite,
        suite_digest=prepared.loaded.digest,
        dataset=gate.dataset_info(dataset),
        n_sets=dataset.manifest.n_sets,
        n_images=len(dataset),
        models=[
            records.AuditedModel(
                name=name,
                uri=scored.model.uri,
                fingerprint=scored.model.fingerprint,
                precision=scored.model.precision,
                device=scored.device,
                scores_digest=scores_digest(scored.scores),
            )
            for name, scored in opened.items()
        ],
        decision=records.AuditDecision(
            alpha=rule.alpha, seed=rule.seed, draws=rule.draws, reference=dict(data.reference)
        ),
        probes=probes,
        metrics=_further(prepared, opened, {probe.name: probe.kind for probe in probes}),
        left_out={records.CROSS.join(grouping): reason for grouping, reason in left_out.items()},
        refused=refused,
        environment=environment(prepared.root, next(iter(opened.values())).device),
        command=command,
        created_at=now.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 3),
    )


def _audit_data(prepared: gate.Prepared, options: AuditOptions) -> tuple[AuditData, dict[Crossing, str]]:
    """What is compared, and the crossed attributes that are left out, each with the reason."""
    suite, dataset = prepared.loaded.suite, prepared.dataset
    info = gate.dataset_info(dataset)
    chosen = info.attributes if suite.groups.attributes == "each" else suite.groups.attributes
    attributes = {name: info.attributes[name] for name in chosen}
    if options.margin is not None and not options.margin >= 0:
        raise SettingsError(
            f"the margin is {options.margin}.", where="--margin", remedy="give a number of at least 0, such as 0.01"
        )
    unit = "set" if info.counterfactual else "image"
    groupings, left_out = viable_groupings(dataset.index, list(attributes), suite.groups.min_sets, unit)
    reference = reference_groups(attributes, options.reference)
    return AuditData(dataset.index, suite, attributes, groupings, info.counterfactual, reference), left_out


def _opened(
    prepared: gate.Prepared,
    models: Sequence[tuple[str, Settings]],
    ready: Mapping[str, gate.Scored | CapabilityError],
    progress: gate.Progress | None,
) -> tuple[dict[str, gate.Scored], list[records.Refusal]]:
    """Every model scored, by its short name, and those that lack what a probe needs. One checkpoint twice would be
    compared with itself."""
    if not models:
        raise SettingsError("no model was named.", where="--model", remedy="name the checkpoints: --model A --model B")
    opened, refused = dict[str, gate.Scored](), list[records.Refusal]()
    lacking: CapabilityError | None = None
    for name, (uri, settings) in zip(short_names([uri for uri, _ in models]), models, strict=True):
        scored = ready.get(uri) or answers_of(prepared, uri, settings, progress)
        if isinstance(scored, CapabilityError):
            refused.append(
                records.Refusal(what=f"suite {prepared.loaded.suite.suite}", model=uri, reason=scored.problem)
            )
            lacking = lacking or scored
            continue
        for probe, scores in scored.scores.items():
            if missing := int((~np.isfinite(scores.value)).sum()):
                raise ScoresError(
                    f"probe '{probe}' has no score for {missing:,} of {scores.value.size:,} images.",
                    where=uri,
                    remedy="score every image: an audit compares models on the same sets",
                )
        for other in opened.values():
            _require_another(scored, other)
        opened[name] = scored
    if lacking is not None and not opened:
        raise lacking
    return opened, refused


def answers_of(
    prepared: gate.Prepared, uri: str, settings: Settings, progress: gate.Progress | None = None
) -> gate.Scored | CapabilityError:
    """A model's answers to a suite's probes, compared with nothing; the error where it lacks what a probe needs."""
    try:
        return gate.score(prepared, replace(settings, model=uri, baseline="none"), progress)
    except CapabilityError as error:
        return error


def _require_another(scored: gate.Scored, other: gate.Scored) -> None:
    both = f"{scored.model.uri} and {other.model.uri}"
    if scored.model.fingerprint == other.model.fingerprint:
        raise ModelError(
            f"one checkpoint ({scored.model.fingerprint[:12]}) was named twice: it would be compared with itself.",
            where=both,
            remedy="name each checkpoint once",
        )
    if scores_in_common(scored.scores, other.scores) == "identical":
        raise ModelError(
            "two different checkpoints gave identical scores.",
            where=both,
            remedy="one of the files is probably not the model that was meant: check both addresses",
        )


def _probes(
    prepared: gate.Prepared, data: AuditData, opened: Mapping[str, gate.Scored], options: AuditOptions
) -> list[records.ProbeAudit]:
    suite = prepared.loaded.suite
    digests = probe_digests(suite)
    audits: list[records.ProbeAudit] = []
    for name, probe in suite.probes.items():
        if probe.views > 1:  # no image has one answer: its metrics are listed, as those of other probes
            continue
        checks = [check for check in suite.checks if check.probe == name]

        def answers(key: str) -> Answers:
            return {model: scored.scores[key] for model, scored in opened.items()}

        if probe.compared_as == "ranking":
            words, cuts = probe.ranked_words, _cuts(checks, data, options.k)
            kind: Literal["retrieval", "association"] = "association" if words else "retrieval"
            queries = {word: answers(f"{name}[{word}]") for word in words} or dict.fromkeys(
                data.subjects, answers(name)
            )
            ranked = compare_ranking(data, name, digests[name], kind, queries, cuts)
            recall = [] if words else recalls(data, name, answers(name), _recall_ks(checks))
            scores = {model: scored.scores for model, scored in opened.items()}
            means = with_limits(data, name, probe, cuts, scores, ranked.summaries)
            audits.append(ranked.model_copy(update={"recall": recall, "summaries": means}))
        elif probe.positive_label is not None:
            audits.append(compare_implicit(data, name, digests[name], probe.positive_label, answers(name)))
        elif probe.truth_of is not None and probe.compared_as == "classification":
            margin, given = _margin(checks) if options.margin is None else options.margin, answers(name)
            fairness, pairs = classifications.compare_fairness(data, name, given, margin)
            effects, refusals = classifications.group_effects(data, classifications.outcomes_of(given))
            audits.append(
                records.ClassificationAudit(
                    name=name,
                    digest=digests[name],
                    margin=margin,
                    fairness=fairness,
                    pairs=pairs,
                    effects=effects,
                    taken=classifications.taken_for(data, given, probe.truth_of),
                    refusals=refusals,
                )
            )
    return audits


def _margin(checks: Sequence[Check]) -> float:
    """The strictest margin that the suite itself puts on the fairness of a probe, or MARGIN."""
    compared = (check for check in checks if check.no_worse_than is not None)
    return min((check.bound for check in compared if METRICS[check.metric].spec.counterfactual), default=MARGIN)


def _recall_ks(checks: Sequence[Check]) -> list[int]:
    """The k of the suite's recall checks of a probe; 1 where it has none."""
    useful = [check for check in checks if METRICS[check.metric].spec.utility]
    return list(dict.fromkeys(check.k for check in useful if check.k)) or [1]


def _cuts(checks: Sequence[Check], data: AuditData, k: int | None) -> list[RankingCut]:
    """Where the suite's own checks cut a probe's rankings; else at one place per crossed group (paper 3)."""
    counting = [check for check in checks if METRICS[check.metric].cuts_galleries]
    desired = counting[0].desired if counting else "dataset"
    if k is not None:
        return [RankingCut(k, desired)]
    named = [RankingCut(check.k, check.desired) for check in counting if check.k is not None]
    crossed = int(np.prod([len(groups) for groups in data.attributes.values()]))
    return list(dict.fromkeys(named)) or [RankingCut(crossed, desired)]


def short_names(uris: Sequence[str]) -> list[str]:
    """One name per address, in order; equal addresses keep equal names.

    >>> short_names(["hf:runs/a/final", "hf:runs/b/final", "open_clip:ViT-B-32@laion2b_e16"])
    ['a/final', 'b/final', 'ViT-B-32@laion2b_e16']
    >>> short_names(["scores:base.csv?values=logit", "scores:base.csv?values=cosine"])
    ['scores:base.csv?values=logit', 'scores:base.csv?values=cosine']
    """
    parts = {uri: _parts(uri) for uri in uris}
    longest = max(map(len, parts.values()), default=0)

    def name(uri: str) -> str:
        for depth in range(1, longest + 1):
            end = parts[uri][-depth:]
            if all(other == uri or steps[-depth:] != end for other, steps in parts.items()):
                return "/".join(end)
        return uri

    return [name(uri) for uri in uris]


def _parts(uri: str) -> list[str]:
    """`open_clip:local-dir:a/b` as its steps, without options and without the ending of a table of scores."""
    address = uri.partition("?")[0]
    return [part for part in re.split(r"[/:]", re.sub(r"\.(csv|parquet|safetensors|pt)$", "", address)) if part]


_TABLED: Final[Mapping[str, frozenset[str]]] = {
    "zero_shot_classification": frozenset({"fairness", "accuracy", "p_true", "group_gap"}),
    "implicit_association": frozenset({"group_gap"}),
    "retrieval": frozenset({"max_skew_at_k", "recall_at_k"}),
    "association": frozenset({"max_skew_at_k"}),
}
"""By what an audit compares models by, the metrics that its tables are of."""
_MEASURED: Final = records.MetricRow.model_fields.keys() & records.CheckResult.model_fields.keys() - {"subject"}
"""What a row takes from a check's result as it is."""


def _further(
    prepared: gate.Prepared, opened: Mapping[str, gate.Scored], compared: Mapping[str, str]
) -> list[records.MetricsAudit]:
    """By probe, the value of each metric of a suite's checks for which the audit has no table of its own, for every
    model, as the checks look at it.

    `compared` says as what a probe is compared; a probe that is not among them has all its metrics here.
    """
    suite, index = prepared.loaded.suite, prepared.dataset.index
    tabled = {probe: _TABLED[kind] for probe, kind in compared.items()}
    planned = _once([item for item in prepared.planned if item.check.metric not in tabled.get(item.check.probe, ())])
    digests, audits = probe_digests(suite), list[records.MetricsAudit]()
    for probe in dict.fromkeys(item.check.probe for item in planned):
        of_probe = [item for item in planned if item.check.probe == probe]
        rows, refusals = list[records.MetricRow](), list[records.Refusal]()
        for model, scored in opened.items():
            for result in decide(of_probe, index, suite, scored.scores, {}, {}):
                if result.verdict == "error":
                    about = {"subject": result.about, "over": result.over}
                    refusals.append(
                        records.Refusal(what=result.metric_with_k, model=model, reason=result.reason, **about)
                    )
                else:
                    subject, measured = result.about, result.model_dump(include=_MEASURED)
                    rows.append(records.MetricRow(model=model, subject=subject, check=result.id, **measured))
        audits.append(records.MetricsAudit(name=probe, digest=digests[probe], rows=rows, refusals=refusals))
    return audits


def _once(planned: Sequence[PlannedCheck]) -> list[PlannedCheck]:
    """The first of the checks that measure the same: they differ in their bounds, or in what they are compared with."""
    different: dict[tuple[object, ...], PlannedCheck] = {}
    for item in planned:
        measured = item.check.probe, item.check.metric, item.check.settings.model_dump_json()
        different.setdefault((*measured, item.subject, item.words, item.groupings), item)
    return list(different.values())
