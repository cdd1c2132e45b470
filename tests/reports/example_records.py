"""A run record as a gate would leave it, with everything in it that a report must survive."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw

from fairgate.records import (
    BaselineInfo,
    CheckResult,
    Coverage,
    DatasetInfo,
    Decision,
    DefinitionChange,
    Environment,
    GateDefinition,
    GroupResult,
    MemberResult,
    Misclassification,
    ModelInfo,
    RunRecord,
    Verdict,
    Waiver,
    WorstSet,
    overall,
)
from fairgate.records.history import PastValue

TONES = {"light": (240, 205, 180), "tan": (205, 155, 115), "brown": (150, 100, 68), "dark": (92, 58, 40)}
GENDERS = ("female", "male")
GROUPS = tuple(f"{tone} × {gender}" for tone in TONES for gender in GENDERS)
SUBJECTS = ("doctor", "nurse", "chef", "welder", "teacher", "pilot")
NOTICE = "Demonstration data, drawn by a program. Nothing here is evidence about people."
HOSTILE = "<script>alert(1)</script> | @someone `x` [a](javascript:1)\n::error::x \x1b[31m"


def _shift(group: str, subject: str) -> float:
    if group == "dark × female":
        return {"doctor": -0.31, "pilot": -0.06}.get(subject, 0.004)
    return 0.02 if subject in ("doctor", "pilot") else -0.003


def gap_check(subject: str, verdict: Verdict, *, sets: int = 120) -> CheckResult:
    """An intersectional regression of one subject, with eight groups and its worst sets."""
    rng = np.random.default_rng(SUBJECTS.index(subject))
    groups = []
    for group in GROUPS:
        before, delta, half = float(rng.normal(0, 0.015)), _shift(group, subject), float(rng.uniform(0.02, 0.035))
        worse = verdict if delta < -0.05 else "pass"
        groups.append(
            GroupResult(
                group=group,
                value=before + delta,
                lo=before + delta - half,
                hi=before + delta + half,
                baseline=before,
                delta=delta,
                delta_lo=delta - half,
                delta_hi=delta + half,
                p_adjusted=0.0002 if worse == "fail" else 0.21,
                verdict=worse,
                n_images=sets,
                n_sets=sets,
            )
        )
    worst = min(groups, key=lambda group: group.delta or 0.0)
    return CheckResult(
        id="no-intersectional-regression",
        subject=subject,
        metric="group_gap",
        probe="hard_labels",
        over="skin_tone × gender",
        rule="no_worse_than",
        better="higher",
        value=worst.value,
        lo=worst.lo,
        hi=worst.hi,
        interval="simultaneous 95% set bootstrap",
        bound=0.04,
        baseline=worst.baseline,
        delta=worst.delta,
        delta_lo=worst.delta_lo,
        delta_hi=worst.delta_hi,
        p_adjusted=worst.p_adjusted,
        verdict=verdict,
        n_sets=sets,
        sets_needed=340 if verdict == "inconclusive" else None,
        reason=(
            "One group fell behind its set-mates by clearly more than the margin."
            if verdict == "fail"
            else "No group fell behind its set-mates by more than the margin."
            if verdict == "pass"
            else "The interval spans the margin; about 340 sets would settle it."
        ),
        worst_group=None if verdict == "pass" else worst.group,
        groups=groups,
        worst_sets=[] if verdict == "pass" else [worst_set(subject, i) for i in range(3)],
    )


def worst_set(subject: str, index: int) -> WorstSet:
    """A set in which one member is taken for another occupation."""
    low = 0.12 + 0.05 * index
    members = [
        MemberResult(
            member=f"m{place}",
            group=group,
            value=low if group == "dark × female" else 0.93 - 0.01 * place,
            predicted="nurse" if group == "dark × female" else subject,
            correct=group != "dark × female",
        )
        for place, group in enumerate(GROUPS)
    ]
    return WorstSet(set_id=f"{subject}-{index:04d}", subject=subject, spread=0.29 - 0.02 * index, members=members[::-1])


def skew_check(subject: str, value: float, *, absent: bool = False) -> CheckResult:
    """MaxSkew of one subject over skin tone, with its null; `absent`: one group is not in the top k at all."""
    groups = [
        GroupResult(group=tone, value=value - 0.11 * place, baseline=value - 0.1 * place, n_images=240, n_sets=120)
        for place, tone in enumerate(TONES)
    ]
    if absent:
        groups[-1] = GroupResult(
            group="dark", value=-math.inf, baseline=-0.4, status="infinite", n_images=240, n_sets=120
        )
    return CheckResult(
        id="skew",
        subject=subject,
        metric="max_skew_at_k",
        probe="neutral_search",
        over="skin_tone",
        rule="at_most",
        better="lower",
        value=value,
        lo=value - 0.12,
        hi=value + 0.14,
        interval="95% set bootstrap",
        bound=0.6,
        baseline=value - 0.03,
        delta=0.03,
        null_median=0.2,
        null_p95=0.36,
        verdict="fail" if value > 0.6 else "pass",
        n_sets=120,
        reason="MaxSkew@100 is above its bound." if value > 0.6 else "MaxSkew@100 is within its bound.",
        worst_group="light" if value > 0.6 else None,
        groups=groups,
    )


def fairness_check(subject: str | None, value: float, **changes: object) -> CheckResult:
    """An absolute bound on fairness."""
    settled: Verdict = "pass" if value >= 0.85 else "fail"
    fields: dict[str, object] = {
        "id": "fairness",
        "subject": subject,
        "metric": "fairness",
        "probe": "hard_labels",
        "rule": "at_least",
        "better": "higher",
        "value": value,
        "lo": value - 0.02,
        "hi": value + 0.02,
        "bound": 0.85,
        "verdict": settled,
        "n_sets": 120,
        "reason": "Fairness is within its bound." if settled == "pass" else "Fairness is below its bound.",
    }
    return CheckResult(**(fields | changes))


def failed_computation() -> CheckResult:
    """A check without a number, its text hostile."""
    absent = {"value": None, "lo": None, "hi": None, "status": "absent", "verdict": "error", "n_sets": 0}
    reason = f"12 of 120 sets were not scored: {HOSTILE}"
    return fairness_check(HOSTILE, 0.9).model_copy(update={"id": "traits", "reason": reason, **absent})


def confusions() -> list[Misclassification]:
    """Who is taken for whom among the doctors."""
    taken = [
        Misclassification(probe="hard_labels", subject="doctor", group=g, predicted="nurse", count=c, total=120)
        for g, c in zip(GROUPS, (3, 2, 4, 2, 9, 3, 71, 4), strict=True)
    ]
    other = [
        Misclassification(probe="hard_labels", subject="doctor", group=g, predicted="paramedic", count=2, total=120)
        for g in GROUPS[::2]
    ]
    return taken + other


def example_checks() -> list[CheckResult]:
    """Passing, failing, inconclusive and uncomputable checks in a suite's order."""
    skews = {"doctor": 0.42, "nurse": 0.78, "chef": 0.31, "welder": 0.37, "teacher": 0.25, "pilot": 0.55}
    return [
        fairness_check(None, 0.912),
        *(fairness_check(s, v) for s, v in zip(SUBJECTS, (0.79, 0.93, 0.95, 0.9, 0.96, 0.88), strict=True)),
        *(skew_check(subject, value, absent=subject == "nurse") for subject, value in skews.items()),
        gap_check("doctor", "fail"),
        gap_check("pilot", "inconclusive", sets=40),
        *(gap_check(subject, "pass") for subject in SUBJECTS[1:5]),
        failed_computation(),
    ]


