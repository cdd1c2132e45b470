"""Whether a model tells texts apart: labels that are one and the same to it cannot compete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from fairgate.ground.errors import ModelError, listed
from fairgate.models.contract import Capable, Floats, LabelModel, SimilarityModel

_FIRST = 1000
"""Images that are looked at before all are"""


def indistinct(model: Capable, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Places of ensembles with different prompts that are one and the same to a model, the earlier one first.

    By the model's own method `indistinct(ensembles)` where it has one; else by equal answers about every image.
    """
    own = getattr(model, "indistinct", None)
    if own is not None:
        return list(own(ensembles))
    if "similarity" in model.capabilities:
        return equal_columns(cast(SimilarityModel, model).similarity(ensembles), ensembles)
    if "log_probabilities" in model.capabilities and all(len(prompts) == 1 for prompts in ensembles):
        answers = cast(LabelModel, model).log_probabilities([prompts[0] for prompts in ensembles])
        return equal_columns(answers, ensembles)
    return []


def require_told_apart(model: Capable, what: str, prompts: Mapping[str, str], where: str, remedy: str = "") -> None:
    """Raises ModelError where prompts, by what they stand for, are one and the same to a model."""
    names, first = list(prompts), dict[str, int]()
    equal = [(first[one], at) for at, one in enumerate(prompts.values()) if first.setdefault(one, at) != at]
    if same := equal or indistinct(model, [[prompt] for prompt in prompts.values()]):
        pairs = listed([f"'{names[one]}' and '{names[other]}'" for one, other in same], more="more pairs")
        raise ModelError(
            f"the model reads the {what} {pairs} as the same text.",
            where=where,
            remedy="both may be unknown words to its tokenizer, or cut off behind a long template: "
            + (remedy or f"use {what} that it can tell apart, or another model"),
        )


def equal_columns(columns: Floats, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Places of columns (images, ensembles) that are equal for every image, where their prompts are not."""
    first = dict[bytes, list[int]]()
    pairs = []
    for place, column in enumerate(columns.T):
        alike = first.setdefault((column[:_FIRST] + 0.0).tobytes(), [])  # + 0.0: a zero has no sign
        before = next((before for before in alike if np.array_equal(columns[:, before], column)), None)
        if before is None:
            alike.append(place)
        elif list(ensembles[before]) != list(ensembles[place]):
            pairs.append((before, place))
    return pairs
