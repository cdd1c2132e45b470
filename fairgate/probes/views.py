"""A probe's answers about several views of each image, averaged: the image remains one unit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.data import Index, Manifest
from fairgate.ground.errors import SuiteError
from fairgate.probes.answers import ProbeScores
from fairgate.probes.contract import Probe

RANKS = 10
"""Recall over views is known up to this k."""

_SIDES = re.compile(r"\b(left|right|mirror\w*|(counter)?clockwise)\b", re.IGNORECASE)


def require_views(name: str, probe: Probe, dataset: Manifest, at: Callable[[str], str]) -> None:
    """Raise SuiteError for a probe of several views that averages nothing, or whose right answer a view may change."""
    if probe.views == 1:
        return
    problem = probe.no_views
    truths = dataset.attributes.get(probe.truth_of or "", ())
    texts = [*probe.texts(dataset.subjects), *probe.named_answers, *dataset.subjects, *truths]
    sided = next((text for text in texts if _SIDES.search(text.replace("_", " "))), None)
    if problem is None and sided is not None:
        problem = f"'{sided}' may not be true of a mirrored picture"
    if problem is not None:
        raise SuiteError(
            f"probe '{name}' takes the mean over {probe.views} views of each image, and {problem}.",
            where=at("views"),
            remedy="remove `views` from this probe",
        )


def taken_rows(index: Index, rows: NDArray[np.int64], set_id: NDArray[Any] | None = None) -> Index:
    """Some rows of a dataset, in this order, each as often as it is named; `set_id` are other names of their sets.

    They have no boxes: where the person of a picture is, is known of the picture itself alone.
    """
    return replace(
        index,
        set_id=index.set_id[rows] if set_id is None else set_id,
        member=index.member[rows],
        subject=index.subject[rows],
        caption=index.caption[rows],
        path=index.path[rows],
        attributes={name: column[rows] for name, column in index.attributes.items()},
        boxes=lambda: None,
    )


def mean_over_views(scores: ProbeScores, views: int) -> ProbeScores:
    """Answers about (images x views) as numbers of each image, (images,).

    `more["right"]` is the share of its views that are answered right, `more["within_K"]` of those that find their own
    query among the K nearest. No label is an image's answer. Contests keep every view.
    """

    def mean(numbers: NDArray[Any]) -> NDArray[np.float64]:
        means: NDArray[np.float64] = np.asarray(numbers, dtype=np.float64).reshape(-1, views).mean(axis=1)
        return means

    more = {name: mean(numbers) for name, numbers in scores.more.items()}
    if scores.correct is not None:
        more.setdefault("right", mean(scores.correct))
    if scores.rank is not None:
        more |= {within(k): mean(scores.rank <= k) for k in range(1, min(RANKS, int(scores.rank.max())) + 1)}
    contests = tuple(replace(contest, rows=contest.rows // views) for contest in scores.contests)
    return ProbeScores(mean(scores.value), contests=contests, more=more)


def within(k: int) -> str:
    """The name of the share of views that find their own query among the k nearest."""
    return f"within_{k}"
