"""Forty situations of a run, each with all that is said of it: a person reads situations.txt from top to bottom.

`python tests/reports/situations.py` writes the file; a test compares it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from example_records import (
    against_anchor,
    example_record,
    gap_check,
    photographs_record,
    skew_check,
    team_record,
    waived,
)

from fairgate.records import (
    BaselineInfo,
    CheckResult,
    Coverage,
    DefinitionChange,
    GateDefinition,
    GroupResult,
    NeededApproval,
    RunRecord,
    Verdict,
)
from fairgate.reports import terminal_summary
from fairgate.reports.run_remarks import noted_sentence

FILE = Path(__file__).with_suffix(".txt")
BASE_COMMIT = "0123456789" * 4
COMPARED = {"rule": "no_worse_than", "bound": 0.02, "over": "race"}
NO_BASELINE = (
    "there is no baseline to compare with; give git:REF, file:DIR or model:URI with --baseline "
    "(pytest: --fairness-baseline)"
)
TEMPERATURE = (
    "not at the baseline's label temperature: for a temperature that is changed on purpose, merge a waiver first"
)


def group(
    name: str, before: float | None, now: float, verdict: Verdict = "fail", images: int = 250, attribute: str = "race"
) -> GroupResult:
    """A group with what it had and has."""
    delta = None if before is None else round(now - before, 6)
    half = {"lo": now - 0.03, "hi": now + 0.03}
    limits = {} if delta is None else {"delta": delta, "delta_lo": delta - 0.012, "delta_hi": delta + 0.012}
    fields: dict[str, object] = {"group": name, "attribute": attribute, "value": now, "baseline": before}
    return GroupResult(**fields, **half, **limits, verdict=verdict, n_images=images, n_sets=images)  # type: ignore[arg-type]


def bounded(**changes: object) -> CheckResult:
    """A bound on accuracy by group."""
    fields: dict[str, Any] = {
        "id": "by-group",
        "subject": None,
        "metric": "accuracy",
        "probe": "labels",
        "over": "race",
        "rule": "at_least",
        "better": "higher",
        "value": 0.5,
        "bound": 0.75,
        "verdict": "fail",
        "n_sets": 1500,
        "min_sets": 30,
        "reason": "",
    }
    fields |= changes
    value = fields["value"]
    limits = {} if value is None else {"lo": round(value - 0.03, 6), "hi": round(value + 0.03, 6)}
    return CheckResult(**(limits | fields))


def compared(groups: Sequence[GroupResult], verdict: Verdict = "fail", **changes: object) -> CheckResult:
    """A comparison of groups with the baseline; the first group is the one that settled it."""
    first = groups[0]
    of_first = {name: getattr(first, name) for name in ("value", "baseline", "delta", "delta_lo", "delta_hi")}
    settled = {"worst_group": first.group, "groups": list(groups), "verdict": verdict}
    return bounded(**(COMPARED | of_first | settled | changes))


def photographs(*checks: CheckResult, **changes: object) -> RunRecord:
    """A run on photographs, which form no sets."""
    fields = {"probes": {"labels": "zero_shot_classification:0"}, "verdict": example_record(checks).verdict}
    return photographs_record(**(fields | changes)).model_copy(update={"checks": list(checks)})


def _gap(before: float, now: float, verdict: Verdict, bound: float = 0.01, **changes: object) -> CheckResult:
    return compared([group("White", before, now, verdict)], verdict, metric="group_gap", bound=bound, **changes)


def _fell(*names: str, verdict: Verdict = "fail", **changes: object) -> CheckResult:
    groups = [group(name, 0.82 - at / 100, 0.70 + at / 100, verdict) for at, name in enumerate(names)]
    return compared(groups, verdict, **changes)


def _error(reason: str, **changes: object) -> CheckResult:
    absent = {"value": None, "lo": None, "hi": None, "status": "absent", "verdict": "error", "n_sets": 0}
    return bounded(**(absent | {"reason": reason} | changes))


def _comparisons() -> Iterator[tuple[str, RunRecord]]:
    """Comparisons with the baseline."""
    yield "A lead shrank, and the check passes", photographs(_gap(0.048, 0.030, "pass"))
    yield "A lead became a lag", photographs(_gap(0.048, -0.030, "fail"))
    yield "A lag grew", photographs(_gap(-0.010, -0.055, "fail"))
    yield "A lag closed", photographs(_gap(-0.060, -0.004, "pass"))
    yield "A group was level and is behind", photographs(_gap(0.0, -0.041, "fail"))
    yield "A group fell behind its set-mates", example_record([gap_check("doctor", "fail")])
    yield "The same, since the anchor", team_record([against_anchor(gap_check("doctor", "fail"))], definition=None)
    older = gap_check("doctor", "fail")
    bare = [each.model_copy(update={"baseline": None}) for each in older.groups]
    yield (
        "A record of an older version without the values before",
        example_record([older.model_copy(update={"groups": bare, "baseline": None})]),
    )
    yield "Accuracy of one group fell", photographs(_fell("Black"))
    yield "Accuracy of two groups fell", photographs(_fell("Black", "Indian"))
    yield "Accuracy of a dozen groups fell", photographs(_fell(*(f"group {at}" for at in range(12))))
    yield (
        "Accuracy of all images fell",
        photographs(bounded(**(COMPARED | {"over": None, "value": 0.8, "baseline": 0.852, "delta": -0.052}))),
    )
    yield (
        "The accuracy that both runs share fell otherwise than the whole",
        photographs(compared([group("Black", 0.80, 0.81).model_copy(update={"delta": -0.03})])),
    )
    yield (
        "A ranking became more skewed",
        photographs(compared([group("light", 0.2, 0.34)], metric="max_skew_at_k", k=100, better="lower")),
    )
    leaning = group("Black", -0.2, -0.35).model_copy(update={"delta": 0.15})
    yield "A leaning moved away from 0", photographs(compared([leaning], metric="bias_ambiguous", better="lower"))
    yield "Only at the baseline's label temperature", photographs(_gap(0.01, -0.06, "fail", only_tempered=True))
    own = f"White 0.010 ahead before and 0.060 behind now; margin 0.010; {TEMPERATURE}"
    yield "Only at the model's own temperature", photographs(_gap(0.01, -0.06, "fail", reason=own))


def _open() -> Iterator[tuple[str, RunRecord]]:
    """What is not settled, or has nothing to compare with."""
    yield "Too few images to tell", photographs(_fell("Black", verdict="inconclusive", sets_needed=2645))
    yield (
        "Too few images to tell, of several groups",
        photographs(_fell("Black", "Indian", "White", verdict="inconclusive", sets_needed=2645)),
    )
    few = group("Black", 0.8, 0.8, "inconclusive", images=5)
    yield (
        "A group has too few images to judge",
        photographs(compared([few, group("White", 0.8, 0.8, "pass")], "inconclusive")),
    )
    yield (
        "One image in all",
        photographs(bounded(value=1.0, lo=None, hi=None, verdict="inconclusive", over=None, n_sets=1)),
    )
    yield (
        "Clear alone, not in the suite",
        photographs(
            _fell(
                "Black",
                verdict="inconclusive",
                sets_needed=900,
                reason="Black fell; margin 0.020; clear by itself, and not after the correction over all checks of the "
                "suite: about 900 images per group would settle it",
            )
        ),
    )
    nothing = {"delta": None, "baseline": None, "groups": [], "worst_group": None, "reason": NO_BASELINE}
    yield (
        "No baseline yet",
        photographs(_fell("Black", verdict="inconclusive").model_copy(update=nothing), baseline=None),
    )
    over = {"lo": 0.71, "hi": 0.79, "value": 0.75, "verdict": "inconclusive"}
    yield "A bound inside of the interval", photographs(bounded(**over))


def _bounds() -> Iterator[tuple[str, RunRecord]]:
    """Absolute bounds."""
    yield (
        "A group is below its bound",
        photographs(
            bounded(groups=[group("Black", None, 0.5), group("White", None, 0.9, "pass")], worst_group="Black")
        ),
    )
    small = [group("Black", None, 0.5), group("Indian", None, 0.6), group("other", None, 0.2, "inconclusive", images=5)]
    yield (
        "Two groups are below their bound, and one is too small",
        photographs(bounded(groups=small, worst_group="Black")),
    )
    yield "A ranking is too skewed", example_record([skew_check("nurse", 0.78)])
    yield (
        "Equal scores at the cut",
        example_record([skew_check("nurse", 0.78).model_copy(update={"tie_at_k": True, "tie_lo": 0.5, "tie_hi": 0.9})]),
    )
    yield (
        "A leaning is too large",
        photographs(
            bounded(metric="bias_ambiguous", value=-0.4, lo=-0.5, hi=-0.3, bound=0.2, rule="at_most", better="lower")
        ),
    )
    yield "Everything passed", photographs(bounded(value=0.9, verdict="pass"))


def _around() -> Iterator[tuple[str, RunRecord]]:
    """Errors, waivers, definitions and approvals."""
    empty = "the file is empty.\n  where:  models/new.safetensors\n  remedy: save the checkpoint again"
    yield "No verdict: nothing could be computed", photographs(_error(empty), _error(empty, id="other"))
    unread = "2 of 72 images could not be read.\n  where:  shard-0001.tar\n  remedy: fetch the shard again"
    missing = Coverage(
        expected_sets=72, scored_sets=70, expected_images=72, scored_images=70, prompts=2, missing=["img-3", "img-9"]
    )
    yield (
        "No verdict: one check could not be computed",
        photographs(_error(unread), bounded(id="other", value=0.9, verdict="pass"), coverage=missing, verdict="error"),
    )
    yield "A failure beside an error", photographs(_error(unread), _fell("Black"))
    yield "A check is waived", photographs(waived(_fell("Black")), bounded(id="other", value=0.9, verdict="pass"))
    yield "A waiver expired", photographs(waived(_fell("Black"), until="2026-01-31", reason="until the new release"))
    brought = GateDefinition(
        source="git:origin/main",
        commit=BASE_COMMIT,
        suite_digest="6b" * 32,
        changes=[
            DefinitionChange(what="waivers.by-group", before=None, now='{"reason": "see #412", "until": "2027-03-01"}')
        ],
    )
    other = {"decided_by": "merge base", "other_verdict": "pass", "other_bound": 0.02}
    yield "The change brings a waiver of its own", photographs(_fell("Black", **other), definition=brought)
    looser = [DefinitionChange(what="checks.by-group.margin", before="0.02", now="0.2")]
    loosened = {"decided_by": "merge base", "other_verdict": "pass", "other_bound": 0.2}
    yield (
        "The change loosens the bound",
        photographs(_fell("Black", **loosened), definition=brought.model_copy(update={"changes": looser})),
    )
    asked = NeededApproval(kind="dataset", what="this change judges on v2", before="a" * 64, now="b" * 64)
    yield (
        "Every check passes, and a change needs an approval",
        photographs(bounded(value=0.9, verdict="pass"), needs_approval=[asked]),
    )
    same = BaselineInfo(source="git:main", uri="open_clip:tiny@biased.safetensors", fingerprint="b1a5" * 16)
    yield "The checkpoint was replaced in its place", photographs(_fell("Black"), baseline=same)
    yield (
        "A watched check failed",
        photographs(_fell("Black", tier="watch"), bounded(id="other", value=0.9, verdict="pass"), verdict="pass"),
    )


def by_title() -> dict[str, RunRecord]:
    """Every situation."""
    return dict([*_comparisons(), *_open(), *_bounds(), *_around()])


def text() -> str:
    """What is said of each."""
    blocks = []
    for number, (title, record) in enumerate(by_title().items(), 1):
        said = [line for line in terminal_summary(record) if not line.startswith("reproduce: ")]
        passed = [noted_sentence(check, record) for check in record.checks if check.verdict == "pass"]
        blocks.append(
            "\n".join([f"{number}. {title}", *(f"   {line}" for line in [*said, *(f"✓ {p}" for p in passed)])])
        )
    return "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