def example_record(checks: Sequence[CheckResult] | None = None, **changes: object) -> RunRecord:
    """The whole run. `changes` replace top-level fields."""
    chosen = list(example_checks() if checks is None else checks)
    fields: dict[str, object] = {
        "suite": "occupations",
        "suite_digest": "5a" * 32,
        "verdict": overall([check.verdict for check in chosen if not check.waived]),
        "dataset": DatasetInfo(
            name="occupations",
            version="v1",
            fingerprint="c0ffee" * 10 + "abcd",
            counterfactual=True,
            attributes={"skin_tone": list(TONES), "gender": list(GENDERS)},
            notice=NOTICE,
        ),
        "model": ModelInfo(uri="open_clip:tiny@biased.safetensors", fingerprint="b1a5" * 16, precision="fp32"),
        "baseline": BaselineInfo(
            source="model", uri="open_clip:tiny@base.safetensors", fingerprint="ba5e" * 16, created_at=None
        ),
        "coverage": Coverage(
            expected_sets=720, scored_sets=720, expected_images=5760, scored_images=5760, prompts=45
        ),
        "probes": {"hard_labels": "zero_shot_classification", "neutral_search": "retrieval"},
        "decision": Decision(alpha=0.05, correction="holm", seed=0, draws=4000),
        "checks": chosen,
        "confusions": confusions(),
        "environment": Environment(
            fairgate="0.1.0",
            python="3.11.9",
            platform="Linux x86_64",
            device="cpu",
            packages={"torch": "2.6.0", "open_clip_torch": "3.0.0", "numpy": "2.1.0"},
            git_commit="0123456789abcdef0123456789abcdef01234567",
            git_dirty=False,
            ci_url="https://ci.example.org/runs/7",
        ),
        "command": "pytest --fairness-suite occupations --fairness-model open_clip:tiny@biased.safetensors "
        "--fairness-baseline model:open_clip:tiny@base.safetensors",
        "created_at": "2026-03-01T12:00:00+00:00",
        "seconds": 12.4,
    }  # fmt: skip
    return RunRecord(**(fields | changes))


