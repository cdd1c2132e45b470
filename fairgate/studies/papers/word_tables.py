"""Tables and figures of a study of words: So-B-IT's tables 1 and 2 and figures 3 to 7, what a mitigation moved, and how
strong words are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairgate import records
from fairgate.data import picture_rows
from fairgate.formulas.metrics import word_strength
from fairgate.ground.png import png_of
from fairgate.ground.text import slug
from fairgate.metrics import Crossing, Floats
from fairgate.studies.papers.contract import pictures_of, series_of
from fairgate.studies.papers.word_associations import VALENCES, WordScores

ALL_WORDS = "all words"
PICTURES = 8
"""Nearest pictures of a word on a sheet."""
MOVED = 10
"""Words of the table of those that moved most, for each model and group."""


def _interval(models: WordScores) -> str:
    cell = models.gallery.cells.of(None, models.gallery.crossings)
    resamples = f"{models.gallery.draws:,} resamples of {cell.n_sets:,} {cell.unit}"
    return f"Intervals: 95%, {resamples}; if a number has none, the reason is in the CSV."


def top_word_tables(models: Sequence[WordScores]) -> list[records.StudyTable]:
    """For every attribute, the word of each category that is nearest to each group, by every model."""
    words, tables = models[0].gallery.words, list[records.StudyTable]()
    for crossing in filter(lambda names: len(names) == 1, models[0].gallery.crossings):
        rows: list[list[records.StudyCell]] = []
        for at, group in enumerate(models[0].associations[crossing].groups):
            for category, members in words.categories.items():
                places = words.places(members)
                for model in models:
                    association = model.associations[crossing]
                    best = max(places, key=lambda place: association.values[place, at])
                    word = words.words[best]
                    shown = word if np.isfinite(association.values[best, at]) else None
                    rows.append(
                        [
                            group,
                            category,
                            model.name,
                            shown,
                            words.valence.get(word, ""),
                            association.estimate(best, at),
                        ]
                    )
        tables.append(
            records.StudyTable(
                name=slug("top-words", *crossing),
                title=f"The word of each category that is nearest to each group of {crossing[0]}",
                source="tables 1 and 2",
                columns=[crossing[0], "category", "model", "word", "valence", "C-ASC"],
                rows=rows,
                note=f"C-ASC in standard deviations. {_interval(models[0])}",
            )
        )
    return tables


def _figure_of(crossing: Crossing) -> str:
    return "figures 3 and 4" if len(crossing) == 1 else "figures 3 and 4, crossed"


def entropy_tables(models: Sequence[WordScores]) -> list[records.StudyTable]:
    """For every crossing, the mean normalised entropy of each category's top k, by every model."""
    gallery = models[0].gallery
    sections = {**gallery.words.categories, ALL_WORDS: gallery.words.words}
    return [
        records.StudyTable(
            name=slug("entropy", *crossing),
            title=f"Normalised entropy of {records.CROSS.join(crossing)} in the top {gallery.k}, mean over words",
            source=_figure_of(crossing),
            columns=["category", "words", *(model.name for model in models)],
            rows=[
                [name, len(words), *(model.entropy(crossing, words) for model in models)]
                for name, words in sections.items()
            ],
            note=f"1: all groups alike; lower: more biased. {_interval(models[0])}",
        )
        for crossing in gallery.crossings
    ]


def entropy_figures(models: Sequence[WordScores], tables: Sequence[records.StudyTable]) -> list[records.StudyFigure]:
    """The entropy tables as bars."""
    figures = []
    for crossing, table in zip(models[0].gallery.crossings, tables, strict=True):
        series = [_series(model.name, table.rows, at) for at, model in enumerate(models, start=2)]
        figures.append(
            records.StudyFigure(
                name=f"figure-{table.name}",
                title=table.title,
                source=_figure_of(crossing),
                kind="bars",
                x_label="category of words",
                y_label="normalised entropy (1: all groups alike)",
                series=series,
                note="A bar without an interval: the table says why.",
            )
        )
    return figures


def _series(name: str, rows: Sequence[Sequence[records.StudyCell]], at: int) -> records.FigureSeries:
    cells = [cell if isinstance(cell := row[at], records.Estimate) else records.Estimate(value=None) for row in rows]
    return series_of(name, [str(row[0]) for row in rows], cells)


