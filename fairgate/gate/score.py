"""A candidate and what it is compared with, asked the same questions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairgate.errors import SuiteError, did_you_mean
from fairgate.gate.prepare import Prepared
from fairgate.gate.references import Asked, Compared, Progress, Run, Scores, compare_with, registered
from fairgate.models import Scorer
from fairgate.records import BaselineInfo, CheckResult, ModelInfo
from fairgate.suites import Settings
from fairgate.suites.ask import ask
from fairgate.suites.decide import decide
from fairgate.suites.null import fair_rankers
from fairgate.suites.plan import plan_check
from fairgate.suites.present import require_groups_present
from fairgate.suites.schema import Check

__all__ = ["Answers", "Progress", "Scored", "Scores", "decide_one", "score"]


@dataclass(frozen=True, slots=True)
class Answers:
    """What was answered to one definition's probes. None where there is nothing to compare with."""

    candidate: Scores
    baseline: Scores | None
    anchor: Scores | None


@dataclass(frozen=True, slots=True)
class Scored:
    """What a candidate, its baseline and its anchor answered, to each definition asked."""

    model: ModelInfo
    device: str
    answers: tuple[Answers, ...]
    compared: Compared | None = None
    anchored: Compared | None = None

    @property
    def scores(self) -> Scores:
        """The candidate's answers to this change's probes."""
        return self.answers[0].candidate

    @property
    def baseline(self) -> BaselineInfo | None:
        """What the candidate was compared with."""
        return None if self.compared is None else self.compared.info

    @property
    def before(self) -> Scores | None:
        """The baseline's answers to this change's probes."""
        return self.answers[0].baseline


def score(prepared: Prepared, settings: Settings, progress: Progress | None = None) -> Scored:
    """Score candidate, baseline and anchor, known to be comparable. Raises a FairgateError for what is in the way."""
    prepared.dataset.check_shards()
    run = Run(prepared, settings, progress)
    uri, version = registered(settings.model, settings)
    scorer = run.open(uri)
    asked = _asked(prepared, ask(scorer, prepared.dataset.index, prepared.loaded.suite), scorer)
    baseline = compare_with(settings.baseline, asked, scorer, run)
    anchors: dict[str, Compared | None] = {}
    for one in asked:
        if one.suite.anchor is not None and one.suite.anchor not in anchors:
            spec = one.suite.anchor
            anchors[spec] = compare_with(spec, asked, scorer, run, anchor=True)
    answers = []
    for place, one in enumerate(asked):
        anchor = anchors.get(one.suite.anchor or "")
        before = None if baseline is None else baseline.scores[place]
        answers.append(Answers(one.scores, before, None if anchor is None else anchor.scores[place]))
    model = ModelInfo(
        uri=settings.model,
        fingerprint=scorer.fingerprint,
        precision=scorer.precision,
        registered=version,
        preparation=scorer.preparation,
    )
    shown = anchors.get(asked[0].suite.anchor or "") or next(iter(anchors.values()), None)
    return Scored(model, scorer.device, tuple(answers), baseline, shown)


def _asked(prepared: Prepared, scores: Scores, scorer: Scorer) -> list[Asked]:
    """The candidate's answers to each definition; equal probes are not asked twice."""
    here, *before = prepared.definitions
    asked = [Asked(here.loaded.suite, scores, here.planned)]
    for other in before:
        same = other.loaded.suite.probes == here.loaded.suite.probes
        answers = scores if same else ask(scorer, prepared.dataset.index, other.loaded.suite)
        asked.append(Asked(other.loaded.suite, answers, other.planned))
    return asked


def decide_one(prepared: Prepared, scored: Scored, check: Check, subject: str | None) -> CheckResult:
    """Decide a check that stands in no suite file (a test in Python wrote it), as a family of its own."""
    planned = plan_check(prepared.loaded, check, prepared.dataset.manifest)[0]
    if subject is not None and subject not in prepared.dataset.manifest.subjects:
        known = prepared.dataset.manifest.subjects
        raise SuiteError(
            f"dataset '{prepared.dataset.name}' has no subject '{subject}'.",
            where=prepared.loaded.path.name,
            remedy=did_you_mean(subject, known) or f"subjects: {', '.join(known)}",
        )
    planned = replace(planned, subject=subject)
    require_groups_present([planned], prepared.dataset.index)
    (result,) = decide(
        [planned],
        prepared.dataset.index,
        prepared.loaded.suite,
        scored.scores,
        scored.before,
        fair_rankers([planned], prepared.dataset.index),
    )
    return result
