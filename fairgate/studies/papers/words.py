"""So-B-IT on one's own models: which words bring up whom, by category and intersection (Hamidieh et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from fairgate.data import Dataset
from fairgate.ground.errors import SettingsError, suggestion
from fairgate.metrics import Crossing
from fairgate.models import EmbeddingCache, SimilarityModel, open_scorer
from fairgate.records import StudyFigure, StudyModel, StudyPicture, StudyTable
from fairgate.studies.papers.contents import StudyContents
from fairgate.studies.papers.word_associations import WordGallery, WordScores, score_words
from fairgate.studies.papers.word_lists import WordList
from fairgate.studies.papers.word_tables import (
    association_tables,
    entropy_figures,
    entropy_tables,
    intersection_figures,
    moved_tables,
    pictures_of_words,
    shown_table,
    strength_tables,
    top_word_tables,
)

PAPER = "Hamidieh et al. 2024, Identifying Implicit Social Biases in Vision-Language Models (So-B-IT)"
SHOWN_WORDS = 6
"""Words of figures 5 to 7 where none are named."""
CHOSEN = (
    "The top word of a group is the largest of many estimates, so that it overstates; its interval is that of a word "
    "that was named before. Look again on other pictures before you rely on one word."
)


@dataclass(frozen=True, slots=True)
class WordsOptions:
    """What a study of words looks at.

    `over` are the attributes (none: all of the release), `show` the words of figures 5 to 7; without them, the words
    nearest to `group` (without it, the first group of the first attribute) by the first model. `vocabulary` are the
    captions that the strength of words is compared with.
    """

    over: Sequence[str] = ()
    group: str | None = None
    show: Sequence[str] = ()
    k: int = 100
    draws: int = 1000
    seed: int = 0
    vocabulary: Sequence[str] = ()
    device: str = "auto"
    root: Path = Path()
    cache: EmbeddingCache | None = None
    allow_pickle: bool = False
    progress: Callable[[str, int, int], None] | None = field(default=None, compare=False)


def words_study(release: Dataset, models: Mapping[str, str], words: WordList, options: WordsOptions) -> StudyContents:
    """Every table and figure. The first of `models`, URIs by name, is the one that others are compared with.

    Raises DatasetError for an attribute that the release lacks, SettingsError for a group, word or k that is not
    there, ModelError for a model that compares no texts with pictures.
    """
    attributes = list(options.over) or list(release.manifest.attributes)
    crossings: list[Crossing] = [(name,) for name in attributes]
    if len(attributes) > 1:
        crossings.append(tuple(attributes))
    gallery = WordGallery(release, words, tuple(crossings), options.k, options.draws, options.seed)
    words.require(options.show, "--show")
    towards = _towards(release, attributes, options.group)
    scored = [_opened(gallery, name, uri, options) for name, uri in models.items()]
    show = list(options.show) or _nearest_words(scored[0], *towards)
    tables, figures = _measured(scored, show, options)
    drawn, pictures, notes = dict[str, bytes](), list[StudyPicture](), [CHOSEN]
    if release.manifest.image_encoding == "none":
        notes.append("The release has labels and no pictures: no sheet of the pictures of a word.")
    else:
        for one in scored:
            picture, data = pictures_of_words(one, show)
            pictures.append(picture)
            drawn[picture.name] = data
    return StudyContents(
        title="Which words bring up whom?",
        paper=PAPER,
        models=[StudyModel(name=one.name, uri=models[one.name], fingerprint=one.model.fingerprint) for one in scored],
        datasets=[release],
        settings={
            "words": f"{words.name}: {len(words.captions)} words in {len(words.categories)} categories",
            "attributes": attributes,
            "k": options.k,
            "resamples of sets": options.draws,
            "seed": options.seed,
            "words of figures 5 to 7": show,
            "vocabulary": f"{len(options.vocabulary):,} words" if options.vocabulary else "none",
        },
        tables=tables,
        figures=figures,
        pictures=pictures,
        drawn=drawn,
        notes=notes,
    )


def _measured(
    scored: Sequence[WordScores], show: Sequence[str], options: WordsOptions
) -> tuple[list[StudyTable], list[StudyFigure]]:
    entropies = entropy_tables(scored)
    strengths, strength_figures = strength_tables(scored, options.vocabulary) if options.vocabulary else ([], [])
    tables = [
        *top_word_tables(scored),
        *entropies,
        *(moved_tables(scored) if len(scored) > 1 else []),
        shown_table(scored, show),
        *strengths,
        *association_tables(scored),
    ]
    return tables, [*entropy_figures(scored, entropies), *intersection_figures(scored, show), *strength_figures]


def _opened(gallery: WordGallery, name: str, uri: str, options: WordsOptions) -> WordScores:
    """A model with its scores of every word."""
    progress = options.progress

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(name, done, total)

    model = open_scorer(
        uri,
        gallery.release,
        device=options.device,
        base=options.root,
        cache=options.cache,
        allow_pickle=options.allow_pickle,
        progress=report,
    )
    return score_words(gallery, name, cast(SimilarityModel, model))  # which requires the capability


def _towards(release: Dataset, attributes: Sequence[str], group: str | None) -> tuple[str, str]:
    """Attribute and group whose words are shown. Raises SettingsError for a group that no attribute has."""
    homes = {one: name for name in attributes for one in release.manifest.attributes.get(name, ())}
    if group is None:
        release.index.codes(attributes)  # DatasetError for an attribute that is not recorded
        return attributes[0], release.manifest.attributes[attributes[0]][0]
    if group not in homes:
        remedy = suggestion(group, homes, f"groups: {', '.join(homes)}")
        raise SettingsError(f"there is no group '{group}'.", where="--group", remedy=remedy)
    return homes[group], group


def _nearest_words(scored: WordScores, attribute: str, group: str) -> list[str]:
    """The words that are nearest to a group."""
    found = scored.associations[attribute,]
    column = found.values[:, found.groups.index(group)]
    words = scored.gallery.words.words
    return [words[place] for place in (-column).argsort(kind="stable")[:SHOWN_WORDS]]
