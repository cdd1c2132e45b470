"""What a model answers about pairs of words: for which word of each pair a picture is taken, and whether its group is
perceived; also with a part of the samples of a diffusion classifier. And what that is by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas.metrics import pair_choices
from fairgate.ground.errors import ModelError
from fairgate.ground.randomness import stream
from fairgate.metrics import Floats
from fairgate.models import LabelModel
from fairgate.probes import PairModel
from fairgate.studies.papers.chosen_images import ChosenImages
from fairgate.studies.papers.contract import ResampledNumber, mean_of


@runtime_checkable
class SampledModel(Protocol):
    """A model whose errors are means over samples: a diffusion classifier."""

    def errors_by_samples(self, prompts: Sequence[str], counts: Sequence[int]) -> Floats:
        """(parts, images, prompts): the errors that so many of the samples give, for each of `counts`."""
        ...


@dataclass(frozen=True)
class PairAnswers:
    """One model's decisions: `right` (images,) of the attribute, `choices` (images, first, second)."""

    right: Floats
    choices: Floats


@dataclass(frozen=True)
class PairPrompts:
    """The prompts of the words `first`, and `second`, and of the groups (`labels`)."""

    first: Sequence[str]
    second: Sequence[str]
    labels: Mapping[str, str]

    def answers(self, model: LabelModel, shown: NDArray[Any]) -> PairAnswers:
        """With all samples, of pictures of the groups `shown` (images,); pairs as the model itself compares them, if it
        does (`?stop=`)."""
        if not isinstance(model, PairModel):
            return self._of(-model.log_probabilities(self._every), shown)
        choices = model.pair_choices(self.first, self.second)
        return PairAnswers(self._right(-model.log_probabilities([*self.labels.values()]), shown), choices)

    def answers_by_samples(
        self, model: LabelModel, counts: Sequence[int], shown: NDArray[Any], where: str
    ) -> dict[int, PairAnswers]:
        """With each of `counts` of the samples. Raises ModelError for a model without samples, or with fewer."""
        if not isinstance(model, SampledModel):
            remedy = "leave --samples out, or name a diffusion:FOLDER"
            raise ModelError("the model takes no samples.", where=where, remedy=remedy)
        parts = model.errors_by_samples(self._every, counts)
        return {count: self._of(errors, shown) for count, errors in zip(counts, parts, strict=True)}

    @property
    def _every(self) -> list[str]:
        return [*self.first, *self.second, *self.labels.values()]

    def _of(self, errors: Floats, shown: NDArray[Any]) -> PairAnswers:
        """Of the errors of every prompt, (images, prompts)."""
        first, second, labels = np.split(errors, [len(self.first), len(self.first) + len(self.second)], axis=1)
        return PairAnswers(self._right(labels, shown), pair_choices(first, second))

    def _right(self, errors: Floats, shown: NDArray[Any]) -> Floats:
        perceived = np.array(list(self.labels), dtype=object)[errors.argmin(axis=1)]
        return np.asarray(perceived == shown, dtype=np.float64)


@dataclass(frozen=True)
class PairGroups:
    """Images of a release by group, and resamples of its sets: `weights` (draws, images)."""

    chosen: ChosenImages
    weights: Floats

    @classmethod
    def of(cls, chosen: ChosenImages, draws: int, seed: int) -> PairGroups:
        """With so many resamples."""
        set_ids, sets = np.unique(chosen.index.set_id, return_inverse=True)
        rng = stream(seed, "pairs study")
        counts = rng.multinomial(len(set_ids), np.full(len(set_ids), 1 / len(set_ids)), size=draws)
        return cls(chosen, counts[:, sets].astype(np.float64))

    def numbers(self, values: Floats, attribute: str) -> dict[str, ResampledNumber]:
        """Means of the crossed groups that have images, and of one attribute's groups: each the mean of its crossed
        groups, every one alike, however many images it has."""
        crossed = [self._mean(values, code) for code in range(len(self.chosen.names))]
        by_group = dict(zip(self.chosen.names, crossed, strict=True))
        for group, codes in self.chosen.by_attribute[attribute].items():
            by_group[group] = mean_of([crossed[code] for code in codes])
        return by_group

    def _mean(self, values: Floats, code: int) -> ResampledNumber:
        own = self.chosen.groups == code
        drawn = self.weights[:, own]
        with np.errstate(invalid="ignore"):
            return ResampledNumber(float(values[own].mean()), drawn @ values[own] / drawn.sum(axis=1), int(own.sum()))
