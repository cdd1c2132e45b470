"""Clusters of neutral captions, the words that stand out in them, and where one gender is over-represented."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas.statistics import bootstrap
from fairgate.ground.randomness import stream
from fairgate.records import Estimate, FigureSeries, StudyFigure, StudyTable
from fairgate.studies.papers.caption_context import Cluster, Matrix, clusters, tf_idf, words_of
from fairgate.studies.papers.captioned import Captioned

MOST_WORDS = 20
"""Words of captions that are listed with whom they come with."""
MOST_POINTS = 2000
"""Photographs of the map."""
PERPLEXITY = 30.0
DRAWS = 2000


@lru_cache(maxsize=2)
def _found(release: Captioned, k: int, seed: int) -> tuple[tuple[Cluster, ...], Matrix, NDArray[np.bool_]]:
    """Clusters, TF-IDF of every photograph's neutral captions, and who is of the first group."""
    texts = _texts(release)
    vectors, _ = tf_idf(texts)
    first = release.codes[release.own] == 0
    found = clusters(vectors, texts, first, min(k, len(texts)), stream(seed, "checks", "clusters"))
    return tuple(found), vectors, first


def _texts(release: Captioned) -> list[str]:
    return [" ".join(release.columns["neutral_captions"][row]) for row in release.own]


def cluster_tables(release: Captioned, k: int, seed: int) -> list[StudyTable]:
    """Table 6, and appendix B.1's single words."""
    found, _, first = _found(release, k, seed)
    name = release.groups[0]
    ours = StudyTable(
        name="clusters",
        title=f"Clusters of neutral captions: by how much is {name} over-represented?",
        source="table 6, figure 1",
        columns=["cluster", "photographs", f"{name} above all", "words that stand out"],
        rows=[
            [str(place + 1), one.size, _over(first, one.rows, seed, str(place)), ", ".join(one.words)]
            for place, one in enumerate(found)
        ],
        note=f"Of {len(first):,} photographs {first.mean():.1%} are of {name}."
        " Limits resample the cluster's photographs.",
    )
    shown: dict[str, set[int]] = {}
    for place, text in enumerate(_texts(release)):
        for word in words_of(text):
            shown.setdefault(word, set()).add(place)
    frequent = sorted(shown, key=lambda word: (-len(shown[word]), word))[:MOST_WORDS]
    words = StudyTable(
        name="words",
        title=f"Photographs whose captions hold a word: by how much is {name} over-represented?",
        source="appendix B.1",
        columns=["word", "photographs", f"share of {name} above all"],
        rows=[[word, len(shown[word]), _over(first, np.array(sorted(shown[word])), seed, word)] for word in frequent],
        note="Single words, as the paper's comparison with classes of objects; of most photographs first.",
    )
    return [ours, words]


def _named(cluster: Cluster) -> str:
    return ", ".join(cluster.words[:2]) or "no words"


def _over(first: NDArray[np.bool_], rows: NDArray[np.intp], seed: int, what: str) -> Estimate:
    value = float(first[rows].mean() - first.mean())
    if len(rows) < 2:
        return Estimate(value=value, n=len(rows))
    found = bootstrap(first[rows].astype(np.float64), len(rows), stream(seed, "over", what), DRAWS)
    return Estimate(value=value, lo=found.lo - float(first.mean()), hi=found.hi - float(first.mean()), n=len(rows))


def cluster_figures(release: Captioned, k: int, seed: int) -> list[StudyFigure]:
    """Figure 1: a map of the captions by whom their cluster over-represents, and the clusters as bars."""
    found, vectors, first = _found(release, k, seed)
    one, other = release.groups
    over = [_over(first, each.rows, seed, str(place)) for place, each in enumerate(found)]
    lean = ["even" if e.lo is None or e.lo <= 0 <= (e.hi or 0) else one if (e.value or 0) > 0 else other for e in over]
    order = sorted(range(len(found)), key=lambda place: over[place].value or 0.0)
    names = [f"{_named(found[place])} ({number})" for number, place in enumerate(order, 1)]
    bars = StudyFigure(
        name="over-representation",
        title=f"Over-representation of {one} by cluster of neutral captions",
        source="figure 1",
        kind="bars",
        x_label="cluster, named by the words that stand out",
        y_label=f"share of {one} above all",
        series=[
            FigureSeries(
                name=one,
                x=names,
                y=[over[place].value for place in order],
                lo=[over[place].lo for place in order],
                hi=[over[place].hi for place in order],
            )
        ],
    )
    points = _map(vectors, seed)
    if points is None:
        return [bars]
    rows, xy = points
    of_row = np.empty(len(first), dtype=np.intp)
    for place, each in enumerate(found):
        of_row[each.rows] = place
    series = _by_lean(xy, [lean[place] for place in of_row[rows]], (one, "even", other))
    about = {one: f"more {one}", other: f"more {other}", "even": "neither: the interval holds 0"}
    title = "Neutral captions, by whom their cluster over-represents (t-SNE)"
    drawn = StudyFigure(
        name="captions-map",
        title=title,
        source="figure 1",
        kind="points",
        x_label="first coordinate (no unit)",
        y_label="second coordinate (no unit)",
        series=[each.model_copy(update={"name": about[each.name]}) for each in series],
        note="Each point is a photograph. Distances between far points mean nothing in such a map.",
    )
    return [drawn, bars]


def _map(vectors: Matrix, seed: int) -> tuple[NDArray[np.intp], Matrix] | None:
    """Up to MOST_POINTS rows and their places; None where there are too few for a map."""
    from sklearn.manifold import TSNE

    rows = np.sort(stream(seed, "map").permutation(len(vectors))[:MOST_POINTS])
    if len(rows) < 10 or not vectors.shape[1]:
        return None
    perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
    made = TSNE(perplexity=perplexity, init="random", random_state=seed, n_jobs=1).fit_transform(vectors[rows])
    return rows, np.round(made.astype(np.float64), 3)


def _by_lean(xy: Matrix, lean: Sequence[str], names: Sequence[str]) -> list[FigureSeries]:
    found = []
    for name in names:
        mine = np.flatnonzero(np.array(lean) == name)
        if len(mine):
            found.append(FigureSeries(name=name, x=xy[mine, 0].tolist(), y=xy[mine, 1].tolist()))
    return found