def intersection_figures(models: Sequence[WordScores], show: Sequence[str]) -> list[records.StudyFigure]:
    """C-ASC of some words with every crossed group, a figure for each model."""
    gallery, figures = models[0].gallery, list[records.StudyFigure]()
    crossing, places = gallery.crossings[-1], gallery.words.places(show)
    for model in models:
        associations = model.associations[crossing]
        series = []
        for word, place in zip(show, places, strict=True):
            cells = [associations.estimate(place, group) for group in range(len(associations.groups))]
            series.append(series_of(word, list(associations.groups), cells))
        figures.append(
            records.StudyFigure(
                name=slug("intersections", model.name),
                title=f"C-ASC of words with every group of {records.CROSS.join(crossing)}, {model.name}",
                source="figures 5 and 6",
                kind="bars",
                x_label=records.CROSS.join(crossing),
                y_label="C-ASC (standard deviations)",
                series=series,
                note=_interval(model),
            )
        )
    return figures


def shown_table(models: Sequence[WordScores], show: Sequence[str]) -> records.StudyTable:
    """Who is in the top k of some words."""
    gallery = models[0].gallery
    crossing, rows = gallery.crossings[-1], list[list[records.StudyCell]]()
    for word in show:
        tops = [model.shown(crossing, word) for model in models]
        groups, _, present = tops[0]
        for at, group in enumerate(groups):
            shares = [float(shown[at] / shown.sum()) for _, shown, _ in tops]
            rows.append([word, group, *shares, float(present[at] / present.sum())])
    return records.StudyTable(
        name="top-k-groups",
        title=f"Share of each group of {records.CROSS.join(crossing)} in the top {gallery.k} of a word",
        source="figure 7",
        columns=["word", "group", *(model.name for model in models), "in the release"],
        rows=rows,
        note="Shares of this ranking of this release: no intervals.",
    )


def pictures_of_words(models: WordScores, show: Sequence[str]) -> tuple[records.StudyPicture, bytes]:
    """A sheet of the nearest pictures of some words, a row each, and its PNG."""
    nearest = {word: models.nearest(word, PICTURES) for word in show}
    images = pictures_of(models.gallery.release, (row for rows in nearest.values() for row in rows))
    rows = [(word, [images[row] for row in nearest[word]]) for word in show]
    alt = f"The {PICTURES} pictures nearest to each of the words {', '.join(show)}, nearest first"
    picture = records.StudyPicture(
        name=slug("nearest-pictures", models.name),
        title=f"The {PICTURES} nearest pictures of each word, {models.name}",
        source="figure 7",
        alt=alt[:300],
    )
    return picture, png_of(picture_rows(rows))


def moved_tables(models: Sequence[WordScores]) -> list[records.StudyTable]:
    """What the other models changed against the first: positive and negative words by group, and single words."""
    gallery, first = models[0].gallery, models[0]
    by_valence, by_word = list[list[records.StudyCell]](), list[list[records.StudyCell]]()
    valences = [gallery.words.valence.get(word) for word in gallery.words.words]
    places_of = {label: [place for place, own in enumerate(valences) if own == label] for label in VALENCES}
    for crossing in gallery.crossings:
        before = first.associations[crossing]
        for label in (each for each in VALENCES if places_of[each]):
            places = places_of[label]
            for at, group in enumerate(before.groups):
                changes = [model.associations[crossing].change(before, places, at) for model in models[1:]]
                by_valence.append([f"{label}: {group}", len(places), before.mean(places, at), *changes])
        for model in models[1:]:
            by_word += _moved_words(model, first, crossing)
    tables = []
    if by_valence:
        tables.append(
            records.StudyTable(
                name="moved-valence",
                title=f"Mean C-ASC of positive and negative words by group: {first.name}, and its change",
                source="figures 5 and 6",
                columns=["words: group", "words", first.name, *(f"{model.name}: change" for model in models[1:])],
                rows=by_valence,
                note=f"Above 0: the words moved towards the group. {_interval(first)}",
            )
        )
    tables.append(
        records.StudyTable(
            name="moved-words",
            title=f"The words that moved most towards a group, against {first.name}",
            source="figures 5 and 6",
            columns=["word", "valence", "model", "group", f"C-ASC, {first.name}", "change"],
            rows=by_word,
            note=f"The {MOVED} largest changes of each model and crossing, so that they overstate. {_interval(first)}",
        )
    )
    return tables


