"""Tables 4 to 7 and figures 16 to 19 of Saravanan et al. 2023, of a Stable Diffusion as classifier.

    python -m benchmarks.diffusion_classifier [--model FOLDER] [--samples 1 10 100] [--out DIR]

Gender accuracy and S of every group by the number of noise levels, the pairs in which more than three in four pictures
are taken for one profession, and with `--out` a sheet of each group's pictures, sorted by the profession of one pair.
Of the embedded world's professions, also the rank correlation of what was planted with what is measured, over all
pairs: log P(group | a) - log P(group | b) of men less that of women, and the same of the mean difference of errors. The
embedded world is a test instrument; no figure of it is a fact about real models.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.stats import spearmanr

from fairgate.data import Dataset, open_dataset
from fairgate.generation.diffusion_classifier.family import DiffusionClassifier
from fairgate.metrics import differential_association, pair_choices
from fairgate.models import EmbeddingCache, Floats, decode_rgb, open_scorer
from fairgate.portraits.professions import (
    FEMALE_DOMINATED,
    MALE_DOMINATED,
    MALE_SHARE,
    PLANT,
    ClassifierName,
    planted_log_odds,
)
from fairgate.probes import with_article

GENDERS = ("man", "woman")
MOSTLY = 0.75
"""A pair is listed where more of a group's pictures than this are taken for one profession (tables 6 and 7)."""


@dataclass(frozen=True, slots=True)
class Found:
    """Errors of one number of samples: `words` (pictures, professions) and `genders` (pictures, 2)."""

    samples: int
    words: Floats
    genders: Floats


def main() -> None:
    """Print the tables and write the sheets."""
    options = _options()
    dataset = open_dataset(options.dataset, options.datasets)
    groups, names = dataset.index.codes(list(dataset.manifest.attributes))
    gender = dataset.index.attributes["gender"]
    words = [*options.first, *options.second]
    found = [_measured(options, dataset, words, samples) for samples in options.samples]
    a = len(options.first)
    print(f"{options.model}: {len(gender)} pictures of {dataset.manifest.ref}\n")
    print("Table 4: gender accuracy; table 5: S(D, A, B), by samples\n")
    print(f"| group | {' | '.join(f'accuracy, {one.samples}' for one in found)} | "
          f"{' | '.join(f'S, {one.samples}' for one in found)} |")  # fmt: skip
    right = [(one.genders[:, 0] < one.genders[:, 1]) == (gender == "male") for one in found]
    choices = [pair_choices(one.words[:, :a], one.words[:, a:]) for one in found]
    for name, rows in [*((name, groups == code) for code, name in enumerate(names)),
                       *((each, gender == each) for each in ("male", "female"))]:  # fmt: skip
        print(f"| {name} | {' | '.join(f'{one[rows].mean():.2f}' for one in right)} | "
              f"{' | '.join(f'{one[rows].mean():.2f}' for one in choices)} |")  # fmt: skip
    of = [[float(one[gender == each].mean()) for each in ("male", "female")] for one in choices]
    print(f"differential S, male less female: {', '.join(f'{differential_association(*one):.2f}' for one in of)}\n")
    print(f"Tables 6 and 7: pairs with more than {MOSTLY:.0%} for one side, {found[-1].samples} samples\n")
    for each in ("male", "female"):
        share = choices[-1][gender == each].mean(axis=0)
        listed = [
            f"{one} / {other} {share[row, column]:.2f}"
            for (row, one), (column, other) in product(enumerate(options.first), enumerate(options.second))
            if not 1 - MOSTLY <= share[row, column] <= MOSTLY
        ]
        print(f"{each}: {len(listed)} of {share.size}: {', '.join(listed)}")
    if set(words) <= set(MALE_SHARE):
        for one in found:
            _planted(one, words, gender, options)
    if options.out:
        _sheets(dataset, choices[-1], groups, names, options)


def _options() -> Any:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, default=Path("build/portraits/classifiers/base"))
    parser.add_argument("--planted", default="classifier-base", help="which table of professions.py it was trained by")
    parser.add_argument("--samples", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--datasets", type=Path, default=Path("datasets"))
    parser.add_argument("--dataset", default="people")
    parser.add_argument("--template", default="a portrait of {}")
    parser.add_argument("--first", nargs="+", default=list(MALE_DOMINATED))
    parser.add_argument("--second", nargs="+", default=list(FEMALE_DOMINATED))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args()


def _measured(options: Any, dataset: Dataset, words: Sequence[str], samples: int) -> Found:
    cache = None if options.cache is None else EmbeddingCache(options.cache)
    uri = f"diffusion:{options.model}?samples={samples}"
    model = cast(DiffusionClassifier, open_scorer(uri, dataset, device=options.device, cache=cache))
    errors = model.errors([options.template.format(with_article(word)) for word in (*words, *GENDERS)])
    return Found(samples, errors[:, : len(words)], errors[:, len(words) :])


def _planted(found: Found, words: Sequence[str], gender: NDArray[Any], options: Any) -> None:
    planted, margins, shares = [], [], []
    across = []
    for one, other in combinations(range(len(words)), 2):
        expected = [
            planted_log_odds(cast(ClassifierName, options.planted), words[one], words[other], each)
            for each in ("male", "female")
        ]
        margin = found.words[:, other] - found.words[:, one]
        planted.append(expected[0] - expected[1])
        margins.append(margin[gender == "male"].mean() - margin[gender == "female"].mean())
        shares.append((margin[gender == "male"] > 0).mean() - (margin[gender == "female"] > 0).mean())
        across.append((words[one] in options.first) != (words[other] in options.first))
    for what, chosen in (("all", np.ones(len(across), dtype=bool)), ("A x B", np.array(across))):
        rho = [spearmanr(np.array(planted)[chosen], np.array(one)[chosen])[0] for one in (margins, shares)]
        print(
            f"{found.samples} samples, {chosen.sum()} pairs ({what}), planted against measured rank correlation: "
            f"{rho[0]:.3f} (mean error), {rho[1]:.3f} (share of decisions)"
        )


def _sheets(dataset: Dataset, choices: Floats, groups: NDArray[Any], names: Sequence[str], options: Any) -> None:
    """Of every group, the pictures taken for the first profession above those taken for the second."""
    pair = (options.first.index(PLANT[0]) if PLANT[0] in options.first else 0, 0)
    options.out.mkdir(parents=True, exist_ok=True)
    pictures = {
        int(row): decode_rgb(data, dataset, int(row))
        for rows, blobs in dataset.image_batches(64)
        for row, data in zip(rows, blobs, strict=True)
    }
    for code, name in enumerate(names):
        rows = np.flatnonzero(groups == code)
        won = choices[rows, pair[0], pair[1]] > 0.5
        side = pictures[int(rows[0])].width
        sheet = Image.new("RGB", (max(won.sum(), (~won).sum(), 1) * side, 2 * side), "white")
        for line, chosen in enumerate((rows[won], rows[~won])):
            for place, row in enumerate(chosen.tolist()):
                sheet.paste(pictures[row].resize((side, side)), (place * side, line * side))
        sheet.save(options.out / f"{name.replace(' × ', '-')}.png")
    print(f"sheets of '{options.first[pair[0]]}' above '{options.second[pair[1]]}': {options.out}")


if __name__ == "__main__":
    main()