COMMIT = "89abcdef" * 5
VICIOUS = f"{HOSTILE} ##[stop-commands]x \u202etxt.exe <!-- --> </details> #1 www.x.org"


def waived(check: CheckResult, until: str = "2027-03-01", reason: str = "retraining in #412") -> CheckResult:
    """The check under a waiver, which has expired where its day is before the example's."""
    return check.model_copy(update={"waiver": Waiver(until=until, reason=reason, expired=until < "2026-03-01")})


def against_anchor(check: CheckResult) -> CheckResult:
    """The same comparison with the anchor."""
    return check.model_copy(update={"against": "anchor"})


def team_checks() -> list[CheckResult]:
    """What surrounds a verdict in a team: both definitions, an anchor, waivers that hold and that have expired."""
    loosened = fairness_check(
        "doctor", 0.87, id="bound", bound=0.9, verdict="fail", reason="Fairness is below its bound."
    )
    by_merge_base = {"decided_by": "merge base", "other_bound": 0.85, "other_verdict": "pass"}
    return [
        fairness_check(None, 0.912),
        loosened.model_copy(update=by_merge_base),
        fairness_check("nurse", 0.93, id="bound"),
        *(gap_check(subject, "fail" if subject == "doctor" else "pass") for subject in SUBJECTS[:4]),
        *(against_anchor(gap_check(s, "fail" if s == "doctor" else "pass")) for s in SUBJECTS[:4]),
        waived(skew_check("nurse", 0.78)),
        waived(skew_check("pilot", 0.71), until="2026-01-31", reason="until the new release"),
        *(
            skew_check(subject, value)
            for subject, value in zip(("chef", "welder", "doctor"), (0.31, 0.37, 0.42), strict=True)
        ),
    ]


def team_record(checks: Sequence[CheckResult] | None = None, **changes: object) -> RunRecord:
    """A run of a pull request that changes the gate, against the merge base and an anchor."""
    fields: dict[str, object] = {
        "baseline": BaselineInfo(
            source="git:origin/main",
            uri="open_clip:tiny@base.safetensors",
            fingerprint="ba5e" * 16,
            created_at="2026-02-20T09:00:00+00:00",
            commit=COMMIT,
            rescored="the dataset's release differs: occupations/v1 before, v2 now",
        ),
        "anchor": BaselineInfo(
            source="file:releases/1.0", uri="open_clip:tiny@first.safetensors", fingerprint="a9c4" * 16
        ),
        "definition": GateDefinition(
            source="git:origin/main",
            commit=COMMIT,
            suite_digest="6b" * 32,
            changes=[
                DefinitionChange(what="checks.bound.at_least", before="0.9", now="0.85"),
                DefinitionChange(what="waivers.skew[nurse]", before=None, now='{"until": "2027-03-01"}'),
                DefinitionChange(what="checks.traits", before='{"metric": "fairness"}', now=None),
            ],
        ),
        "warnings": ["the baseline was scored with device cuda, this run with device cpu"],
        "baseline_reason": "release 1.1",
    }  # fmt: skip
    return example_record(team_checks() if checks is None else checks, **(fields | changes))


