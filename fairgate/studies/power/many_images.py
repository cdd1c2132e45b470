"""Harmless changes of many images, without drawing any: a decision resamples all of them, and 200 would take hours.

The gate decides each change once on all images. The limits of a decision tell the standard errors of its numbers, and
each simulated run moves these by normal errors: the group means of many images are normal. It is for a proposal alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from fairgate.records import CheckResult, GroupResult
from fairgate.suites import Suite


@dataclass(frozen=True, slots=True)
class Harm:
    """How far a change went to the worse, and the worst that it may be."""

    loss: float
    limit: float


def harm_of(check: CheckResult, part: CheckResult | GroupResult) -> Harm | None:
    """The change of a check, or of one of its groups; None if it was not compared, or has no limit."""
    limit = part.delta_hi if check.better == "lower" else part.delta_lo
    if part.delta is None or limit is None:
        return None
    return Harm(part.delta, limit) if check.better == "lower" else Harm(-part.delta, -limit)


def moved(check: CheckResult, suite: Suite, rng: np.random.Generator) -> CheckResult:
    """A decided comparison as other images of the same kind might have it.

    Each change departs by a normal error whose size its limit tells (of simultaneous limits, by Bonferroni's level),
    and the check passes if all limits are within the margin. A check with a bound is the same.
    """
    if check.rule != "no_worse_than" or check.bound is None:
        return check
    groups = [group for group in check.groups if group.delta is not None]
    parts: list[CheckResult | GroupResult] = [*groups] if groups else [check]
    level = float(ndtri(1 - suite.decision.alpha / len(parts)))
    passes, changed = not check.small_groups, dict[int, dict[str, float]]()
    for part in parts:
        if (harm := harm_of(check, part)) is None:
            passes = False
            continue
        error = (harm.limit - harm.loss) / level * float(rng.normal())
        passes &= harm.limit + error <= check.bound
        step = error if check.better == "lower" else -error
        ends = {name: getattr(part, name) for name in ("delta", "delta_lo", "delta_hi")}
        changed[id(part)] = {name: end + step for name, end in ends.items() if end is not None}
    update: dict[str, Any] = {"verdict": "pass" if passes else "inconclusive", **changed.get(id(check), {})}
    update["groups"] = [group.model_copy(update=changed.get(id(group))) for group in check.groups]
    return check.model_copy(update=update)
