"""Association: how near is each image to a prompt that says a word of anybody? (Hamidieh et al. 2024, So-B-IT)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fairgate.probes.retrieval import Ranker
from fairgate.probes.scores import ProbeScores


def associate(scorer: Ranker, words: Sequence[str], prompt: Callable[[str], str]) -> dict[str, ProbeScores]:
    """Similarity of every image to the prompt of each word, by word; `prompt(word)` is the text that the model sees."""
    similarity = scorer.similarity([[prompt(word)] for word in words])
    return {word: ProbeScores(np.ascontiguousarray(similarity[:, column])) for column, word in enumerate(words)}