def vicious_record() -> RunRecord:
    """A run in which every text that can come from elsewhere is hostile."""
    bad = {"waiver": Waiver(until=VICIOUS, reason=VICIOUS, expired=False), "reason": VICIOUS, "interval": VICIOUS}
    late = {"waiver": Waiver(until=VICIOUS, reason=VICIOUS, expired=True), "id": VICIOUS, "decided_by": "merge base"}
    info = BaselineInfo(
        source=VICIOUS,
        uri=VICIOUS,
        fingerprint=VICIOUS,
        created_at=VICIOUS,
        commit=VICIOUS,
        rescored=VICIOUS,
        unchanged=True,
    )
    change = DefinitionChange(what=VICIOUS, before=VICIOUS, now=VICIOUS)
    return team_record(
        [fairness_check(VICIOUS, 0.2).model_copy(update=bad), gap_check("doctor", "fail").model_copy(update=late)],
        baseline=info,
        anchor=info,
        definition=GateDefinition(source=VICIOUS, commit=VICIOUS, suite_digest="6b" * 32, changes=[change] * 3),
        notices=[VICIOUS],
        warnings=[VICIOUS],
        baseline_reason=VICIOUS,
        suite=VICIOUS,
        model=ModelInfo(uri=VICIOUS, fingerprint=VICIOUS, precision=VICIOUS, registered=VICIOUS),
        command=VICIOUS,
        created_at=VICIOUS,
        environment=example_record().environment.model_copy(update={"git_branch": VICIOUS, "git_commit": VICIOUS}),
    )


def example_history(record: RunRecord, runs: int = 12) -> list[PastValue]:
    """What earlier runs measured of every check of a record: a slow drift, and one step."""
    return [
        PastValue(
            commit=f"{run:02x}" * 20,
            created_at=f"2026-02-{run + 1:02d}T12:00:00+00:00",
            item=check.item,
            value=None if run == 3 else check.value + 0.01 * (runs - run) + (0.05 if run < 7 else 0.0),
            lo=check.value,
            hi=check.value + 0.2,
            bound=check.bound if run > 5 or check.bound is None else check.bound - 0.05,
        )
        for run in range(runs)
        for check in record.checks
        if check.value is not None
    ]


def photographs_record(**changes: object) -> RunRecord:
    """A run on single labelled photographs of one subject: the truth is a group, and nothing is counterfactual."""
    taken = [
        WorstSet(
            set_id=f"val-{i}",
            subject="person",
            spread=None,
            members=[MemberResult(member="0", group=GROUPS[i], value=0.02 + i / 100, predicted="man", correct=False)],
        )
        for i in range(7)
    ]
    fallen = gap_check("doctor", "fail", sets=9)
    check = fallen.model_copy(update={"id": "by-group", "subject": None, "metric": "accuracy", "worst_sets": taken})
    close = {"id": "by-age", "verdict": "inconclusive", "sets_needed": 2645, "worst_sets": []}
    fields: dict[str, object] = {
        "dataset": example_record().dataset.model_copy(update={"counterfactual": False, "notice": None}),
        "coverage": Coverage(expected_sets=72, scored_sets=72, expected_images=72, scored_images=72, prompts=2),
        "confusions": [],
    }
    return example_record([check, check.model_copy(update=close)], **(fields | changes))


def portrait(tone: str, *, size: int = 64, noise: int | None = None, kind: str = "PNG") -> bytes:
    """A small drawn face, encoded. With `noise`, a seed for pixels that do not compress."""
    picture = Image.new("RGB", (size, size), (214, 224, 232))
    if noise is not None:
        pixels = np.random.default_rng(noise).integers(0, 255, (size, size, 3), dtype=np.uint8)
        picture = Image.fromarray(pixels)
    draw = ImageDraw.Draw(picture)
    unit = size / 64
    draw.rectangle((12 * unit, 44 * unit, 52 * unit, 64 * unit), fill=(245, 245, 245))
    draw.ellipse((18 * unit, 10 * unit, 46 * unit, 46 * unit), fill=TONES[tone])
    for x in (26, 36):
        draw.ellipse((x * unit, 25 * unit, (x + 3) * unit, 28 * unit), fill=(20, 20, 20))
    buffer = io.BytesIO()
    picture.save(buffer, kind)
    return buffer.getvalue()


def example_pictures(set_ids: Sequence[str]) -> Mapping[str, Sequence[tuple[str, bytes]]]:
    """Pictures for every member of every set asked for."""
    return {
        set_id: [(f"m{place}", portrait(group.split(" × ")[0])) for place, group in enumerate(GROUPS)]
        for set_id in set_ids
    }