def _moved_words(model: WordScores, first: WordScores, crossing: Crossing) -> list[list[records.StudyCell]]:
    before, now, words = first.associations[crossing], model.associations[crossing], first.gallery.words
    gain = np.nan_to_num(now.values - before.values, nan=-np.inf)
    rows: list[list[records.StudyCell]] = []
    for flat in np.argsort(-gain, axis=None, kind="stable")[:MOVED]:
        place, group = (int(at) for at in np.unravel_index(flat, gain.shape))
        word = words.words[place]
        change = now.change(before, [place], group)
        valence = words.valence.get(word, "")
        rows.append([word, valence, model.name, now.groups[group], before.estimate(place, group), change])
    return rows


def association_tables(models: Sequence[WordScores]) -> list[records.StudyTable]:
    """C-ASC of every word with every group, a table for each crossing."""
    words, tables = models[0].gallery.words, list[records.StudyTable]()
    of = {word: [name for name, ones in words.categories.items() if word in ones] for word in words.words}
    for crossing in models[0].gallery.crossings:
        by_model = [model.associations[crossing] for model in models]
        tables.append(
            records.StudyTable(
                name=slug("associations", *crossing),
                title=f"C-ASC of every word with the groups of {records.CROSS.join(crossing)}",
                source="tables 1 and 2, all words" if len(crossing) == 1 else "figures 5 and 6, all words",
                columns=["word", "category", "valence", "group", *(model.name for model in models)],
                rows=[
                    [word, ", ".join(of[word]), words.valence.get(word, ""), group]
                    + [associations.estimate(place, at) for associations in by_model]
                    for place, word in enumerate(words.words)
                    for at, group in enumerate(by_model[0].groups)
                ],
                note=_interval(models[0]),
            )
        )
    return tables


def strength_tables(
    models: Sequence[WordScores], vocabulary: Sequence[str]
) -> tuple[list[records.StudyTable], list[records.StudyFigure]]:
    """How strong every word is: the share of a vocabulary that is no nearer to its k nearest pictures."""
    words, k = models[0].gallery.words, models[0].gallery.k
    strengths: list[Floats] = []
    for model in models:
        baseline = model.strength(vocabulary)
        strengths.append(word_strength(model.strength(list(words.captions.values())), baseline))
    order = np.argsort(-strengths[0], kind="stable")
    note = f"Share of {len(vocabulary):,} words of the vocabulary whose {k} nearest pictures are no nearer, on average."
    by_category: list[list[records.StudyCell]] = []
    for category, members in words.categories.items():
        places, row = words.places(members), list[records.StudyCell]([category, len(members)])
        for strength in strengths:
            low, middle, high = np.quantile(strength[places], [0.25, 0.5, 0.75]).tolist()
            row.append(records.Estimate(value=middle, lo=low, hi=high, n=len(places)))
        by_category.append(row)
    columns = [model.name for model in models]
    tables = [
        records.StudyTable(
            name="strength-by-category",
            title="Strong and weak words: median over each category, with its quartiles",
            source="appendix, strong and weak words",
            columns=["category", "words", *columns],
            rows=by_category,
            note=note,
        ),
        records.StudyTable(
            name="strength",
            title="Strong and weak words, the strongest of the first model first",
            source="appendix, strong and weak words",
            columns=["word", *columns],
            rows=[[words.words[place], *(float(strength[place]) for strength in strengths)] for place in order],
            note=note,
        ),
    ]
    figure = records.StudyFigure(
        name="figure-strength",
        title="Strength of words by category: median and quartiles",
        source="appendix, strong and weak words",
        kind="bars",
        x_label="category of words",
        y_label="share of the vocabulary that is no stronger",
        series=[_series(name, by_category, at) for at, name in enumerate(columns, start=2)],
        reference={"the vocabulary's median": 0.5},
        note=note,
    )
    return tables, [figure]
