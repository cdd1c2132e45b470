"""Whom models take for trustworthy, say: P(positive label) by group and within sets (paper 1, the IAT)."""

from __future__ import annotations

import numpy as np

from fairgate.audit.answers import Answers, Asked
from fairgate.audit.effects import group_effects
from fairgate.audit.record import ImplicitAudit, ImplicitRow, Refusal
from fairgate.errors import MetricError
from fairgate.measures import CROSS
from fairgate.metrics import implicit_association


def compare_implicit(asked: Asked, name: str, digest: str, positive: str, answers: Answers) -> ImplicitAudit:
    """Every model's mean P(positive label) by every grouping, and group effects as of a classification."""
    effects, refusals = group_effects(asked, {"p_positive": {model: one.value for model, one in answers.items()}})
    rows: list[ImplicitRow] = []
    for grouping in asked.groupings:
        over = CROSS.join(grouping)
        codes, names = asked.index.codes(grouping)
        for model, scores in answers.items():
            try:
                found = implicit_association(
                    scores.value,
                    np.asarray(codes, dtype=np.int64),
                    groups=len(names),
                    sets=asked.index.set_id if asked.counterfactual else None,
                )
            except MetricError as error:
                what = "implicit association"
                refusals.append(Refusal(what=what, model=model, over=over, reason=error.problem))
                continue
            rows += [
                ImplicitRow(
                    model=model,
                    over=over,
                    group=group,
                    mean=float(found.mean[at]),
                    within_sets=None if found.within_sets is None else float(found.within_sets[at]),
                    n_images=int(found.counts[at]),
                    n_sets=found.sets,
                )
                for at, group in enumerate(names)
            ]
    return ImplicitAudit(name=name, digest=digest, positive=positive, groups=rows, effects=effects, refusals=refusals)
