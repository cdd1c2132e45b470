"""How often edits of one checkpoint, made from two seeds, are called a regression: false alarms of image editing.

    python -m benchmarks.editing_nulls [--sets 12] [--seeds 8] [--pairs 2000]

Every image of `people` is edited by *base* from several seeds. A null pair takes two different seeds for every image,
at random, so that nothing but the noise differs; a run of checks on it that fails is a false alarm. The gate itself
compares runs of the same seeds, whose difference is smaller. The margin is 0, where a false alarm is likeliest.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

import numpy as np
from scipy.stats import beta

from fairgate.data import open_dataset
from fairgate.formulas.statistics import paired_test
from fairgate.ground.randomness import stream
from fairgate.models import Editing, EditingModel, EmbeddingCache, ImageSource, LabelModel, open_scorer
from fairgate.probes.image_editing import Pictures
from fairgate.studies.papers.chosen_images import choose

LABELS = ["a photo of a male person", "a photo of a female person"]
READER = "open_clip:local-dir:build/portraits/checkpoints/base"


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--cache", type=Path, default=None)
    options = parser.parse_args()
    chosen = choose(open_dataset("people"), options.sets, 0)
    cache = None if options.cache is None else EmbeddingCache(options.cache)
    uri = "diffusion:build/portraits/classifiers/base"
    model = cast(EditingModel, open_scorer(uri, chosen, device="cpu", cache=cache))

    def read(pictures: ImageSource) -> np.ndarray:
        reader = cast(LabelModel, open_scorer(READER, pictures, device="cpu", cache=cache))
        return reader.log_probabilities(LABELS).argmax(axis=1)

    before = read(chosen)
    plain = Pictures(chosen, "hue", (0.36, 0.28, 0.64, 0.6)).skins()[0]
    flips, lighter = [], []
    for seed in range(options.seeds):
        edits = Pictures(model.edit("a portrait of a doctor", Editing(0.8, seed, options.steps)), "hue",
                         (0.36, 0.28, 0.64, 0.6))  # fmt: skip
        flips.append(read(edits) != before)
        lighter.append(edits.skins()[0] - plain)
    sets = np.unique(chosen.index.set_id, return_inverse=True)[1]
    for what, numbers in (("flip_rate", np.array(flips, float)), ("lightening", np.array(lighter))):
        for groups, codes in (("4 skin tones", chosen.groups // 2), ("8 crossed groups", chosen.groups)):
            alarms = _alarms(numbers, sets, codes, options.pairs)
            upper = beta.ppf(0.95, alarms + 1, options.pairs - alarms)
            print(
                f"{what}, {options.sets} sets, {groups}: {alarms / options.pairs:.1%} of {options.pairs} null pairs "
                f"are false alarms, 5% promised (95% upper limit {upper:.1%})"
            )


def _alarms(numbers: np.ndarray, sets: np.ndarray, codes: np.ndarray, pairs: int) -> int:
    """Null pairs with a group that fails; numbers (seeds, images)."""
    n_sets, n_groups, images = sets.max() + 1, codes.max() + 1, np.arange(numbers.shape[1])
    rng, alarms = stream(0, "editing nulls"), 0
    for _ in range(pairs):
        first = rng.integers(len(numbers), size=len(images))
        second = (first + rng.integers(1, len(numbers), size=len(images))) % len(numbers)
        tables = []
        for chosen in (first, second):
            sums, counts = np.zeros((n_sets, n_groups)), np.zeros((n_sets, n_groups))
            np.add.at(sums, (sets, codes), numbers[chosen, images])
            np.add.at(counts, (sets, codes), 1)
            tables.append(sums / counts)
        either = np.isnan(tables[0]) | np.isnan(tables[1])
        new, old = (np.where(either, np.nan, one) for one in tables)
        result = paired_test(new, old, margin=0.0, rng=rng, draws=1000, harm="higher")
        alarms += result.overall == "fail"
    return alarms


if __name__ == "__main__":
    main()
